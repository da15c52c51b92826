"""Bring up everything: database, profiles, library, plan, launch, serve; and end it again."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from control.access.role import Role
from control.access.secret import Secret
from control.actions.apply_spec import WantedFleet, apply_spec
from control.actions.context import ActionContext
from control.actions.decide_plan import accept_solved
from control.actions.end_fleet import end_fleet
from control.actions.tokens import create_token
from control.cloud.local.cloud import LocalCloud
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.kept_database import open_kept_database
from control.db.leader import PostgresLeader
from control.db.projects import PostgresProjects
from control.db.shared_clock import shared_clock
from control.diff.target import targets
from control.file_lock import try_lock
from control.fleet_file.document import read_text
from control.hub.gang import gang_of
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.lifecycle.history import PastTransition
from control.planning.local_profiles import ensure_profiles
from control.planning.report import SERVED, PlanReport
from control.planning.shared_unit import shared_unit
from control.planning.world import World, read_world
from control.reconcile.fleet_planner import Solved
from control.reconcile.live_planner import live_planner
from control.reconcile.ordering import UnrunnableError, weights_of
from control.reconcile.reconcile_ports import ReconcilePorts
from control.reconcile.reconciler import Reconciler
from control.reconcile.stores import ReconcileStores
from control.reconcile.tokenizers import Tokenizers
from control.simulator.attainment import SimulatedAttainment
from control.up.gateway_process import ensure_gateway, running_gateway
from control.up.home import UpHome, write_private
from control.up.serving import AlreadyUpError, Leading, Serving
from control.up.site import Loop, LoopParts, Site
from control.up.steps import Steps
from templates_lib.models.hub_weights import is_on_hub
from templates_lib.models.weights_place import weights_path
from templates_lib.ports.source import Progress
from templates_lib.sources.placement_kinds import executors_of, gpu_executors
from templates_lib.values.clouds import LOCAL
from templates_lib.values.plan import Plan, PlannedInstance

_log = logging.getLogger(__name__)

PROJECT = "medley-up"
"""Project of the fleets that `medley up` serves."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    spec: Path
    home: Path
    database_url: str | None
    actor: str
    """Id of the user, as events name it."""
    host: str
    port: int
    console: Callable[[str], AbstractContextManager[str]]
    """Serves the console for the gateway at a URL; the context's value is its own URL."""


def bring_up(options: UpOptions, steps: Steps, progress: Progress) -> dict[str, str]:
    """Serve until SIGINT, SIGTERM or SIGHUP. Returns nodes that may still run, each with the reason.

    Raises what reading a spec, profiling, planning and the database raise, AlreadyUpError, GatewayError, OSError.
    """
    document = read_text(options.spec)
    world = read_world(options.spec)
    _check_world(world, options.spec)  # before anything is stored, built or planned
    machines = world.fleet.machines
    home = UpHome.below(options.home)
    with ExitStack() as stack:
        stack.enter_context(_alone(home))
        with steps.step("database") as done:
            upgrade = options.database_url is None
            database = stack.enter_context(
                open_kept_database(options.database_url, lambda what: _warn(steps, what), upgrade=upgrade)
            )
            done.text = database.name
        with steps.step("profiles") as done:
            ensure_profiles(world, options.home, progress, _now().isoformat(timespec="seconds"))
            done.text = f"{', '.join(machine.name for machine in machines)} measured"
        planner = live_planner(database, options.home, progress, SimulatedAttainment)
        stores = ReconcileStores.of(database)
        record = _on_record(_act(database, options), world, document, str(options.spec.absolute().parent))
        with steps.step("plan") as done:
            solved = planner.solve(record, stores.instances.living(), _now(), baselines=True)
            done.text = _summary(solved.report)
        for planned in solved.plan.instances:
            steps.say(_placement(planned))
        _check_local(solved)
        accept_solved(_act(database, options), record.name, solved.plan.id)
        with steps.step("gateway") as done:
            before = running_gateway(home)
            gateway = ensure_gateway(home, options.host, options.port)
            if gateway != before:
                stack.callback(gateway.stop)  # should it never come to serving; else it is ended in its turn
            key = ensure_api_key(home.api_key, _act(database, options))
            done.text = gateway.url
        with steps.step("console") as done:
            done.text = stack.enter_context(options.console(gateway.url))
        leader = PostgresLeader(database, f"medley up, process {os.getpid()}")
        stack.callback(leader.resign)
        cloud = LocalCloud(home.cloud, [machine.kind for machine in machines])

        def on_transition(_fleet: str, step: PastTransition) -> None:
            serving.on_transition(step)

        def reach(world: World, plan: Plan) -> None:
            """Make the local cloud offer the machines of a plan, also where somebody else applied the spec."""
            _check_reach(plan)
            cloud.offer(machine.kind for machine in world.fleet.machines)

        now = shared_clock(database)

        def loop(parts: LoopParts) -> Loop:
            return Leading(
                Reconciler(
                    ReconcilePorts(
                        stores, leader, planner, parts.keeper, parts.publisher, parts.effects, now,
                        on_transition=on_transition,
                        starts={LOCAL: parts.start}, reach=reach, tokenizer=Tokenizers(home.tokenizers, parts.effects),
                    )
                ),
                steps,
            )  # fmt: skip

        site = Site(home, database, cloud, loop, options.host, options.port, now, lambda: leader.epoch)
        serving = Serving(steps, gateway, key, solved)
        return asyncio.run(serving.serve(site))


def _check_world(world: World, spec: Path) -> None:
    """Raises UnrunnableError for a fleet that cannot run here, NoWeightsError for an app whose weights are not here."""
    weights_of(world)
    if not world.fleet.machines:
        raise UnrunnableError(f"`medley up` runs the local cloud only, which {spec} does not name")
    if world.never_started:
        raise UnrunnableError("; ".join(world.never_started))
    for run in world.fleet.app_runs.values():  # text models' are looked for when their nodes are measured
        if not is_on_hub(run.weights):
            weights_path(run.weights)


def _act(database: Database, options: UpOptions) -> ActionContext:
    return ActionContext(database, _now(), options.actor, "medley up")


def _warn(steps: Steps, what: str) -> None:
    _log.warning("%s", what)
    steps.say(f"database   {what}")


def _on_record(act: ActionContext, world: World, spec: str, folder: str) -> FleetRecord:
    """The fleet as it is asked for now; it takes the place of any other that was brought up here."""
    with act.as_one() as one:
        known = {record.name: record for record in PostgresFleets(one.database).all()}
        PostgresProjects(one.database).ensure(PROJECT, act.now)
        for other in known.values():
            if other.name != world.name and other.project == PROJECT and not other.ending:
                end_fleet(one, other.name, None)
        before = known.get(world.name)
        wanted = WantedFleet(world, spec, folder, FleetMode.AUTO, None if before else PROJECT)
        if before and wanted.record(before, act.now) == replace(before, updated_at=act.now.isoformat()):
            return before
        return apply_spec(one, wanted, before, None, preflight=False)  # all of it is on this machine


def _check_local(solved: Solved) -> None:
    _check_reach(solved.plan)
    if not solved.plan.instances and any(demand.requests_per_s > 0 for demand in solved.snapshot.demand):
        raise UnrunnableError("the plan runs nothing: no demand can be served (`medley explain` says why)")
    for planned in targets(solved.plan):
        gang_of(planned.template)


def _check_reach(plan: Plan) -> None:
    away = sorted({i.zone.partition("/")[0] for i in plan.instances} - {LOCAL})
    if away:
        raise UnrunnableError(f"the plan rents at {', '.join(away)}: `medley up` runs the local cloud only")


def _summary(report: PlanReport) -> str:
    plan = report.plan
    unmet = {key: rate for key, rate in plan.unmet.items() if rate > SERVED}
    missing = f"; NOT met: {', '.join(f'{key} {rate:.3g}/s' for key, rate in unmet.items())}" if unmet else ""
    count = sum(planned.count for planned in plan.instances)
    return f"{count} instances, {plan.usd_per_hour:.3f} $/h, step times {report.basis.cost_model}{missing}"


def _placement(planned: PlannedInstance) -> str:
    if unit := shared_unit(planned):
        nodes = "+".join(planned.nodes).partition(":")[0]
        return f"  {planned.count} x {planned.model}: on one {nodes}, with {unit.kv_gib:.1f} GiB of KV cache together"
    parts = [
        f"{len(each.devices)} x {'+'.join(each.components)} on {'+'.join(planned.nodes).partition(':')[0]}"
        for each in gpu_executors(planned)
    ]
    for stage in (stage for each in executors_of(planned) or () for stage in each.stages):
        nodes = " + ".join(f"{each.count} x {each.config.partition(':')[0]}" for each in stage.nodes)
        parts.append(f"layers {stage.first_layer}-{stage.first_layer + stage.layers - 1} on {nodes}")
    return f"  {planned.count} x {planned.model} {planned.phase}: {'; '.join(parts)}"


@contextmanager
def _alone(home: UpHome) -> Iterator[None]:
    with home.lock.open("ab") as lock:
        if not try_lock(lock):
            raise AlreadyUpError(
                f"`medley up` runs already in {home.root.parent}: end it, or choose another MEDLEY_HOME"
            )
        yield


def _now() -> datetime:
    return datetime.now(UTC)


def ensure_api_key(path: Path, act: ActionContext) -> Secret:
    """Return the token of `path`, if it works; make a new one otherwise. Only the file's owner may read it."""
    if path.exists():
        kept = Secret(path.read_text(errors="replace").strip())
        if PostgresApiTokens(act.database).authenticate(kept, act.now) is not None:
            return kept
    _, made = create_token(act, "medley up", Role.CLIENT)
    write_private(path, made.reveal().encode())
    return made

"""Everything from nothing: database, profiles, library, plan, launch, serve; and back to nothing."""

import asyncio
import fcntl
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from control.access.secret import Secret
from control.cloud.local.cloud import LocalCloud
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database, open_database
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from control.planning.local_profiles import ensure_profiles
from control.planning.report import SERVED, PlanReport
from control.planning.session import Session
from control.planning.world import local_machines, read_world
from control.up.api_key import ensure_api_key
from control.up.fleet_order import fleet_order, routing, weights_of
from control.up.gateway_process import GatewayProcess, ensure_gateway, running_gateway
from control.up.greeting import Greeting
from control.up.home import UpHome
from control.up.site import Site, keep_up
from control.up.steps import Steps
from templates_lib.plan import Plan, PlannedInstance
from templates_lib.source import Progress


class AlreadyUpError(ValueError):
    """Another `medley up` runs in this home."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    spec: Path
    home: Path
    database_url: str | None
    host: str
    port: int


def bring_up(options: UpOptions, steps: Steps, progress: Progress) -> dict[str, str]:
    """Serve until SIGINT, SIGTERM or SIGHUP; what may still run afterwards, and why.

    Raises what reading a spec, profiling, planning and the database raise, AlreadyUpError, GatewayError, OSError.
    """
    world = read_world(options.spec)
    weights = weights_of(world)
    machines = local_machines(world.fleet)
    home = UpHome.below(options.home)
    with ExitStack() as stack:
        stack.enter_context(_alone(home))
        with steps.step("database") as done:
            database = stack.enter_context(open_database(options.database_url, upgrade=options.database_url is None))
            done.text = database.name
        with steps.step("profiles") as done:
            world = ensure_profiles(world, options.home, progress, _now().isoformat(timespec="seconds"))
            done.text = f"{', '.join(machine.name for machine in machines)} measured"
        session = Session(PostgresLibraries(database), PostgresPlans(database), progress, time.perf_counter)
        with steps.step("library") as done:
            recording, templates = session.record(world, _now().isoformat(timespec="seconds"))
            done.text = f"{templates.library.size:,} templates"
        with steps.step("plan") as done:
            report = session.plan(recording, templates, baselines=False)
            done.text = _summary(report)
        for planned in report.plan.instances:
            steps.say(_placement(planned))
        plan, snapshot = report.plan, recording.snapshot
        earlier = _earlier(database, world.name, plan.id)
        order = fleet_order(world, machines, plan, snapshot, weights, earlier)
        with steps.step("gateway") as done:
            before = running_gateway(home)
            gateway = ensure_gateway(home, options.host, options.port)
            if gateway != before:
                stack.callback(gateway.stop)  # should it never come to serving; else it is ended in its turn
            key = ensure_api_key(home.api_key, PostgresApiTokens(database), _now())
            done.text = gateway.url
        cloud = LocalCloud(home.cloud, [machine.kind for machine in machines])
        site = Site(home, database, cloud, order, routing(world, plan, weights), options.host, options.port)
        return asyncio.run(_serve(site, gateway, key, steps))


async def _serve(site: Site, gateway: GatewayProcess, key: Secret, steps: Steps) -> dict[str, str]:
    stop, missing = asyncio.Event(), sum(w.count for w in site.order.wanted)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    greeting = Greeting(steps, gateway.url, key, site.order.files, missing)

    def said(step: PastTransition) -> None:
        steps.say(f"{step.instance_id:<14} {step.from_state} -> {step.to_state}: {step.reason}")
        (greeting.ready if step.to_state is InstanceState.READY else greeting.gone)(step.instance_id)

    def found_ready(instances: set[str]) -> None:
        """Of an earlier run."""
        for instance in instances:
            greeting.ready(instance)

    try:
        left = await keep_up(site, gateway, said, found_ready, stop)
    finally:
        greeting.close()
    for node, why in left.items():
        steps.say(f"left       {node}: {why}")
    steps.say("down       nothing runs any more" if not left else "down       see above for what may still run")
    return left


def _summary(report: PlanReport) -> str:
    plan = report.plan
    unmet = {key: rate for key, rate in plan.unmet.items() if rate > SERVED}
    missing = f"; NOT met: {', '.join(f'{key} {rate:.3g}/s' for key, rate in unmet.items())}" if unmet else ""
    count = sum(planned.count for planned in plan.instances)
    return f"{count} instances, {plan.usd_per_hour:.3f} $/h, step times {report.basis.cost_model}{missing}"


def _placement(planned: PlannedInstance) -> str:
    stages = planned.placement.payload["stages"] if planned.placement is not None else ()
    parts = []
    for stage in stages:
        nodes = " + ".join(f"{each['count']} x {each['config'].partition(':')[0]}" for each in stage["nodes"])
        parts.append(f"layers {stage['first_layer']}-{stage['first_layer'] + stage['layers'] - 1} on {nodes}")
    return f"  {planned.count} x {planned.model} {planned.phase}: {'; '.join(parts)}"


def _earlier(database: Database, fleet: str, now: str) -> list[Plan]:
    plans = PostgresPlans(database)
    loaded = []
    for plan in PostgresInstances(database).plans_of_fleet(fleet):
        try:
            if plan == now:
                continue
            loaded.append(plans.load(plan))
        except LookupError:
            continue  # it was thrown away: its instances are ended without knowing what they run
    return loaded


@contextmanager
def _alone(home: UpHome) -> Iterator[None]:
    with home.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyUpError(
                f"`medley up` runs already in {home.root.parent}: end it, or choose another MEDLEY_HOME"
            ) from None
        yield


def _now() -> datetime:
    return datetime.now(UTC)

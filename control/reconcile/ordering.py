"""The fleet wanted by a plan, and the order in which it is reached."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial

from control.diff.supply import supply_of
from control.diff.target import Target, targets
from control.executor.node_start import NodeStart
from control.fleet.order import FleetOrder
from control.fleet.routing import Routing, gateway_model
from control.hub.deployed import ModelFiles
from control.hub.gang import Gang, UnplaceableError, gang_of, read_gang
from control.planning.disks import disk_of, engines_on
from control.planning.executor_rates import ExecutorRates
from control.planning.local_market import local_config
from control.planning.sharing import NOT_RUN, with_shared
from control.planning.unit_sources import longest_tokens
from control.planning.world import World
from control.reconcile.app_routing import app_files, app_routing, hold_of
from control.reconcile.tokenizers import tokenizer_here
from control.timing.text_pipelines import TextPipelines
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.held_model import refusal_at
from templates_lib.values.clouds import LOCAL
from templates_lib.values.engines import engines_at, model_engines
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import ServingTemplate


class UnrunnableError(ValueError):
    """The plan needs what this control plane does not have; the message says what."""


def fleet_order(
    world: World,
    plan: Plan,
    snapshot: Snapshot,
    earlier: Iterable[Plan],
    starts: Mapping[str, NodeStart],
    acts: bool = True,
    gang: Callable[[ServingTemplate], Gang] = gang_of,
) -> FleetOrder:
    """Make the order of a fleet. `snapshot`: its newest, whose offers are rented from. `earlier`: plans whose instances
    may still run. `starts`: cloud → what a new node of it runs. `gang`: what it can run.

    Raises UnrunnableError, UnplaceableError, and ValueError as `targets` does."""
    to_run, weights = targets(plan), weights_of(world)
    away = sorted({_cloud(each) for each in to_run} - set(starts))
    if away and acts:
        raise UnrunnableError(f"the plan rents at {', '.join(away)}, and this control plane runs {_list(starts)} only")
    for each in to_run:
        gang(each.template)
        if acts:
            _check_engine(each, starts[_cloud(each)].engines)
            _check_unit(each)
            _check_checkpoint(each, world)
    guardrails = snapshot.settings.guardrails
    return FleetOrder(
        name=world.name,
        wanted=to_run,
        earlier=tuple(old for each in earlier for old in _readable(each)),
        supply=supply_of(snapshot.offers, snapshot.pools, snapshot.held_nodes(), guardrails.max_unproven_nodes),
        files={served.name: _files(served, weights) for served in world.recipe.served} | app_files(world),
        memory_mib={local_config(machine).id: machine.memory_mib for machine in world.fleet.machines},
        starts=dict(starts),
        disk_gib={
            each.template.id: each.disk_gib
            or disk_of(each.template, each.model, world.recipe.served, world.fleet.graph_apps)
            for each in to_run
        },
        disks=snapshot.charged_disks,
        limits=world.fleet.limits,
        acts=acts,
    )


def unrunnable(world: World, plan: Plan) -> tuple[str, ...]:
    """Return why no control plane could run the plan, whatever clouds it reaches; empty when one could. Raises
    ValueError as `targets` does."""
    checks: list[Callable[[], object]] = [partial(weights_of, world)]
    for each in targets(plan):
        checks += [partial(_check_engine, each, engines_at(_cloud(each))), partial(gang_of, each.template)]
        checks += [partial(_check_unit, each), partial(_check_checkpoint, each, world)]
    found = []
    for check in checks:
        try:
            check()
        except (UnrunnableError, UnplaceableError) as error:
            found.append(str(error))
    return tuple(dict.fromkeys(found))


def _check_engine(each: Target, engines: Collection[str]) -> None:
    for engine in (engine for engine in engines_on(each.template) if engine not in engines):
        others = [name for name in engines if name in model_engines()]
        raise UnrunnableError(
            f"{each.model} is planned on engine {engine}, which nodes of {_cloud(each)} do not have yet: set `engine` "
            f"to {_list(others)}, which they start, or look at the plan only"
        )


def _check_unit(each: Target) -> None:
    if _cloud(each) != LOCAL and read_gang(each.template).pool_bytes:
        raise UnrunnableError(f"{each.model} share a node of {_cloud(each)}: {NOT_RUN}")


def _check_checkpoint(each: Target, world: World) -> None:
    """Raises UnrunnableError where nodes of the target's cloud run less than their engine could."""
    served = next((one for one in world.recipe.served if one.name == each.model), None)
    stored = None if served is None else served.model.stored
    why = None if stored is None else refusal_at(_cloud(each), each.template.engine, each.model, stored)
    if why is not None:
        raise UnrunnableError(why)


def _cloud(each: Target) -> str:
    return each.zone.partition("/")[0]


def routing(world: World, plan: Plan, created: datetime, tokenizer: Callable[[str], str] = tokenizer_here) -> Routing:
    """Make the routing of a plan. `created`: since when clients are told that the models exist. `tokenizer`: where
    weights are → where gateways find what turns text into tokens. An app that cannot be asked is left out, and it says
    why.

    Raises what `tokenizer` does, and UnrunnableError for a model whose weights are not known."""
    weights, made = weights_of(world), int(created.timestamp())
    models = {}
    for app in world.fleet.apps:
        hold = hold_of(world, app.name)
        for each in app.request_types:
            found, longer = tokenizer(weights[each.served.name]), app.longer(each)
            served = with_shared(each.served, world.fleet.sharing)
            models[served.name] = gateway_model(served, found, made, world.name, hold, longer)
    graphs = app_routing(world, created, tokenizer)
    times, rates = TextPipelines(world.recipe).prompt_times, ExecutorRates(world.sources).of
    return Routing(plan, models | graphs.models, times, rates, graphs.apps, graphs.unserved)


def weights_of(world: World) -> dict[str, str]:
    """Name in the fleet → where the weights are, of models and apps. Raises UnrunnableError."""
    runs = world.fleet.app_runs
    missing = [served.model.id for served in world.recipe.served if served.model.id not in world.weights]
    missing += [app.name for app in world.fleet.graph_apps if app.name not in runs]
    if missing:
        raise UnrunnableError(
            f"it is not known where the weights of {', '.join(missing)} are: set `weights` of the model or app to "
            "hf:ORG/NAME, package:NAME or path:PATH"
        )
    text = {served.name: world.weights[served.model.id] for served in world.recipe.served}
    return text | {name: run.weights for name, run in runs.items()}


def _files(served: ServedModel, weights: Mapping[str, str]) -> ModelFiles:
    model = served.model
    sizes = model.vocab_size, model.max_context_tokens
    lengths = sum(served.shape.mean_tokens), longest_tokens(served)
    return ModelFiles(
        served.name, weights[served.name], *sizes, served.prefix_cache, 0, *lengths, speculation=served.speculation
    )


def _readable(plan: Plan) -> tuple[Target, ...]:
    try:
        return targets(plan)
    except ValueError:
        return ()


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "no cloud"

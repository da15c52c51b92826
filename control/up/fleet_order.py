"""From a plan for this machine to what is kept running, and to how it is reached."""

import time
from collections.abc import Iterable
from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.fleet.keeper import FleetOrder
from control.fleet.routing import Front, Routing
from control.fleet.wanted import Wanted, wanted
from control.hub.deployed import ModelFiles
from control.hub.gang import gang_of
from control.planning.local_market import CLOUD, local_config
from control.planning.world import World
from templates_lib.plan import Plan
from templates_lib.served_model import ServedModel
from templates_lib.snapshot import Snapshot
from templates_lib.weights_place import weights_path


class NotLocalError(ValueError):
    """The fleet needs what `medley up` does not run; the message says what."""


def fleet_order(
    world: World,
    machines: Iterable[LocalMachine],
    plan: Plan,
    snapshot: Snapshot,
    weights: dict[str, str],
    earlier: Iterable[Plan],
) -> FleetOrder:
    """`weights`: model name → where its weights are. `earlier`: plans whose instances may still run.

    Raises NotLocalError, UnplaceableError, and ValueError as `wanted` does."""
    away = sorted({i.zone.partition("/")[0] for i in plan.instances} - {CLOUD})
    if away:
        raise NotLocalError(f"the plan rents at {', '.join(away)}: `medley up` runs the local cloud only")
    to_run = wanted(plan)
    if not to_run:
        raise NotLocalError("the plan runs nothing: no demand can be served (`medley explain` says why)")
    for each in to_run:
        gang_of(each.template)
    return FleetOrder(
        name=world.name,
        wanted=to_run,
        earlier=tuple(old for each in earlier for old in _readable(each)),
        offers=snapshot.offers,
        files={served.name: _files(served, weights) for served in world.recipe.served},
        memory_mib={local_config(machine).id: machine.memory_mib for machine in machines},
    )


def routing(world: World, plan: Plan, weights: dict[str, str]) -> Routing:
    """Raises NoWeightsError for a model whose tokenizer is not on this machine."""
    fronts = {s.name: Front(str(_tokenizer(weights[s.name])), int(time.time())) for s in world.recipe.served}
    return Routing(plan, {served.name: served for served in world.recipe.served}, fronts)


def weights_of(world: World) -> dict[str, str]:
    """Name in the fleet → where the weights are. Raises NotLocalError."""
    missing = [served.model.id for served in world.recipe.served if served.model.id not in world.weights]
    if missing:
        raise NotLocalError(
            f"it is not known where the weights of {', '.join(missing)} are: set `weights` of the model to "
            "package:NAME or path:PATH"
        )
    return {served.name: world.weights[served.model.id] for served in world.recipe.served}


def _files(served: ServedModel, weights: dict[str, str]) -> ModelFiles:
    model = served.model
    return ModelFiles(served.name, weights[served.name], model.vocab_size, model.max_context_tokens)


def _readable(plan: Plan) -> tuple[Wanted, ...]:
    try:
        return wanted(plan)
    except ValueError:
        return ()


def _tokenizer(weights: str) -> Path:
    folder = weights_path(weights)
    return next(iter(sorted(folder.glob("*.gguf"))), folder) if folder.is_dir() else folder

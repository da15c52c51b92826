"""The pipelines that are compared: the best template of each kind that this machine's local nodes make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from bench.local_throughput import Promise, promises
from bench.text_tables import DECODE, PREFILL, WHOLE
from control.cloud.local.kinds import LocalMachine
from control.planning.local_profiles import ensure_profiles
from control.planning.recipe import PipelineRecipe
from control.planning.world import World, read_world
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.node_profile import NodeProfile
from templates_lib.values.placement import PipelinePlacement
from templates_lib.values.template import ServingTemplate
from templates_lib.values.work import Phase

FLEET = Path(__file__).with_name("fleet.yaml")
LEG = {Phase.AGGREGATED: WHOLE, Phase.PREFILL: PREFILL, Phase.DECODE: DECODE}


@dataclass(frozen=True, slots=True)
class Part:
    """One instance of a shape."""

    leg: str
    """A value of `agents.messages.to_scheduler.Leg`."""
    template: ServingTemplate
    units_per_s: float
    """Of its template: requests where it does the whole, else tokens of its phase."""

    @property
    def placement(self) -> PipelinePlacement:
        return msgspec.convert(self.template.placement.payload, PipelinePlacement)


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What is measured on: nodes of this machine with their profiles, a model, lengths of requests."""

    world: World
    served: ServedModel
    machines: tuple[LocalMachine, ...]


def setup(home: Path, now: str, again: bool = False) -> Setup:
    """`home`: of a Medley, for its profiles. They are measured where missing, or `again`: by a sweep of steps, apart
    from all runs that are compared."""
    world = ensure_profiles(read_world(FLEET), home, lambda *_: None, now, again=again)
    (served,) = (replace(one, shape=lengths()) for one in world.recipe.served)
    return Setup(world, served, world.fleet.machines)


def recipe_with(profiles: tuple[NodeProfile, ...]) -> PipelineRecipe:
    """What simulations read step times from."""
    recipe = read_world(FLEET).recipe
    return replace(recipe, served=tuple(replace(one, shape=lengths()) for one in recipe.served), profiles=profiles)


def lengths() -> WorkloadShape:
    """Prompts of 84 and outputs of 15 tokens in the mean, as spread as conversations are: short, so that a run of a
    minute sees many."""
    random = np.random.default_rng(1)
    prompt = np.clip(random.lognormal(np.log(80), 0.5, 256), 16, 256).astype(np.int32)
    output = np.clip(random.lognormal(np.log(14), 0.5, 256), 2, 48).astype(np.int32)
    return WorkloadShape("fidelity", prompt, output)


def parts(shape: str, made: Setup) -> tuple[Part, ...]:
    """Raises RuntimeError where this machine has no such template."""
    recipe = replace(made.world.recipe, served=(made.served,), unpruned=(made.served.name,))
    every = tuple(promises(recipe, made.machines))
    return tuple(_best(every, *wanted) for wanted in SHAPES[shape])


def requests_per_s(held: Sequence[Part], served: ServedModel) -> float:
    """That the templates promise: of two legs, the slower."""
    mean = {WHOLE: 1.0, PREFILL: served.shape.mean_prompt_tokens, DECODE: served.shape.mean_output_tokens}
    return min(part.units_per_s / mean[part.leg] for part in held)


def _nodes(*kinds: str) -> Callable[[Promise], bool]:
    """One node of each of these kinds, a stage each."""

    def fits(promise: Promise) -> bool:
        found = sorted(n.config.partition(":")[0] for stage in promise.placement.stages for n in stage.nodes)
        return not promise.has_peers and found == sorted(kinds)

    return fits


def _uneven(promise: Promise) -> bool:
    stages = promise.placement.stages
    return not promise.has_peers and len({stage.layers for stage in stages}) == len(stages) > 1


def _peers(promise: Promise) -> bool:
    return promise.has_peers and len(promise.placement.stages) > 1


SHAPES: dict[str, tuple[tuple[Phase, Callable[[Promise], bool]], ...]] = {
    "one": ((Phase.AGGREGATED, _nodes("local-large")),),
    "stages": ((Phase.AGGREGATED, _uneven),),
    "peers": ((Phase.AGGREGATED, _peers),),
    "disaggregated": (
        (Phase.PREFILL, _nodes("local-large")),
        (Phase.DECODE, _nodes("local-small", "local-small")),
    ),
}
"""Phase of each instance, and which of its templates may be taken."""


def _best(every: Sequence[Promise], phase: Phase, fits: Callable[[Promise], bool]) -> Part:
    able = [promise for promise in every if promise.phase is phase and fits(promise)]
    if not able:
        raise RuntimeError(f"{FLEET.name} makes no {phase} template of this kind on this machine")
    best = max(able, key=lambda promise: promise.tokens_per_s)
    return Part(LEG[phase], best.template, best.tokens_per_s)

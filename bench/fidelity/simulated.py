"""The simulated half: a recording's requests through the simulator, over the same templates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.fidelity.recording import Recording
from bench.text_tables import life_member, text_model
from control.planning.cost_models import cost_models_of
from control.planning.recipe import PipelineRecipe
from control.simulator.serving.fleet_timeline import FleetTimeline, InstanceLife
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate
from control.timing.template_model import TemplateModels

ZONE = "here"
PATIENCE_S = 600.0
"""Behind the last arrival."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Latencies:
    """(n,), by arrival."""

    prefill_s: Floats
    """From arrival to the first token."""
    decode_s: Floats
    """Of each further token, in the mean."""


def real(recording: Recording) -> Latencies:
    rows = [(seen.arrival_s, seen.token_s[0], seen.token_s[-1], len(seen.token_s)) for seen in recording.requests]
    return _latencies(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))


def simulated(recording: Recording, recipe: PipelineRecipe) -> Latencies:
    """With the profiles of `recipe`. Raises RuntimeError where a request is not served whole."""
    (model,) = recipe.served
    models = TemplateModels(model.model, {node.id: node for node in recipe.nodes}, cost_models_of(recipe)[model.engine])
    lives = tuple(
        InstanceLife(str(number), model.name, part.leg, ZONE, models.pipeline(part.template))
        for number, part in enumerate(recording.parts)
    )
    table = text_model(model.name, map(life_member, lives))
    asked = recording.requests
    requests = Requests(
        (model.name,),
        np.zeros(len(asked), np.int32),
        np.array([one.arrival_s for one in asked]),
        np.array([one.prompt_tokens for one in asked], np.int32),
        np.array([one.output_tokens for one in asked], np.int32),
    )
    fleet = FleetTimeline(lives, ((0.0, (table,)),), asked[-1].arrival_s + PATIENCE_S)
    served = simulate(requests, fleet, ServingSettings(admits=False))
    made = np.asarray(served.made_tokens)
    if not ((served.outcome == Outcome.SERVED) & (made == requests.output_tokens)).all():
        raise RuntimeError(f"the simulation of {recording.shape} at {recording.load:.0%} does not serve every request")
    return _latencies(requests.arrival_s, served.first_token_s, served.finish_s, made)


def _latencies(arrival_s: Floats, first_s: Floats, last_s: Floats, tokens: NDArray[np.number]) -> Latencies:
    return Latencies(first_s - arrival_s, (last_s - first_s) / (tokens - 1))

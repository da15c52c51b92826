"""The same requests through the real local runtime and through the simulator, as `bench.fidelity` compares them. What
is compared here is what becomes of them, not how long they take."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.fidelity.recording import read, write
from bench.fidelity.runtime import record
from bench.fidelity.shapes import FLEET, Setup, lengths, parts
from bench.fidelity.simulated import real, simulated
from bench.fidelity.trace import poisson
from control.cloud.local.kinds import LocalMachine
from control.planning.local_market import local_config
from control.planning.world import read_world
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.values.node_profile import NodeProfile, ProfileErrors

REQUESTS_PER_S, SECONDS = 2.0, 5.0
CPU_S = {
    "step": 6e-4, "token": 4e-6, "layer": 7.6e-4, "layer_few_rows": 0.0, "layer_row": 4e-5, "layer_request": 5e-6,
    "layer_prompt_attention": 5e-8, "layer_decode_attention": 3e-7, "head": 4e-3, "head_few_rows": 1e-4,
    "head_row": 3e-4,
}  # fmt: skip
"""Of a processor of 2025: what a node is given to do must fit it, no more."""

pytestmark = pytest.mark.slow


def profile(machine: LocalMachine) -> NodeProfile:
    return NodeProfile(
        subject=machine.name,
        measured_at="2026-11-22",
        machine="any",
        engine="torch",
        model="smollm2-135m-instruct",
        dtype="fp32",
        config=local_config(machine).id,
        cpu_cores=machine.cpu_cores,
        step_terms_s={name: seconds / machine.cpu_cores for name, seconds in CPU_S.items()},
        errors=ProfileErrors(0, 0.0, 0.0),
        pipeline=PipelineCost(1.5e-3, 8e-6, 0.0, 1e-3, 1e-3, 0.01),
        hand_off=HandOffCost(2e-9, 1e-9),
    )


@pytest.mark.parametrize("shape", ["stages", "disaggregated"])
def test_what_the_runtime_serves_the_simulator_serves_token_by_token(shape: str, tmp_path: Path):
    world = read_world(FLEET)
    (given,) = world.recipe.served
    served = replace(given, shape=lengths(), slo=replace(given.slo, ttft_ms=4000, tpot_ms=600))  # as CPU_S can keep
    machines = world.fleet.machines
    recipe = replace(world.recipe, served=(served,), profiles=tuple(map(profile, machines)))
    made = Setup(replace(world, recipe=recipe), served, machines)
    asked = poisson(served.shape, REQUESTS_PER_S, SECONDS, seed=7)
    (found,) = record(made, shape, parts(shape, made), {1.0: asked}, tmp_path)
    write(found, tmp_path / "kept" / "run.json")
    kept = read(tmp_path / "kept" / "run.json")
    assert kept == found
    assert [len(seen.token_s) for seen in kept.requests] == [one.output_tokens for one in asked]
    for latencies in (real(kept), simulated(kept, recipe)):  # which raises where a token is missing
        assert len(latencies.prefill_s) == len(latencies.decode_s) == len(asked)
        assert (latencies.prefill_s > 0).all()
        assert (latencies.decode_s > 0).all()
        assert np.isfinite(latencies.decode_s).all()

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
from control.planning.world import local_machines, read_world

REQUESTS_PER_S, SECONDS = 2.0, 5.0

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shape", ["stages", "disaggregated"])
def test_what_the_runtime_serves_the_simulator_serves_token_by_token(shape: str, tmp_path: Path):
    world = read_world(FLEET)
    served = replace(world.recipe.served[0], shape=lengths())
    recipe = replace(world.recipe, served=(served,))
    made = Setup(world, served, local_machines(world.fleet))
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

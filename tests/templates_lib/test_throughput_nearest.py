"""An objective that nobody can meet names the nearest configuration and what it lacks."""

import numpy as np
import pytest

from bench.placement_oracles.best_placement import best_placement
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.pipeline_source import even_budgets
from templates_lib.throughput.nearest import NearestMiss, nearest_miss
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase
from tests.templates_lib import throughput_worlds as worlds

COST = worlds.Roofline(
    {"G": worlds.gpu("G"), "F": worlds.gpu("F", hbm_gbps=30000.0), "S": worlds.gpu("S", memory_gib=1)}
)
NODES = [worlds.node("G"), worlds.node("F"), worlds.node("S")]


def nearest(served: ServedModel, phase: Phase, stages: int = 4) -> NearestMiss:
    found = nearest_miss(served, phase, NODES, COST.gpus, COST, [stages] * len(NODES))
    assert found is not None
    return found


@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.DECODE, Phase.AGGREGATED])
def test_meeting_what_the_nearest_needs_makes_it_feasible(phase: Phase) -> None:
    hasty = worlds.served(ttft_ms=5000.0, tpot_ms=0.1) if phase is not Phase.PREFILL else worlds.served(ttft_ms=0.1)
    miss = nearest(hasty, phase)
    assert miss.work_class == f"toy/{phase.value}"
    assert miss.config == "F:1/n25"
    assert miss.has_ms == 0.1
    assert miss.short_ms == pytest.approx(miss.needs_ms - 0.1)
    assert miss.short_ms > 0

    def feasible(slack: float) -> bool:
        ms = miss.needs_ms * slack
        served = worlds.served(ttft_ms=5000.0, tpot_ms=ms) if phase is not Phase.PREFILL else worlds.served(ttft_ms=ms)
        table = throughput_table(served, phase, [NODES[1]], COST.gpus, COST, even_budgets(ms, 4))
        return any(best_placement(table.units_per_s, {0: nodes}) for nodes in range(1, 5))

    assert feasible(1.001)
    assert not feasible(0.999)


def test_text_says_which_by_how_much_and_why() -> None:
    miss = NearestMiss("toy/decode", "H100:8/n200", 1, StageRole.ONLY, 12.34, 5.0)
    assert str(miss) == "nearest is H100:8/n200: 12.34 ms against 5 ms, 7.34 ms too slow (one stage)"
    piped = NearestMiss("toy/decode", "L4:1/n25", 3, StageRole.LAST, 120.0, 100.0)
    assert (
        str(piped) == "nearest is 3 × L4:1/n25: 120 ms against 100 ms, 20 ms too slow (its last stage is the slowest)"
    )


def test_a_model_that_only_fits_in_parts_is_tried_as_a_pipeline() -> None:
    big = worlds.served(worlds.model(64), tpot_ms=1.0)
    small = [worlds.node("S")]
    assert nearest_miss(big, Phase.DECODE, small, COST.gpus, COST, [4]) is None, "at most four stages do not hold it"
    found = nearest_miss(big, Phase.DECODE, small, COST.gpus, COST, [64])
    assert found is not None
    assert found.stages > 4
    assert np.isfinite(found.needs_ms)

"""T̂ of the paper's six models on real nodes, for the placement tests."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.catalogue import load_models
from templates_lib.sources.pipeline_source import even_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.slo import Slo
from templates_lib.values.work import Phase

OBJECTIVES_MS = {
    "gpt-oss-20b": (900.0, 30.0),
    "gpt-oss-120b": (1000.0, 40.0),
    "phi-4-14b": (1200.0, 60.0),
    "qwen3-32b": (1600.0, 100.0),
    "llama-3-70b": (1500.0, 80.0),
    "qwen3-235b-a22b": (1800.0, 120.0),
}
"""Model → TTFT, TPOT: Table 3 of the Coral paper."""
CONFIGS = (
    "L4:1/n10",
    "L4:4/n25",
    "A10G:4/n25",
    "L40S:1/n25",
    "L40S:4/n100",
    "A100-80:2/n100",
    "H100:1/n100",
    "H100:8/n200",
)
PHASES = (Phase.PREFILL, Phase.DECODE)
MOST_NODES = 6
SHAPE = WorkloadShape("test", np.array([500, 1000, 2000], dtype=np.int32), np.array([100, 200, 300], dtype=np.int32))


@cache
def real_units(model: str, phase: Phase) -> NDArray[np.float64]:
    """(4, 6, 8, L) at the model's own depth."""
    gpus = load_gpus()
    served = ServedModel(model, load_models()[model], Slo(*OBJECTIVES_MS[model]), SHAPE)
    nodes = [node_config_from_id(config) for config in CONFIGS]
    budgets = even_budgets(served.slo_ms(phase), MOST_NODES)
    return throughput_table(served, phase, nodes, gpus, estimated_cost_model(gpus), budgets).units_per_s


@cache
def coarse_units(model: str, phase: Phase, most_layers: int) -> NDArray[np.float64]:
    """The same with so many layers taken as one that at most `most_layers` are left; some of the last are left out."""
    units = real_units(model, phase)
    together = -(-units.shape[3] // most_layers)
    return np.ascontiguousarray(units[..., together - 1 :: together])

"""Seconds to derive T̂ for the paper's extended set-up: six models, 20 configurations, prefill and decode.

    python -m bench.throughput_tables [--budgets 6] [--aggregated]

One process, one core. Prints a line per work class and the total.
"""

import argparse
import time

from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.sources.pipeline_source import even_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.hardware import load_gpus, node_config_from_id
from templates_lib.values.slo import Slo
from templates_lib.values.work import Phase

TABLE_3 = {
    "phi-4-14b": (1200.0, 60.0, "azure-conversation"),
    "gpt-oss-20b": (900.0, 30.0, "azure-code"),
    "qwen3-32b": (1600.0, 100.0, "servegen-m-large"),
    "llama-3-70b": (1500.0, 80.0, "servegen-m-large"),
    "gpt-oss-120b": (1000.0, 40.0, "azure-conversation"),
    "qwen3-235b-a22b": (1800.0, 120.0, "azure-code"),
}
"""Model → TTFT, TPOT (ms), shape: Table 3 of the Coral paper; BurstGPT, not to be had, is ServeGen m-large."""
CONFIGS = tuple(
    f"{gpu}:{count}/n{network}"
    for gpu, network in (("L4", 25), ("A10G", 25), ("L40S", 25), ("A100-80", 100), ("H100", 100))
    for count in (1, 2, 4, 8)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=int, default=6, help="even budgets, for 1 .. N stages (default 6)")
    parser.add_argument("--aggregated", action="store_true", help="the aggregated phase too")
    arguments = parser.parse_args()
    gpus, models = load_gpus(), load_models()
    cost_model = estimated_cost_model(gpus)
    configs = [node_config_from_id(config) for config in CONFIGS]
    phases = [phase for phase in Phase if phase is not Phase.AGGREGATED or arguments.aggregated]
    wall_s = cpu_s = 0.0
    for name, (ttft_ms, tpot_ms, shape) in TABLE_3.items():
        served = ServedModel(name, models[name], Slo(ttft_ms, tpot_ms), load_shape(shape), aggregated=True)
        for phase in phases:
            wall, cpu = time.perf_counter(), time.process_time()
            table = throughput_table(
                served, phase, configs, gpus, cost_model, even_budgets(served.slo_ms(phase), arguments.budgets)
            )
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            wall_s, cpu_s = wall_s + wall, cpu_s + cpu
            cells = table.units_per_s
            print(f"{table.work_class:28} {wall:6.2f} s   {(cells > 0).sum():7,} of {cells.size:,} cells work")
    classes = f"{len(TABLE_3)} models × {len(phases)} phases × {len(configs)} configurations"
    print(f"{classes}: {wall_s:.2f} s ({cpu_s:.2f} s CPU)")


if __name__ == "__main__":
    main()

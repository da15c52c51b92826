"""Small kernels of a layer as Vidur timed them one by one, and the estimate for A100 with what they take longer there.

    python -m bench.small_kernels

Two norms, rotation, gate and sum of a layer of few tokens, on A40, A100-80 and H100 (`vidur_linear_ops.csv.gz` in
shared/data/perf, a sibling of the repository; medians of one GPU). Engines are fitted to servers on Hopper and
Blackwell, whose small kernels are in the engine's scale of all kernels. What those of one token take longer on an A100
than on an H100, of the model for which that is least, is added to each layer of the estimate for vLLM. It comes of
these rows alone, and is held against MuxServe's whole steps (`bench.a100_steps`) and published runs of vLLM
(`bench.published_runs`), to none of which anything was fitted. Half a minute.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent / "extracts"))

from perf_tables import rows_of

from bench import a100_steps, published_runs
from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.estimated import EstimatedCostModel
from templates_lib.ports.cost_model import Parallel, StageCostModel
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

Floats = NDArray[np.float64]
FILE = "vidur_linear_ops.csv.gz"
SMALL = ("input_layernorm_ms", "attn_rope_ms", "post_attention_layernorm_ms", "mlp_act_ms", "add_ms")
TOKENS = (1, 8, 64)
ENGINE = "vllm"


def small_kernels() -> dict[tuple[str, str], dict[int, Floats]]:
    """(GPU, model) → tokens → seconds of each of SMALL, (5,); of models for which all of them were timed."""
    samples: defaultdict[tuple[str, str, int], list[list[float]]] = defaultdict(list)
    for row in rows_of(FILE):
        if int(row["tp"]) == 1 and int(row["num_tokens"]) in TOKENS and all(row[name] for name in SMALL):
            key = row["gpu"], row["model"], int(row["num_tokens"])
            samples[key].append([float(row[name]) / 1e3 for name in SMALL])
    found: defaultdict[tuple[str, str], dict[int, Floats]] = defaultdict(dict)
    for (gpu, model, tokens), values in sorted(samples.items()):
        found[gpu, model][tokens] = np.median(np.array(values), axis=0)
    return dict(found)


def longer_s(timed: Mapping[tuple[str, str], Mapping[int, Floats]], gpu: str, than: str) -> dict[str, float]:
    """Model → seconds that the small kernels of one token of a layer take longer on `gpu` than on `than`."""
    both = {model for name, model in timed if name == gpu} & {model for name, model in timed if name == than}
    return {model: float((timed[gpu, model][1] - timed[than, model][1]).sum()) for model in sorted(both)}


def estimate(more_s: float) -> EstimatedCostModel:
    """The estimate that plans have for vLLM, with so much more a layer."""
    coefficients = load_coefficients()
    engine = coefficients.engine(ENGINE)
    layer = replace(engine.layer, every_s=engine.layer.every_s + more_s)
    engines = {**coefficients.engines, ENGINE: replace(engine, layer=layer)}
    return EstimatedCostModel(load_gpus(), ENGINE, replace(coefficients, engines=engines))


def ratios(times: StageCostModel) -> dict[str, Floats]:
    """What was measured on A100-80 → predicted over measured."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for (what, _), values in published_runs.ratios(times).items():
        found[f"published runs, {what}s"] += values.tolist()
    for phase, model, count, step, seconds in a100_steps.steps():
        node = NodeConfig(f"A100-80:{count}", "A100-80", count, a100_steps.NVLINK_GBPS, 0.0, 0.0)
        took = float(times.stage_seconds(model, node, Parallel(tp=count), step, head=True))
        found[f"MuxServe, {phase}, {count} GPUs"].append(took / seconds)
    return {name: np.array(values) for name, values in sorted(found.items())}


def main() -> None:
    timed = small_kernels()
    print(f"{'':46} {'tokens':>6} {'us a layer':>10}   {', '.join(name.removesuffix('_ms') for name in SMALL)}")
    for (gpu, model), by_tokens in timed.items():
        for tokens, seconds in by_tokens.items():
            each = " ".join(f"{1e6 * one:5.1f}" for one in seconds)
            print(f"{f'{gpu}, {model}':46} {tokens:6} {1e6 * seconds.sum():10.1f}   {each}")
    longer = longer_s(timed, "a100", "h100")
    shown = ", ".join(f"{1e6 * seconds:.1f} ({model})" for model, seconds in longer.items())
    print(f"one token on A100 takes longer than on H100 by, us a layer: {shown}")
    least_s = min(longer.values())
    before, after = ratios(estimate(0.0)), ratios(estimate(least_s))
    print(f"{'':30} {'rows':>5} {'as planned: error, ratio':>25} {f'with {1e6 * least_s:.1f} us a layer':>25}")
    for name, values in before.items():
        pairs = (f"{np.median(np.abs(each - 1)):15.1%} {np.median(each):9.2f}" for each in (values, after[name]))
        print(f"{name:30} {len(values):5} {' '.join(pairs)}")


if __name__ == "__main__":
    main()

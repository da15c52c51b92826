"""Step times of the torch engine on a GPU, measured as a node measures itself, beside what plans take for them.

    python -m bench.gpu_profile --gpu H100 [--device cuda] [--layers 32] [--rows FILE]

A Llama of 8 billion parameters with random weights, the sweeps of `python -m agents.profile`. Printed is each step,
measured and estimated; how far the estimate is off; and how far a fit of the measured steps is off on those that it was
not fitted to. `--rows` keeps the measured rows, as lines of JSON.
"""

import argparse
import logging
import statistics
import time
from pathlib import Path

import msgspec
import numpy as np
import torch

from agents.engines.guarded_engine import GuardedEngine
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.engine import load_torch_engine
from agents.profile.measure import kv_blocks, measured
from agents.profile.points import sweeps
from bench.gpu_stages import DTYPE, RandomCheckpoint
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.fit import fit_step_terms
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.ports.cost_model import NodeStep, Parallel, StageCostModel
from templates_lib.values.engines import estimate_of
from templates_lib.values.hardware import gpu
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.profile_row import ProfileRow, rows_of

CONTEXT = 8192
ALONE = 2.0
"""Processors, as `rows_of` counts them: what is measured is what the clock says."""


def swept(weights: RandomCheckpoint, device: torch.device) -> list[ProfileRow]:
    model = model_from_hf_config(weights.config, "random", "none")
    layer_bytes = int(model.attention_weight_bytes + model.ffn_weight_bytes)
    rows: list[ProfileRow] = []
    for sweep in sweeps(weights.layers, CONTEXT, layer_bytes, device.type):
        start, blocks = time.perf_counter(), kv_blocks(sweep.points, BLOCK_TOKENS)
        engine = GuardedEngine(load_torch_engine(weights, sweep.held, blocks, DTYPE, device))
        rows += rows_of(measured(engine, sweep.points, device), ALONE)
        engine.close()
        print(f"{sweep.held}: {len(sweep.points)} steps in {time.perf_counter() - start:.1f} s", flush=True)
    return rows


def estimated_s(row: ProfileRow, weights: RandomCheckpoint, name: str, source: StageCostModel) -> float:
    node = NodeConfig(f"{name}:1/n0", name, 1, 0.0, 0.0, 64.0)
    counts = (row.layers, row.prompt_tokens, row.prompt_context, row.decode_requests, row.decode_context)
    step = NodeStep(*(np.array(float(count)) for count in counts))
    model = model_from_hf_config(weights.config, "random", "none")
    return float(source.stage_seconds(model, node, Parallel(), step, head=row.last))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="the card's name in gpus.csv")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rows", type=Path)
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    card, weights = gpu(arguments.gpu), RandomCheckpoint(arguments.layers, arguments.device)
    rows = swept(weights, arguments.device)
    if arguments.rows:
        arguments.rows.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    source, off = estimated_cost_model({card.name: card}, estimate_of("torch")), []
    for row in rows:
        guess = estimated_s(row, weights, card.name, source)
        off.append(abs(guess / row.seconds - 1))
        what = f"{row.layers} layers{' and head' if row.last else ''}, {row.prompt_tokens} prompt tokens, "
        what += f"{row.decode_requests} decodes behind {row.decode_context:.0f}"
        print(f"{what}: {1000 * row.seconds:.3f} ms, estimated {1000 * guess:.3f}")
    print(f"the estimate is off by {statistics.median(off):.1%} in the median, {max(off):.1%} at most")
    terms, errors = fit_step_terms(rows)
    print(
        f"a fit of them, on {errors.rows} steps held out: {errors.median:.1%} in the median, {errors.worst:.1%} at most"
    )
    print({name: float(f"{seconds:.3g}") for name, seconds in terms.items()})


if __name__ == "__main__":
    main()

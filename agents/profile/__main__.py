"""`python -m agents.profile`: measures the node that it runs on, and writes lines of JSON: a `Header`, and then
`ProfileBlock`s of the steps of the engine and one `HandOffCost`, `UnitBlock`s of an encoder, or one `PipelineCost`."""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec
import torch

from agents.engines.errors import EngineError
from agents.engines.guarded_engine import GuardedEngine
from agents.engines.layer_range import LayerRange
from agents.engines.loading import load_stage_engine
from agents.engines.paced_engine import paced
from agents.engines.protocol import StageEngine
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.memory_need import memory_need
from agents.profile.hand_off_cost import beside, measure_hand_off_cost
from agents.profile.measure import BLOCKS, kv_blocks, measured
from agents.profile.pipeline_cost import measure_pipeline_cost
from agents.profile.points import Point, sweeps
from agents.profile.unit_times import measured_units
from agents.transfer.errors import LinkLostError
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint
from templates_lib.models.hub_weights import fetch_layers, is_on_hub
from templates_lib.models.weights_place import NoWeightsError, weights_path
from templates_lib.values.engines import DEFAULT_ENGINE, stage_engines
from templates_lib.values.profile_row import Header

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.profile", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file of the rows")
    parser.add_argument("--dtype", choices=sorted(_DTYPES), required=True)
    what = parser.add_subparsers(dest="what", required=True)
    engine = what.add_parser("engine", help="steps of an engine")
    engine.add_argument("--engine", choices=stage_engines(), default=DEFAULT_ENGINE, help="in its environment")
    engine.add_argument("--weights", required=True, help="hf:ORG/NAME, package:NAME or path:PATH")
    engine.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, or cuda:0")
    engine.add_argument("--threads", type=int, default=int(os.environ.get("MEDLEY_NODE_THREADS", "1")))
    engine.add_argument("--pace", type=float, default=float(os.environ.get("MEDLEY_NODE_PACE", "1")))
    engine.add_argument("--company-s", type=float, default=0.0, help="go on for as long, beside nodes still measured")
    unit = what.add_parser("component", help="units of an encoder of an any-to-any model")
    unit.add_argument("--weights", required=True, help="hf:ORG/NAME, package:NAME or path:PATH")
    unit.add_argument("--component", required=True, help="its name in the model's graph")
    unit.add_argument("--rows", type=int, action="append", required=True, help="that come of a unit (repeat)")
    unit.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, or cuda:0")
    unit.add_argument("--threads", type=int, default=int(os.environ.get("MEDLEY_NODE_THREADS", "1")))
    unit.add_argument("--pace", type=float, default=float(os.environ.get("MEDLEY_NODE_PACE", "1")))
    pipeline = what.add_parser("pipeline", help="what scheduler, workers and edges cost beside computing")
    pipeline.add_argument("--hidden-size", type=int, required=True)
    return parser.parse_args()


def _engine(arguments: argparse.Namespace, out: BinaryIO) -> None:
    torch.set_num_threads(arguments.threads)
    checkpoint = decoder_part(_checkpoint(arguments.weights))
    config = decoder_config(checkpoint.config)
    one = memory_need(checkpoint, config, LayerRange(0, 1, first=False, last=False), _DTYPES[arguments.dtype])
    device = arguments.device
    plan = sweeps(config.layers, config.max_context_tokens, one.weight_bytes, device.type)
    _write(out, Header(BLOCKS * sum(len(sweep.points) for sweep in plan) + 1))
    for sweep in plan:
        blocks = kv_blocks((*sweep.points, beside(config.max_context_tokens)), BLOCK_TOKENS)
        loaded = load_stage_engine(arguments.engine, checkpoint, sweep.held, blocks, _DTYPES[arguments.dtype], device)
        engine = GuardedEngine(paced(loaded, arguments.pace))  # as it serves
        for block in measured(engine, sweep.points, device):
            _write(out, block)
        if sweep is plan[-1]:
            _write(out, measure_hand_off_cost(engine))
            _keep_company(engine, sweep.points, device, arguments.company_s)
        engine.close()


def _keep_company(engine: StageEngine, points: tuple[Point, ...], device: torch.device, seconds: float) -> None:
    """The nodes of a machine share its memory and caches, and in a fleet they all compute: whoever has measured itself
    goes on, so that the last to be measured is no faster than it will be."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in measured(engine, points, device):
            if time.monotonic() > end:
                return


def _component(arguments: argparse.Namespace, out: BinaryIO) -> None:
    torch.set_num_threads(arguments.threads)
    dtype, sizes, pace = _DTYPES[arguments.dtype], sorted(set(arguments.rows)), arguments.pace
    engine = load_torch_encoder(_checkpoint(arguments.weights), arguments.component, dtype, arguments.device)
    _write(out, Header(BLOCKS * len(sizes)))
    for block in measured_units(engine, sizes):
        _write(out, replace(block, seconds=block.seconds / pace))  # who serves idles so much behind each batch
    engine.close()


def _checkpoint(place: str) -> Checkpoint:
    return open_checkpoint(fetch_layers(place) if is_on_hub(place) else weights_path(place))


def _pipeline(arguments: argparse.Namespace, out: BinaryIO) -> None:
    _write(out, Header(1))
    with TemporaryDirectory(dir=arguments.out.parent) as folder:
        _write(out, measure_pipeline_cost(arguments.hidden_size, _DTYPES[arguments.dtype], Path(folder)))


_MEASURES = {"engine": _engine, "component": _component, "pipeline": _pipeline}


def _write(out: BinaryIO, line: object) -> None:
    out.write(msgspec.json.encode(line) + b"\n")
    out.flush()


def _main() -> int:
    arguments = _arguments()
    try:
        with arguments.out.open("wb") as out:
            _MEASURES[arguments.what](arguments, out)
    except (EngineError, LinkLostError, NoWeightsError, WeightsError, OSError, ValueError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())

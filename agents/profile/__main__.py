"""`python -m agents.profile`: measures the node that it runs on, and writes lines of JSON: a `Header`, and then
`ProfileBlock`s of the steps of the engine and one `HandOffCost`, `UnitBlock`s of an encoder or generator, one
`PipelineCost`, or one `PairCost`. `node`, on a node that was rented for it, does one behind the other and prints what
comes of each (`agents.messages.to_profiler`)."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
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
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.memory_need import memory_need
from agents.engines.torch_engine.sharded_engine import load_sharded_engine
from agents.executor.generators import Place, loader_of
from agents.profile.hand_off_cost import beside, measure_hand_off_cost
from agents.profile.measure import BLOCKS, kv_blocks, measured
from agents.profile.on_node import NodeSweep, measure_node
from agents.profile.pair_cost import PairEnd, measure_pair
from agents.profile.pipeline_cost import measure_pipeline_cost
from agents.profile.points import Point, sweeps
from agents.profile.unit_times import measured_answers, measured_units
from agents.transfer.errors import LinkLostError
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import WeightsError
from agents.weights.source import open_checkpoint
from templates_lib.models.hub_weights import fetch_layers, is_on_hub
from templates_lib.models.weights_place import NoWeightsError, weights_path
from templates_lib.values.component_profile import UnitBlock
from templates_lib.values.engines import DEFAULT_ENGINE, stage_engines
from templates_lib.values.profile_row import Header

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_PEER_S = 60.0
"""A rank that answers no sum for as long is taken for dead."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agents.profile", description=__doc__)
    parser.add_argument("--out", type=Path, help="file of the rows; needed but for `node`, which prints")
    parser.add_argument("--dtype", choices=sorted(_DTYPES), required=True)
    what = parser.add_subparsers(dest="what", required=True)
    engine = what.add_parser("engine", help="steps of an engine")
    _add_engine(engine)
    engine.add_argument("--threads", type=int, default=int(os.environ.get("MEDLEY_NODE_THREADS", "1")))
    engine.add_argument("--pace", type=float, default=float(os.environ.get("MEDLEY_NODE_PACE", "1")))
    engine.add_argument("--company-s", type=float, default=0.0, help="go on for as long, beside nodes still measured")
    unit = what.add_parser("component", help="units of an encoder or generator of an any-to-any model")
    unit.add_argument("--weights", required=True, help="hf:ORG/NAME, package:NAME or path:PATH")
    unit.add_argument("--component", required=True, help="its name in the model's graph")
    size = "of a unit (repeat): rows that come of it; seconds of speech, or denoising steps"
    unit.add_argument("--size", type=int, action="append", required=True, help=size)
    unit.add_argument("--item-rows", type=float, default=0.0, help="rows of latents of a picture that is made")
    unit.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, or cuda:0")
    unit.add_argument("--threads", type=int, default=int(os.environ.get("MEDLEY_NODE_THREADS", "1")))
    unit.add_argument("--pace", type=float, default=float(os.environ.get("MEDLEY_NODE_PACE", "1")))
    pipeline = what.add_parser("pipeline", help="what scheduler, workers and edges cost beside computing")
    pipeline.add_argument("--hidden-size", type=int, required=True)
    pair = what.add_parser("pair", help="what lies between two nodes: rows of activations, KV caches")
    pair.add_argument("--meet", type=_host_and_port, required=True, metavar="HOST:PORT", help="their rendezvous")
    pair.add_argument("--sends", action="store_true", help="be the end that sends; else the one that measures")
    pair.add_argument("--hidden-size", type=int, required=True)
    pair.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, or cuda:0")
    pair.add_argument("--interface", default="127.0.0.1", help="this machine's address towards the other")
    pair.add_argument("--patience-s", type=float, default=60.0, help="how long to wait for the other")
    node = what.add_parser("node", help="all of it, on a node that was rented for it")
    _add_engine(node)
    node.add_argument("--hidden-size", type=int, required=True)
    node.add_argument("--pair", choices=("none", "first", "second"), default="none", help="place in a pair of nodes")
    node.add_argument("--meet", type=_host_and_port, metavar="HOST:PORT", help="where the first of the pair waits")
    node.add_argument("--seconds", type=float, default=1800.0, help="end after as long, whatever is measured by then")
    node.add_argument("--linger-s", type=float, default=0.0, help="stay as long behind the last line that is printed")
    arguments = parser.parse_args()
    if arguments.out is None and arguments.what != "node":
        parser.error("--out FILE is missing")
    return arguments


def _add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=stage_engines(), default=DEFAULT_ENGINE, help="in its environment")
    parser.add_argument("--weights", required=True, help="hf:ORG/NAME, package:NAME or path:PATH")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu, or cuda:0")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="devices that layers are cut over by heads")


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _engine(arguments: argparse.Namespace, out: BinaryIO) -> None:
    torch.set_num_threads(arguments.threads)
    path, dtype, device = _some_layers(arguments.weights), _DTYPES[arguments.dtype], arguments.device
    checkpoint = decoder_part(open_checkpoint(path))
    config = decoder_config(checkpoint.config)
    one = memory_need(checkpoint, config, LayerRange(0, 1, first=False, last=False), dtype)
    plan = sweeps(config.layers, config.max_context_tokens, one.weight_bytes, device.type)
    for held in (sweep.held for sweep in plan):
        _some_layers(arguments.weights, path, held.first_layer, held.layers)
    _write(out, Header(BLOCKS * sum(len(sweep.points) for sweep in plan) + 1))
    for sweep in plan:
        blocks = kv_blocks((*sweep.points, beside(config.max_context_tokens)), BLOCK_TOKENS)
        loaded = _loaded(arguments, path, checkpoint, sweep.held, blocks)
        engine = GuardedEngine(paced(loaded, arguments.pace))  # as it serves
        for block in measured(engine, sweep.points, device):
            _write(out, block)
        if sweep is plan[-1]:
            _write(out, measure_hand_off_cost(engine))
            _keep_company(engine, sweep.points, device, arguments.company_s)
        engine.close()


def _some_layers(place: str, there: Path | None = None, first_layer: int = 0, layers: int = 1) -> Path:
    """Return the folder or file of the weights with these layers. On the hub only the files that have them are fetched,
    at the commit of those that are `there` already."""
    if not is_on_hub(place):
        return weights_path(place)
    commit = "" if there is None else f"@{there.name}"
    return fetch_layers(f"{place.partition('@')[0]}{commit}" if commit else place, first_layer, layers)


def _loaded(
    arguments: argparse.Namespace, path: Path, checkpoint: Checkpoint, held: LayerRange, blocks: int
) -> StageEngine:
    dtype, device, ranks = _DTYPES[arguments.dtype], arguments.device, arguments.tensor_parallel
    if ranks == 1:
        return load_stage_engine(arguments.engine, checkpoint, held, blocks, dtype, device)
    if arguments.engine != "torch":
        raise ValueError("only the torch engine cuts a stage over several devices")
    devices = tuple(torch.device("cuda", rank) if device.type == "cuda" else device for rank in range(ranks))
    return load_sharded_engine(path, held, blocks, dtype, devices, whole_experts=False, peer_timeout_s=_PEER_S)


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
    sizes = sorted(set(arguments.size))
    _write(out, Header(BLOCKS * len(sizes)))
    for block in _unit_blocks(arguments, sizes):
        # Who serves idles so much behind each batch.
        _write(out, replace(block, seconds=block.seconds / arguments.pace))


def _unit_blocks(arguments: argparse.Namespace, sizes: Sequence[int]) -> Iterator[UnitBlock]:
    place, component, device = arguments.weights, arguments.component, arguments.device
    dtype = _DTYPES[arguments.dtype]
    if not is_on_hub(place) and (load := loader_of(weights_path(place), component)) is not None:
        generator = load(weights_path(place), component, Place(device, dtype), Limits())
        yield from measured_answers(generator, sizes, arguments.item_rows)
        generator.close()
    else:
        encoder = load_torch_encoder(_checkpoint(place), component, dtype, device)
        yield from measured_units(encoder, sizes)
        encoder.close()


def _checkpoint(place: str) -> Checkpoint:
    return open_checkpoint(fetch_layers(place) if is_on_hub(place) else weights_path(place))


def _pipeline(arguments: argparse.Namespace, out: BinaryIO) -> None:
    _write(out, Header(1))
    beside = arguments.out.parent if arguments.out.is_file() else None  # it may be a pipe
    with TemporaryDirectory(dir=beside) as folder:
        _write(out, measure_pipeline_cost(arguments.hidden_size, _DTYPES[arguments.dtype], Path(folder)))


def _pair(arguments: argparse.Namespace, out: BinaryIO) -> None:
    given = arguments.hidden_size, _DTYPES[arguments.dtype], arguments.device
    found = measure_pair(PairEnd(arguments.meet, arguments.sends, *given, arguments.interface, arguments.patience_s))
    _write(out, Header(0 if found is None else 1))
    if found is not None:
        _write(out, found)


def _write(out: BinaryIO, line: object) -> None:
    out.write(msgspec.json.encode(line) + b"\n")
    out.flush()


_MEASURES = {"engine": _engine, "component": _component, "pipeline": _pipeline, "pair": _pair}


def _main() -> int:
    arguments = _arguments()
    try:
        if arguments.what == "node":
            asked = {name: getattr(arguments, name) for name in NodeSweep.__slots__}
            status = measure_node(NodeSweep(**asked))
            time.sleep(arguments.linger_s)
            return status
        with arguments.out.open("wb") as out:
            _MEASURES[arguments.what](arguments, out)
    except (EngineError, LinkLostError, NoWeightsError, WeightsError, OSError, ValueError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())

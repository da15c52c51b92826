"""An executor of a decoder: one process for gateways, which takes rows and answers as the whole model does."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
import torch

from agents.channels.keys import KeyPair
from agents.engines.errors import OutOfMemoryError
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.engines.torch_engine.memory_need import memory_need
from agents.executor.decoder import is_decoder, layout_of
from agents.messages.to_gateway import Status
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.weights.source import open_checkpoint
from templates_lib.graphs.catalogue import graph_facts
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.components.given_requests import Encoded
from tests.agents.engines.components.graph_requests import qwen_request, text_request
from tests.agents.engines.components.tiny_graphs import LAYERS, save_graph
from tests.agents.engines.tiny_models import assert_same, reference
from tests.agents.stage.instances import Gateway
from tests.agents.tensors.nodes import SETTINGS, Node, run_node

MODEL, TOKENS, CONTEXT = "tiny", 8, 256


@contextmanager
def started(folder: Path, weights: Path, node: Node) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], Gateway]]]:
    keys = KeyPair.generate()
    KeyPair.generate().save(folder / "key")
    layout = PipelineLayout(MODEL, ((NodeLimits("node", 1.0, 4, 64, 64),),), 16, CONTEXT, 96)
    (folder / "0.language.json").write_bytes(msgspec.json.encode(InstanceFile(layout, {keys.public: "gateway"}, {})))
    given = ("--instance", folder / "0.language.json", "--key", folder / "key", "--checkpoint", weights)
    command = [sys.executable, "-m", "agents.executor", *map(str, given), "--dtype", "float32"]
    command += ["--components", "language", "--together", "language/text=4", "--sidecar", node.name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert process.stdout is not None
    try:
        where = json.loads(process.stdout.readline())
        instance: Any = SimpleNamespace(addresses=where, gateway=keys)
        yield process, partial(Gateway, instance)
    finally:
        process.terminate()  # with which it ends its worker
        process.communicate(timeout=60)


def holds_torch(process: psutil.Process) -> bool:
    return any("libtorch" in each.path for each in process.memory_maps())


@pytest.mark.slow
def test_a_decoder_answers_with_the_rows_of_others_and_ends_with_its_worker(tmp_path: Path) -> None:
    model = save_graph("qwen-vl", tmp_path / "weights")
    requests = {1: qwen_request(model, 1), 2: text_request(model, 6)}

    async def scenario(process: subprocess.Popen[bytes], made: Callable[[], Gateway]) -> None:
        async with made() as gateway:
            await gateway.until(lambda: gateway.of(Status) and gateway.status().takes_rows == 1)
            gateway.send(*(rows.ask(attempt, each, TOKENS) for attempt, each in requests.items()))
            await gateway.until(lambda: gateway.ends().keys() == requests.keys())
            for attempt, each in requests.items():
                assert_same(gateway.tokens(attempt), reference(each.whole, each.prompt, TOKENS))
            (worker,) = psutil.Process(process.pid).children()
            assert holds_torch(worker)
            assert not holds_torch(psutil.Process(process.pid)), "one copy of the engine's code an executor"
            os.kill(worker.pid, signal.SIGKILL)
            assert await asyncio.to_thread(process.wait, 60) == 1

    with run_node(SETTINGS) as node:
        rows = Encoded(open_checkpoint(tmp_path / "weights"), "qwen-vl", node.client("encoder"), 1)
        with started(tmp_path, tmp_path / "weights", node) as (process, made):
            asyncio.run(scenario(process, made))


def test_memory_bounds_the_requests_that_a_decoder_has_room_for(tmp_path: Path) -> None:
    save_graph("qwen-vl", tmp_path)
    decoder = decoder_part(open_checkpoint(tmp_path))

    def blocks(memory_bytes: int | None) -> int:
        return layout_of(MODEL, decoder, CONTEXT, 4, torch.float32, memory_bytes).stages[0][0].kv_blocks

    assert blocks(None) == 4 * CONTEXT // 16
    assert CONTEXT // 16 <= blocks(2 << 20) < blocks(None)
    with pytest.raises(OutOfMemoryError, match="weights"):
        blocks(1 << 20)


def test_contexts_are_as_long_as_the_memory_has_room_for(tmp_path: Path) -> None:
    save_graph("qwen-vl", tmp_path)
    decoder = decoder_part(open_checkpoint(tmp_path))
    need = memory_need(decoder, decoder_config(decoder.config), LayerRange.whole(LAYERS), torch.float32)

    def layout(blocks: int) -> PipelineLayout:
        return layout_of(MODEL, decoder, 4096, 4, torch.float32, need.total_bytes(blocks))

    assert layout(20).max_context_tokens == 20 * 16
    assert layout(2000).max_context_tokens == 512, "the model's own"
    with pytest.raises(OutOfMemoryError, match="256"):
        layout(15)


def test_encoders_and_decoders_are_told_apart_by_the_graph() -> None:
    config = graph_facts("qwen2.5-vl-7b")["config"]
    assert is_decoder(config, ("language",))
    assert not is_decoder(config, ("vision",))
    assert is_decoder(graph_facts("whisper-tiny.en")["config"], ("writing",))
    assert not is_decoder(graph_facts("qwen2.5-omni-7b")["config"], ("talker",))
    with pytest.raises(UnsupportedModelError, match="vision"):
        is_decoder(config, ("vision", "language"))

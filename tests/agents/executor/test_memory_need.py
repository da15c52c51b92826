"""What plans count for an executor is what it asks for when it starts: of every component that nodes compute."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.engines.components.stepped import SteppedEngine
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.speech.kokoro import KokoroEngine, load_kokoro
from agents.engines.torch_components.engine import TorchEncoder, load_torch_encoder
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.word_pictures import load_word_pictures
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.decoder_part import decoder_part
from agents.executor.decoder import layout_of
from agents.executor.generators import GENERATORS
from agents.messages.component_work import AskedPicture
from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from bench.speech.assembling import assemble
from control.cloud.local.kinds import LocalMachine
from control.planning.local_market import local_config, local_gpu
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.cost.measured_component import component_key
from templates_lib.executors.memory_need import KEPT_AS_STORED, executor_need, rows_of
from templates_lib.graphs.catalogue import graph_facts, load_graph
from templates_lib.graphs.component import Component, ComponentWork, DecoderSpec
from templates_lib.graphs.read import graph_from_config
from templates_lib.models.onnx_weights import onnx_bytes
from templates_lib.values.engines import DEFAULT_GRAPH_ENGINE, ENGINES
from templates_lib.values.gpu import GIB
from templates_lib.values.hardware import load_gpus
from tests.agents.engines.components.test_encoders import ENCODERS
from tests.agents.engines.components.tiny_graphs import COMPONENT, save_graph
from tests.agents.engines.components.tiny_pictures import CONFIG, save_pictures

CPU, FP32 = torch.device("cpu"), 4
PARTS = ENGINES[DEFAULT_GRAPH_ENGINE].parts
TINY = {
    ("internvl", "vision"): "internvl",
    ("qwen2_5_omni", "hearing"): "omni-hearing",
    ("qwen2_5_omni", "vision"): "omni",
    ("qwen2_5_vl", "vision"): "qwen-vl",
    ("whisper", "hearing"): "whisper",
}
WRITERS = {"internvl": "language", "omni": "thinker", "qwen-vl": "language", "whisper": "writing"}
MACHINE = LocalMachine("any", 1.0, 1, 1, 0.01)


def planned(checkpoint: Checkpoint, name: str) -> Component:
    """A component of a tiny model, as plans read it. What it has no parts for is as published."""
    config: dict[str, Any] = checkpoint.config
    if config["model_type"] == "qwen2_5_omni":
        whole = graph_facts("qwen2.5-omni-7b")["config"]
        speaks = whole["talker_config"] | {"embedding_size": 64}
        config = config | {"talker_config": speaks, "token2wav_config": whole["token2wav_config"]}
    return graph_from_config(config, "tiny", "r").component(name)


def saved(folder: Path, tiny: str) -> Checkpoint:
    save_graph(tiny.removesuffix("-hearing"), folder)
    return open_checkpoint(folder)


def test_all_that_nodes_compute_is_reckoned() -> None:
    generators, writers = GENERATORS.keys(), {(family, name) for family, name in PARTS if name in WRITERS.values()}
    assert TINY.keys() | generators | writers == PARTS
    assert generators >= KEPT_AS_STORED
    for name in ("kokoro-82m", "word-pictures", "whisper-tiny.en", "qwen2.5-vl-7b", "qwen2.5-omni-7b"):
        config = graph_facts(name)["config"]
        for component in load_graph(name).components:
            is_declared = (config["model_type"], component.name) in PARTS - writers
            assert (executor_need(config, component) is not None) >= is_declared, component.name


@pytest.mark.parametrize("part", TINY, ids="-".join)
def test_an_encoder_with_the_planned_memory_takes_the_planned_units(tmp_path: Path, part: tuple[str, str]) -> None:
    checkpoint, (_, units) = saved(tmp_path, TINY[part]), ENCODERS[TINY[part]]
    name = COMPONENT.get(TINY[part], "vision")

    def loaded(memory_bytes: float | None) -> TorchEncoder:
        budget = None if memory_bytes is None else int(memory_bytes)
        return load_torch_encoder(checkpoint, name, torch.float32, CPU, Limits(memory_bytes=budget, takes_fewer=True))

    component, takes = planned(checkpoint, name), loaded(None).facts.takes
    need = executor_need(checkpoint.config, component)
    assert need is not None
    for unit in units:
        rows = rows_of(component, ComponentWork(takes.rows_out(unit), 1.0))
        held = need.held_bytes(rows, FP32)
        # Of two frames of a sound one row comes out: an odd one is a row that nobody plans.
        asked = takes.rows_in(unit) // 2 * 2 if name == "hearing" else takes.rows_in(unit)
        assert loaded(held).facts.most_rows >= asked
        with suppress(OutOfMemoryError):
            assert loaded(0.95 * held).facts.most_rows < asked


def test_a_picture_model_with_the_planned_memory_draws_the_planned_pictures(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(save_pictures(tmp_path))
    component = graph_from_config(CONFIG, "tiny", "r").component("picture")
    need = executor_need(CONFIG, component)
    assert need is not None

    def loaded(memory_bytes: float) -> SteppedEngine:
        limits = Limits(memory_bytes=int(memory_bytes), takes_fewer=True)
        return load_word_pictures(checkpoint, torch.float32, CPU, limits)

    for side in (16, 64):
        asked, rows = AskedPicture("red", side, side, 1), (side / 4) ** 2
        held = need.held_bytes(rows_of(component, ComponentWork(3.0, 1.0, item_rows=rows)), FP32)
        loaded(held).begin(asked)
        with pytest.raises((BadBatchError, OutOfMemoryError)):
            loaded(0.95 * held).begin(asked)


@pytest.mark.needs("kokoro")
def test_a_voice_starts_in_the_planned_memory_and_in_none_less(tmp_path: Path) -> None:
    assemble(tmp_path, "en-us")
    config, voice = graph_facts("kokoro-82m")["config"], load_graph("kokoro-82m").component("voice")
    need = executor_need(config, voice, onnx_bytes(f"path:{tmp_path}"))
    unknown = executor_need(config, voice, onnx_bytes(f"path:{tmp_path}/voices"))
    assert need is not None
    assert unknown is not None
    held = int(need.held_bytes(rows_of(voice, ComponentWork(2.0)), FP32))

    def loaded(memory_bytes: int) -> KokoroEngine:
        return load_kokoro(tmp_path, "voice", 1, memory_bytes)

    loaded(held).close()
    with pytest.raises(OutOfMemoryError):
        loaded(held - 1)
    assert unknown.held_bytes(80.0, FP32) > held, "at full width, where nobody knows how the weights are stored"


@pytest.mark.parametrize("tiny", WRITERS)
def test_a_decoder_with_the_least_planned_memory_has_room_for_a_planned_request(tmp_path: Path, tiny: str) -> None:
    checkpoint = saved(tmp_path, tiny)
    component = planned(checkpoint, WRITERS[tiny])
    assert isinstance(component.spec, DecoderSpec)
    crossing = 50.0 if tiny == "whisper" else 0.0
    work = ComponentWork(20.0, 1.0, context_tokens=20.0, cross_tokens=crossing)

    def is_planned(memory_bytes: int) -> bool:
        gpu = replace(local_gpu(MACHINE), memory_gib=memory_bytes / GIB)
        costs = EstimatedComponentCost(estimated_cost_model(load_gpus() | {gpu.name: gpu}))
        return costs.most_requests(component, local_config(MACHINE), work, 0.0) >= 1

    least, enough = 0, 1 << 30
    while enough - least > 1:
        middle = (least + enough) // 2
        least, enough = (least, middle) if is_planned(middle) else (middle, enough)
    layout = layout_of("tiny", decoder_part(checkpoint), 1 << 20, 1, torch.float32, enough)
    assert layout.stages[0][0].kv_blocks * BLOCK_TOKENS >= 40 + crossing


def test_requests_that_bring_less_than_a_picture_in_the_mean_bring_whole_ones() -> None:
    vision = load_graph("qwen2.5-vl-7b").component("vision")
    whole, sometimes = ComponentWork(400.0, 1.0), ComponentWork(100.0, 0.25)
    assert rows_of(vision, sometimes) == rows_of(vision, whole) == 1600
    tiled = load_graph("internvl3-38b").component("vision")
    assert rows_of(tiled, ComponentWork(10.0)) == 1025, "a tile, with the row of its class"
    with pytest.raises(ValueError, match="language"):
        rows_of(load_graph("qwen2.5-vl-7b").component("language"), whole)


def test_a_declared_need_is_part_of_what_a_cost_model_is_known_by() -> None:
    graph, stages = load_graph("qwen2.5-vl-7b"), estimated_cost_model(load_gpus())
    vision = graph.component("vision")
    need = executor_need(graph_facts("qwen2.5-vl-7b")["config"], vision)
    assert need is not None
    models = [EstimatedComponentCost(stages, each) for each in ({}, {component_key(vision): need})]
    assert models[0].fingerprint == EstimatedComponentCost(stages).fingerprint != models[1].fingerprint

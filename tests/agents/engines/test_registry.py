"""An engine is a line of the registry: whoever loads or starts one asks nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.channels.address import Address
from agents.engines.layer_range import LayerRange
from agents.engines.loading import check_engine, load_stage_engine
from agents.engines.torch_components.engine import ENCODERS
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from agents.executor.generators import GENERATORS
from agents.messages.to_node import RunStage
from agents.node.settings import NodeSettings
from agents.node.worker_commands import worker_commands
from templates_lib.models.held_model import refusal
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.values.engine_support import ANYTHING
from templates_lib.values.engines import ENGINES, EngineKind, engine_pythons, engines_at
from tests.agents.engines.conftest import TinyModel
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import LAYERS

RUN = RunStage("tcp://10.0.0.1:7000", "k" * 40, "hf:acme/tiny@v1", 0, 7, 50, "bfloat16", 0)


class ToyEngine(TorchEngine):
    """The torch engine under another name."""


def load_toy(*of: Any, **more: Any) -> ToyEngine:
    engine = load_torch_engine(*of, **more)
    engine.__class__ = ToyEngine
    assert isinstance(engine, ToyEngine)
    return engine


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "toy", EngineKind(f"{__name__}:load_toy", (), "TOY_PYTHON", rented=ANYTHING))


@pytest.mark.usefixtures("toy")
def test_a_registered_engine_is_loaded_and_started_by_its_name(
    tiny_model: Callable[[str], TinyModel], tmp_path: Path
) -> None:
    held = LayerRange.whole(LAYERS)
    assert isinstance(load_stage_engine("toy", tiny_model("mistral")[0], held, 32, torch.float32, DEVICE), ToyEngine)
    pythons = engine_pythons({"TOY_PYTHON": "/opt/toy/bin/python", "OTHER": "x"})
    settings = NodeSettings(tmp_path, Address(RUN.scheduler, RUN.scheduler_key), pythons=pythons)
    (command,) = worker_commands("toy", RUN, tmp_path / "key", settings, tmp_path / "meeting")
    assert command.arguments[:5] == ("/opt/toy/bin/python", "-m", "agents.stage", "--engine", "toy")
    assert {"toy", "torch"} <= engines_at("aws")


def test_a_node_refuses_a_checkpoint_in_the_words_of_the_plan(tiny_model: Callable[[str], TinyModel]) -> None:
    checkpoint, _ = tiny_model("mistral")
    check_engine("torch", checkpoint, "m")
    checkpoint.config["quantization_config"] = {"quant_method": "mxfp4"}
    try:
        stored = model_from_hf_config(checkpoint.config, "m", "r").stored
        assert stored is not None
        with pytest.raises(ValueError, match="weights in mxfp4") as caught:
            check_engine("torch", checkpoint, "m")
        assert str(caught.value) == refusal("torch", "m", stored)
    finally:
        del checkpoint.config["quantization_config"]  # others are tested with the same


def test_a_node_refuses_an_engine_that_it_does_not_know_or_have(tmp_path: Path) -> None:
    settings = NodeSettings(tmp_path, Address(RUN.scheduler, RUN.scheduler_key))
    for engine in ("toy", "vllm"):
        with pytest.raises(ValueError, match=engine):
            worker_commands(engine, RUN, tmp_path / "key", settings, tmp_path / "meeting")


def test_plans_count_on_every_generator_and_on_encoders_and_decoders_that_executors_load() -> None:
    parts = ENGINES["components"].parts
    assert GENERATORS.keys() <= parts
    decoders = parts - GENERATORS.keys() - ENCODERS.keys()
    assert {name for _, name in decoders} == {"language", "thinker", "writing"}

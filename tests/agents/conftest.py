"""A tiny model, and the one engine whose answers those of instances are compared with."""

from pathlib import Path

import pytest
import torch

from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, save_model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    save_model("qwen3", folder)
    return folder


@pytest.fixture(scope="module")
def whole(checkpoint: Path) -> Pipeline:
    return Pipeline.load(open_checkpoint(checkpoint), [LAYERS])

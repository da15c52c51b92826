"""Tiny checkpoints, made once a session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.tiny_models import save_model

TinyModel = tuple[Checkpoint, PreTrainedModel]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TinyModel]:
    """name → its checkpoint, and the model as transformers holds it."""

    @cache
    def made(name: str) -> TinyModel:
        folder: Path = tmp_path_factory.mktemp(name)
        model = save_model(name, folder)
        return open_checkpoint(folder), model

    return made

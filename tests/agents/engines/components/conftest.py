"""Tiny checkpoints of several components, made once a session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.components.tiny_graphs import save_graph


@pytest.fixture(scope="session")
def tiny_graph(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Checkpoint, PreTrainedModel]]:
    """name → its checkpoint, and the whole model as transformers holds it."""

    @cache
    def made(name: str) -> tuple[Checkpoint, PreTrainedModel]:
        folder: Path = tmp_path_factory.mktemp(name)
        model = save_graph(name, folder)
        return open_checkpoint(folder), model

    return made

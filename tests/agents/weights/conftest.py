"""A small sharded checkpoint in the safetensors format."""

from pathlib import Path

import pytest

from tests.agents.engines.tiny_models import save_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama of 6 layers in shards, its own copy for every test."""
    save_model("llama", tmp_path / "tiny")
    return tmp_path / "tiny"

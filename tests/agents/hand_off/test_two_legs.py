"""Prefilled here, decoded there: whatever the cuts, and whoever dies, a client sees the tokens of one engine, once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agents.engines.sampling import Sampling
from agents.weights.source import open_checkpoint
from policies.routing_table import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet, fleet_of


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grouped queries; windows in every other layer; experts."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    save_model("gpt-oss", folder)
    return folder


@pytest.fixture(scope="module")
def whole(checkpoint: Path) -> Pipeline:
    """The same model behind one engine."""
    return Pipeline.load(open_checkpoint(checkpoint), [LAYERS])


@pytest.fixture(scope="module")
def pair(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two uneven prefill stages, the second on two unequal nodes; three decode stages cut elsewhere."""
    instances = {
        "p1": (PREFILL, ((4, 2), ((1.0,), (0.6, 0.4)))),
        "d1": (DECODE, ((1, 3, 2), ((1.0,), (0.5, 0.5), (1.0,)))),
    }
    with fleet_of(tmp_path_factory.mktemp("pair"), checkpoint, instances, *QUICK) as fleet:
        yield fleet


def test_requests_of_two_legs_get_the_tokens_of_one_engine(pair: Fleet, whole: Pipeline) -> None:
    warm = {"temperature": 0.9, "top_p": 0.95, "seed": 11}
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n, warm if n % 3 == 2 else {}) for n in range(10)}
    streams = {n: pair.stream(prompt, tokens, **how) for n, (prompt, tokens, how) in requests.items()}
    for n, (prompt, tokens, how) in requests.items():
        sampling = Sampling(how.get("temperature", 0.0), how.get("top_p", 1.0), 0, how.get("seed", 0))
        assert streams[n].end() == whole.generate(prompt, tokens, sampling=sampling), f"request {n}"
        assert streams[n].reason == "length"
    assert pair.stream(prompt_of(9), 1).end() == whole.generate(prompt_of(9), 1)
    pair.wait_idle()

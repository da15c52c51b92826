"""Whoever is killed while a prompt is computed and its KV cache streams, clients see the tokens of one engine, once."""

from pathlib import Path

import pytest
import torch

from agents.weights.source import open_checkpoint
from bench.text_tables import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet

SLOW = ("--pace", "0.05")
"""A prompt of a dozen chunks takes seconds."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    save_model("gpt-oss", folder)
    return folder


@pytest.mark.slow
def test_either_side_is_killed_or_all_is_cancelled_amid_prompts(checkpoint: Path, tmp_path: Path) -> None:
    whole = Pipeline.load(open_checkpoint(checkpoint), [LAYERS])
    one, two = ((6,), ((1.0,),)), ((2, 4), ((1.0,), (1.0,)))
    fleet = Fleet(tmp_path, checkpoint)
    try:
        for name, leg, cut in (("p1", PREFILL, two), ("p2", PREFILL, one), ("d1", DECODE, one), ("d2", DECODE, two)):
            fleet.add(name, leg, cut, worker_options=SLOW if leg == PREFILL else ())
        fleet.publish()
        fleet.start_gateway(*QUICK)
        for round_, (killed, watched) in enumerate((("p1", "p1"), ("d1", "p2"), ("", "p2"))):
            before = fleet.stats(watched).done.prompt_tokens
            prompts = [prompt_of(190 + 12 * n, 10 * round_ + n) for n in range(4)]
            streams = [fleet.stream(prompt, 12) for prompt in prompts]
            fleet.stats_until(watched, lambda stats: stats.done.prompt_tokens > before)  # noqa: B023
            if killed:
                fleet.instances[killed].workers["0.0"].kill()
            else:
                for stream in streams:
                    stream.cancel()
            for prompt, stream in zip(prompts, streams, strict=True):
                tokens, expected = stream.end(), whole.generate(prompt, 12)
                assert tokens == (expected if killed else expected[: len(tokens)])
        fleet.wait_idle("p2", "d2")
        assert "Traceback" not in fleet.gateway_log
    finally:
        fleet.stop()

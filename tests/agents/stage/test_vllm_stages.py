"""vLLM on a layer range: in one pipeline with our own engine, and on either side of a hand-off."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from agents.engines import sampling
from agents.messages.to_gateway import Finished
from agents.messages.to_scheduler import Cancel, Generate, Sampling
from agents.weights.source import open_checkpoint
from policies.routing_table import DECODE, PREFILL
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.hand_off.fleet import QUICK, Fleet
from tests.agents.stage.instances import Gateway, Instance, play

pytestmark = pytest.mark.needs("vllm")

GREEDY = Sampling(0.0, 1.0, 0, 0)
WARM = Sampling(0.9, 0.95, 40, 11, 2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    save_model("qwen3", folder)
    return folder


@pytest.fixture(scope="module")
def whole(checkpoint: Path) -> Pipeline:
    return Pipeline.load(open_checkpoint(checkpoint), [LAYERS])


@pytest.fixture(scope="module")
def fleet(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Prefill on vLLM alone; decode on three stages, the middle one half ours and half vLLM's."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), checkpoint)
    with ExitStack() as opened:
        opened.callback(made.stop)
        made.add("p1", PREFILL, ((6,), ((1.0,),)), engines={"0.0": "vllm"})
        cut = ((2, 3, 1), ((1.0,), (0.6, 0.4), (1.0,)))
        made.add("d1", DECODE, cut, engines={"1.1": "vllm"})
        made.publish()
        made.start_gateway(*QUICK)
        yield made


def expected(whole: Pipeline, prompt: list[int], tokens: int, chosen: Sampling = GREEDY) -> list[int]:
    ours = sampling.Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.seed)
    return whole.generate(prompt, tokens, sampling=ours)


def test_a_request_handed_from_stages_to_stages_gets_the_tokens_of_one_engine(fleet: Fleet, whole: Pipeline) -> None:
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n) for n in range(8)}
    streams = {n: fleet.stream(*request) for n, request in requests.items()}
    for n, request in requests.items():
        assert streams[n].end() == expected(whole, *request), f"request {n}"
    fleet.wait_idle()


def test_one_pipeline_of_both_engines_answers_as_one_engine(fleet: Fleet, whole: Pipeline) -> None:
    """Whole requests on the instance that decodes; some wait, one is preempted or cancelled."""
    requests = {n: (prompt_of(3 + 9 * n, n), 6 + 3 * n, WARM if n % 3 == 2 else GREEDY) for n in range(10)}

    async def scenario(gateway: Gateway) -> None:
        for n, (prompt, tokens, chosen) in requests.items():
            gateway.send(Generate(n, f"r{n}", "tiny", tuple(prompt), (), tokens, (), chosen, 120.0))
        gateway.send(Generate(50, "r50", "tiny", tuple(prompt_of(20, 50)), (), 200, (), GREEDY, 120.0))
        await gateway.until(lambda: gateway.tokens(50))
        gateway.send(Cancel(50))
        await gateway.until(lambda: len(gateway.ends()) == len(requests))
        assert all(isinstance(end, Finished) for end in gateway.ends().values())
        for n, request in requests.items():
            assert gateway.tokens(n) == expected(whole, *request), f"request {n}"

    instance: Instance = fleet.instances["d1"]
    play(instance, scenario)
    fleet.wait_idle("d1")

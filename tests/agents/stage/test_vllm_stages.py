"""vLLM on a layer range: in one pipeline with our own engine, and on either side of a hand-off."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agents.messages.to_gateway import Finished, Stats
from agents.messages.to_scheduler import AskStats, Cancel
from bench.text_tables import DECODE, PREFILL
from templates_lib.values.speculation import Speculation
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import prompt_of
from tests.agents.hand_off.fleet import QUICK, Fleet
from tests.agents.stage.instances import Gateway, Instance, Split, play
from tests.agents.stage.questions import KINDS, asked, expected

pytestmark = [pytest.mark.slow, pytest.mark.needs("vllm")]


@pytest.fixture(scope="module")
def fleet(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Prefill on vLLM alone; decode on three stages, the middle one half ours and half vLLM's, which verifies no
    drafts, though they are asked for."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), checkpoint)
    with ExitStack() as opened:
        opened.callback(made.stop)
        made.add("p1", PREFILL, ((6,), ((1.0,),)), engines={"0.0": "vllm-stage"})
        cut = ((2, 3, 1), ((1.0,), (0.6, 0.4), (1.0,)))
        made.add("d1", DECODE, cut, engines={"1.1": "vllm-stage"}, speculation=Speculation(1, 4))
        made.publish()
        made.start_gateway(*QUICK)
        yield made


def test_a_request_handed_from_stages_to_stages_gets_the_tokens_of_one_engine(fleet: Fleet, whole: Pipeline) -> None:
    requests = {n: (prompt_of(5 + 11 * n, n), 4 + 3 * n) for n in range(8)}
    streams = {n: fleet.stream(*request) for n, request in requests.items()}
    for n, request in requests.items():
        assert streams[n].end() == expected(whole, *request), f"request {n}"
    fleet.wait_idle()


def test_one_pipeline_of_both_engines_answers_as_one_engine(fleet: Fleet, whole: Pipeline) -> None:
    """Whole requests on the instance that decodes; some wait, one is preempted or cancelled."""
    requests = {n: (prompt_of(3 + 9 * n, n), 6 + 3 * n, KINDS[n % 4]) for n in range(10)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}

    async def scenario(gateway: Gateway) -> None:
        for n, (prompt, tokens, chosen) in requests.items():
            gateway.send(asked(n, prompt, tokens, chosen))
        gateway.send(asked(50, prompt_of(20, 50), 200))
        await gateway.until(lambda: gateway.tokens(50))
        gateway.send(Cancel(50))
        await gateway.until(lambda: gateway.ends().keys() >= requests.keys())
        assert all(isinstance(end, Finished) for end in gateway.ends().values())
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"
        gateway.send(AskStats())
        await gateway.until(lambda: gateway.of(Stats))
        assert gateway.of(Stats)[-1].done.draft_tokens == 0

    instance: Instance = fleet.instances["d1"]
    play(instance, scenario)
    fleet.wait_idle("d1")


def test_a_prompt_begins_with_blocks_that_vllm_keeps(fleet: Fleet, whole: Pipeline) -> None:
    prompt = prompt_of(50, 77)
    answer = expected(whole, prompt, 9)

    async def scenario(gateway: Gateway) -> None:
        for n in (100, 101):
            gateway.send(asked(n, prompt, 9))
            await gateway.until(lambda n=n: n in gateway.ends())
            assert gateway.tokens(n) == answer
        assert [gateway.ends()[n].cached_prompt_tokens for n in (100, 101)] == [0, 48]

    play(fleet.instances["p1"], scenario)
    fleet.wait_idle("p1")


def test_parts_and_replicas_of_a_node_are_vllms_too(checkpoint: Path, whole: Pipeline, tmp_path: Path) -> None:
    requests = {n: (prompt_of(3 + 9 * n, n), 6 + n) for n in range(6)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}
    splits, engines = {"0.0": Split(pp=2), "0.1": Split(dp=2)}, {"0.0": "vllm-stage"}

    async def scenario(gateway: Gateway) -> None:
        for n, (prompt, tokens) in requests.items():
            gateway.send(asked(n, prompt, tokens))
        await gateway.until(lambda: len(gateway.ends()) == len(requests))
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"

    with Instance(tmp_path, checkpoint, (6,), ((0.5, 0.5),), splits=splits, engines=engines) as instance:
        play(instance, scenario)

"""A pipeline of real processes answers as one engine does, and fails as a whole, soon and with a reason."""

import errno
import json
import random
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState, Stats, Status, Tokens
from agents.messages.to_scheduler import AskStats, Cancel
from agents.weights.source import record_checksums
from templates_lib.values.speculation import Speculation
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import prompt_of
from tests.agents.stage.instances import Gateway, Instance, play
from tests.agents.stage.questions import GREEDY, KINDS, WARM, asked, expected
from tests.hub_server import Hub, files_of, serving, use


@pytest.fixture(scope="module")
def parallel(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """Three uneven stages, the middle one on two unequal nodes. Its answers are drafted where places are free."""
    folder, cut = tmp_path_factory.mktemp("parallel"), ((1, 3, 2), ((1.0,), (0.6, 0.4), (1.0,)))
    with Instance(folder, checkpoint, *cut, speculation=Speculation(1, 4)) as made:
        yield made


@pytest.fixture
def straight(checkpoint: Path, tmp_path: Path) -> Iterator[Instance]:
    """Three uneven stages of one node each, slow enough that something can be done to them amid a request."""
    slow = ("--pace", "0.1")
    with Instance(tmp_path, checkpoint, (3, 1, 2), ((1.0,), (1.0,), (1.0,)), worker_options=slow) as made:
        yield made


def test_requests_that_come_and_go_get_the_tokens_of_one_engine(parallel: Instance, whole: Pipeline) -> None:
    requests = {n: (prompt_of(5 + 9 * n, n), 6 + 3 * n, KINDS[n % 4]) for n in range(10)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}
    resumed = answers[5][:7]

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, *request) for n, request in requests.items()))
        gateway.send(asked(50, prompt_of(20, 50), 200), asked(51, *requests[5], tuple(resumed)))
        await gateway.until(lambda: gateway.tokens(50))
        gateway.send(Cancel(50))
        await gateway.until(lambda: gateway.ends().keys() >= {*requests, 51})
        assert all(isinstance(end, Finished) for end in gateway.ends().values())
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"
        assert resumed + gateway.tokens(51) == answers[5]
        await gateway.until(lambda: gateway.status().running == 0)
        assert gateway.status().kv_blocks_free == gateway.status().kv_blocks

    play(parallel, scenario)


def test_drafted_answers_are_those_of_one_engine_in_fewer_steps(parallel: Instance, whole: Pipeline) -> None:
    requests = {n: (prompt_of(12, n) * 2, 60, KINDS[n]) for n in range(4)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, *request) for n, request in requests.items()), AskStats())
        await gateway.until(lambda: gateway.ends().keys() >= requests.keys() and gateway.of(Stats))
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"
        runs = [run for message in gateway.of(Tokens) for run in message.runs]
        assert max(len(run.ids) for run in runs) > 1
        assert all(len(run.logprobs) == (len(run.ids) if requests[run.attempt][2] is WARM else 0) for run in runs)
        gateway.send(AskStats())
        await gateway.until(lambda: len(gateway.of(Stats)) == 2)
        before, after = (stats.done for stats in gateway.of(Stats))
        assert after.draft_tokens > after.accepted_tokens > before.accepted_tokens

    play(parallel, scenario)


def test_turns_of_a_chat_begin_with_the_blocks_of_those_before(parallel: Instance, whole: Pipeline) -> None:
    turns: list[tuple[list[int], list[int]]] = []
    text = prompt_of(40, 900)
    for turn in range(4):
        text = [*text, *prompt_of(9, 901 + turn)]
        turns.append((text, expected(whole, text, 12)))
        text = [*text, *turns[-1][1]]

    async def scenario(gateway: Gateway) -> None:
        gateway.send(AskStats())
        await gateway.until(lambda: gateway.of(Stats))
        for n, (prompt, answer) in enumerate(turns):
            gateway.send(asked(n, prompt, 12))
            await gateway.until(lambda n=n: n in gateway.ends())
            assert gateway.tokens(n) == answer, f"turn {n}"
        gateway.send(AskStats())
        await gateway.until(lambda: len(gateway.of(Stats)) == 2)
        before, after = (stats.done for stats in gateway.of(Stats))
        cached = [gateway.ends()[n].cached_prompt_tokens for n in range(len(turns))]
        assert cached == [0, 48, 80, 96], "whole blocks of 16 that the turn before has computed"
        assert after.found_tokens - before.found_tokens == sum(cached)
        assert after.prompt_tokens - before.prompt_tokens == sum(len(prompt) for prompt, _ in turns) - sum(cached)

    play(parallel, scenario)


def test_stages_fetch_of_the_hub_what_holds_their_layers(
    checkpoint: Path, whole: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = prompt_of(20), 8, GREEDY
    answer = expected(whole, *request)

    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, *request))
        await gateway.until(lambda: gateway.ends().keys() == {1})
        assert gateway.tokens(1) == answer

    with serving(Hub({"acme/tiny": files_of(checkpoint)})) as hub:
        use(hub, tmp_path / "home", monkeypatch)
        with Instance(tmp_path, "hf:acme/tiny", (2, 4), ((1.0,), (1.0,))) as made:
            play(made, scenario)
        shards = {file for file in files_of(checkpoint) if file.endswith(".safetensors")}
        assert {file for file in hub.sent if file.endswith(".safetensors")} == shards


def test_64_streams_with_random_cancels_leave_nothing_held(parallel: Instance, whole: Pipeline) -> None:
    """More than fits at once: some wait, some are preempted, a third is cancelled at some token."""
    draw = random.Random(7)
    prompts = {n: prompt_of(draw.randint(1, 40), n) for n in range(64)}
    cancel_at = {n: draw.randint(0, 11) for n in prompts if n % 3 == 0}
    answers = {n: expected(whole, prompt, 12) for n, prompt in prompts.items() if n not in cancel_at}
    afterwards = expected(whole, prompt_of(240), 15)

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, prompt, 12) for n, prompt in prompts.items()))
        due = dict(cancel_at)

        def is_done() -> bool:
            for n in [n for n, at in due.items() if len(gateway.tokens(n)) >= at]:
                gateway.send(Cancel(n))
                del due[n]
            return not due and set(answers) <= set(gateway.ends())

        await gateway.until(is_done)
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"
        await gateway.until(lambda: gateway.status().running + gateway.status().waiting == 0)
        assert gateway.status().kv_blocks_free == gateway.status().kv_blocks
        gateway.send(asked(100, prompt_of(240), 15))
        await gateway.until(lambda: 100 in gateway.ends())
        assert gateway.tokens(100) == afterwards

    play(parallel, scenario)


def test_log_probabilities_come_with_the_tokens_that_asked_for_them(parallel: Instance) -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 4, WARM))
        await gateway.until(gateway.ends)
        runs = [run for message in gateway.seen.messages for run in getattr(message, "runs", ())]
        entries = [entry for run in runs for entry in run.logprobs]
        assert len(entries) == 4
        assert all(entry.chosen <= 0 and len(entry.top) == 2 for entry in entries)

    play(parallel, scenario)


def test_a_gateway_that_leaves_takes_its_requests_with_it(parallel: Instance) -> None:
    async def finished(gateway: Gateway) -> Mapping[FinishReason, int]:
        gateway.send(AskStats())
        await gateway.until(lambda: gateway.of(Stats))
        (stats,) = gateway.of(Stats)
        return stats.finished

    async def leave(gateway: Gateway) -> None:
        before.update(await finished(gateway))
        gateway.send(*(asked(n, prompt_of(9, n), 240) for n in range(40)))  # which take it many seconds
        await gateway.until(lambda: gateway.tokens(0))

    async def look(gateway: Gateway) -> None:
        await gateway.until(lambda: gateway.of(Status) and gateway.status().running + gateway.status().waiting == 0)
        assert gateway.status().kv_blocks_free == gateway.status().kv_blocks
        more = sum((await finished(gateway)).values()) - sum(before.values())
        assert more < 20, "they were ended, not computed to their end"

    before: dict[FinishReason, int] = {}
    play(parallel, leave)
    play(parallel, look)


@pytest.mark.parametrize("victim", ["1.0", "2.0"])
def test_a_killed_stage_fails_its_requests_with_a_reason_and_ends_the_instance(straight: Instance, victim: str) -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 240), asked(2, prompt_of(30), 200))
        await gateway.until(lambda: gateway.tokens(1) and gateway.tokens(2))
        straight.workers[victim].kill()
        await gateway.until(lambda: set(gateway.ends()) == {1, 2})
        for end in gateway.ends().values():
            assert isinstance(end, Failed)
            assert end.failure is Failure.ENGINE
            assert end.failure.is_retryable
            assert end.reason

    play(straight, scenario)
    statuses = straight.ended()
    assert statuses.pop(victim) == -signal.SIGKILL
    assert statuses.pop("scheduler") == 1


def test_a_stage_that_hangs_is_given_up(straight: Instance) -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 240))
        await gateway.until(lambda: gateway.tokens(1))
        straight.workers["1.0"].send_signal(signal.SIGSTOP)
        await gateway.until(gateway.ends)
        end = gateway.ends()[1]
        assert isinstance(end, Failed)
        assert end.failure is Failure.ENGINE
        assert "1.0 is lost: silent" in end.reason

    play(straight, scenario)
    assert straight.ended(but="1.0") == {"scheduler": 1, "0.0": 0, "2.0": 0}


def test_stages_that_do_not_make_the_model_serve_nothing_and_say_why(checkpoint: Path, tmp_path: Path) -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 5))
        await gateway.until(gateway.ends)
        assert gateway.ends() == {1: Failed(1, Failure.ENGINE, "the stages hold 5 layers of 6")}

    with Instance(tmp_path, checkpoint, (1, 4), ((1.0,), (1.0,))) as instance:
        play(instance, scenario)
        assert instance.ended() == {"scheduler": 1, "0.0": 0, "1.0": 0}


def test_a_stage_that_cannot_load_fails_its_instance_with_the_reason(checkpoint: Path, tmp_path: Path) -> None:
    """Its weights are not what was published: the file is named, and nobody waits for that stage."""
    damaged = tmp_path / "damaged"
    shutil.copytree(checkpoint, damaged)
    record_checksums(damaged)
    index = json.loads((damaged / "model.safetensors.index.json").read_text())["weight_map"]
    file = damaged / index["model.layers.5.mlp.down_proj.weight"]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 5))
        await gateway.until(gateway.ends)
        end = gateway.ends()[1]
        assert isinstance(end, Failed)
        assert end.failure is Failure.ENGINE
        assert end.reason.startswith(f"1.0 failed: {file}: ")

    with Instance(tmp_path, damaged, (1, 5), ((1.0,), (1.0,))) as instance:
        play(instance, scenario)
        # The other one may not have dialled yet: then whoever started it ends it.
        assert instance.ended(but="0.0") == {"scheduler": 1, "1.0": 1}


def test_a_stage_that_does_not_fit_fails_its_instance_with_what_would(checkpoint: Path, tmp_path: Path) -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 5))
        await gateway.until(gateway.ends)
        assert re.fullmatch(
            r"0\.0 failed: .* of 1 MiB: load at most \d+ blocks, or fewer layers", gateway.ends()[1].reason
        )

    with Instance(tmp_path, checkpoint, (6,), ((1.0,),), worker_options=("--memory-mib", "1")) as instance:
        play(instance, scenario)
        assert instance.ended() == {"scheduler": 1, "0.0": errno.ENOMEM}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_scheduler(straight: Instance, end: signal.Signals) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.until(lambda: gateway.of(Status) and gateway.status().state is SchedulerState.READY)
        straight.scheduler.send_signal(end)
        await gateway.until(lambda: gateway.seen.downs)

    play(straight, scenario)
    is_told = end is signal.SIGTERM
    workers = dict.fromkeys(straight.workers, 0 if is_told else 1)
    assert straight.ended() == {"scheduler": 0 if is_told else -end, **workers}

"""A vLLM node answers as our own engine does, and gives back what it held."""

import errno
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from agents.messages.to_gateway import Failed, Failure, Finished, FinishReason, SchedulerState, Status, Tokens
from agents.messages.to_scheduler import AskStatus, Cancel, Drain, Leg, Sampling
from agents.weights.source import open_checkpoint, record_checksums
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, VOCABULARY, assert_same, prompt_of, reference, save_model
from tests.agents.stage.instances import Gateway, play
from tests.agents.stage.questions import RULED, RULES, WARM, asked, expected
from tests.agents.vllm_engine.nodes import KV_BLOCKS, VllmNode

pytestmark = pytest.mark.needs("vllm")

CONTEXT = 256
LOAD_TIMEOUT_S = 240


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreTrainedModel, Path]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny")
    return save_model("qwen3", folder), folder


@pytest.fixture(scope="module")
def loading(model: tuple[PreTrainedModel, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmNode]:
    """To the first test that asks for it, it has just been started."""
    with VllmNode(tmp_path_factory.mktemp("node"), model[1], "tiny", VOCABULARY, CONTEXT) as made:
        yield made


@pytest.fixture(scope="module")
def node(loading: VllmNode) -> VllmNode:
    play(loading, until_loaded)
    return loading


async def until_loaded(gateway: Gateway) -> None:
    """vLLM takes its time on a busy machine."""
    await gateway.seen.until(
        lambda: gateway.of(Status) and gateway.status().state is not SchedulerState.LOADING, LOAD_TIMEOUT_S
    )


def entries_of(gateway: Gateway, attempt: int) -> list:
    runs = [run for message in gateway.of(Tokens) for run in message.runs if run.attempt == attempt]
    return [entry for run in runs for entry in run.logprobs]


async def until_nothing_is_held(gateway: Gateway) -> None:
    await gateway.until(lambda: gateway.of(Status) and gateway.status().running + gateway.status().waiting == 0)
    await gateway.until(lambda: gateway.status().kv_blocks_free == gateway.status().kv_blocks)


def test_what_is_asked_while_it_loads_waits_for_the_engine(loading: VllmNode) -> None:
    async def scenario(gateway: Gateway) -> None:
        await gateway.until(lambda: gateway.of(Status))
        assert gateway.status().state is SchedulerState.LOADING
        gateway.send(asked(1, prompt_of(9), 5))
        await until_loaded(gateway)
        await gateway.until(gateway.ends)
        assert len(gateway.tokens(1)) == 5

    play(loading, scenario)


def test_greedy_tokens_are_those_of_transformers(node: VllmNode, model: tuple[PreTrainedModel, Path]) -> None:
    """More requests than run at once, prompts longer than a step takes, one that goes on behind tokens sent before."""
    requests = {n: (prompt_of(5 + 9 * n, n), 6 + 3 * n) for n in range(10)}
    references = {n: reference(model[0], *request) for n, request in requests.items()}
    resumed = tuple(references[4][0][:7])

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, *request) for n, request in requests.items()))
        gateway.send(asked(50, *requests[4], sent=resumed))
        await gateway.until(lambda: len(gateway.ends()) == len(requests) + 1)
        for n, answer in references.items():
            assert_same(gateway.tokens(n), answer)
            assert gateway.ends()[n] == Finished(n, FinishReason.LENGTH, len(answer[0]))
        assert_same([*resumed, *gateway.tokens(50)], references[4])
        await until_nothing_is_held(gateway)

    play(node, scenario)


def test_a_choice_depends_on_seed_position_and_tokens_so_far_as_in_our_engine(
    node: VllmNode, model: tuple[PreTrainedModel, Path]
) -> None:
    whole = Pipeline.load(open_checkpoint(model[1]), [LAYERS])
    kinds = {1: WARM, 2: Sampling(1.3, 1.0, 0, 77), 3: Sampling(0.6, 0.8, 0, 5, None, RULES), 4: RULED}
    answers = {n: expected(whole, prompt_of(20, n), 24, chosen) for n, chosen in kinds.items()}

    async def scenario(gateway: Gateway) -> None:
        for n, chosen in kinds.items():
            gateway.send(asked(n, prompt_of(20, n), 24, chosen))
            gateway.send(asked(10 + n, prompt_of(20, n), 24, chosen, sent=tuple(answers[n][:9])))
        await gateway.until(lambda: len(gateway.ends()) == 2 * len(kinds))
        for n in kinds:
            assert gateway.tokens(n) == answers[n]
            assert gateway.tokens(10 + n) == answers[n][9:]
        assert len(entries_of(gateway, 1)) == 24
        assert not entries_of(gateway, 2)

    play(node, scenario)


def test_log_probabilities_are_the_models_own(node: VllmNode, model: tuple[PreTrainedModel, Path]) -> None:
    prompt = prompt_of(9)
    with torch.inference_mode():
        expected = model[0](torch.tensor([prompt])).logits[0, -1].log_softmax(-1)

    async def scenario(gateway: Gateway) -> None:
        for attempt, (temperature, count) in enumerate([(0.0, 0), (0.0, 3), (1.5, 3)]):
            gateway.send(asked(attempt, prompt, 1, Sampling(temperature, 1.0, 0, 3, count)))
        await gateway.until(lambda: len(gateway.ends()) == 3)
        for attempt, count in enumerate([0, 3, 3]):
            (entry,), (token,) = entries_of(gateway, attempt), gateway.tokens(attempt)
            assert entry.chosen == pytest.approx(float(expected[token]), abs=1e-4)
            assert [t for t, _ in entry.top] == expected.topk(count).indices.tolist()
            assert [p for _, p in entry.top] == pytest.approx(expected.topk(count).values.tolist(), abs=1e-4)

    play(node, scenario)


def test_a_stop_token_ends_it_and_is_not_sent(node: VllmNode, model: tuple[PreTrainedModel, Path]) -> None:
    tokens, _ = reference(model[0], prompt_of(12), 20)
    stop = tokens[5]

    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(12), 20, stop_ids=(stop,)))
        await gateway.until(gateway.ends)
        first = tokens.index(stop)
        assert gateway.tokens(1) == tokens[:first]
        assert gateway.ends()[1] == Finished(1, FinishReason.STOP, first)

    play(node, scenario)


def test_cancels_deadlines_and_gateways_that_leave_free_the_kv_cache(node: VllmNode) -> None:
    async def leave(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 240))
        await gateway.until(lambda: gateway.tokens(1))

    async def scenario(gateway: Gateway) -> None:
        await until_nothing_is_held(gateway)
        gateway.send(*(asked(n, prompt_of(30, n), 220) for n in range(40)))
        gateway.send(asked(50, prompt_of(9), 240, deadline_s=0.0))
        await gateway.until(lambda: gateway.tokens(0))
        gateway.send(AskStatus())
        await gateway.until(lambda: gateway.status().waiting and gateway.status().kv_blocks_free < KV_BLOCKS // 2)
        await gateway.until(lambda: 50 in gateway.ends())
        assert gateway.ends()[50].failure is Failure.DEADLINE
        gateway.send(*map(Cancel, range(40)), asked(60, prompt_of(9), 240), Cancel(60))
        await until_nothing_is_held(gateway)
        assert 60 not in gateway.ends()

    play(node, leave)
    play(node, scenario)


def test_what_cannot_be_served_is_refused_with_the_kind_of_reason(node: VllmNode) -> None:
    cases = {
        1: (asked(1, prompt_of(9), 5, model="other"), Failure.UNKNOWN_MODEL),
        2: (asked(2, prompt_of(9), 5, leg=Leg.PREFILL), Failure.HAND_OFF),
        3: (asked(3, [], 5), Failure.UNSUPPORTED),
        4: (asked(4, [VOCABULARY], 5), Failure.UNSUPPORTED),
        5: (asked(5, [1] * CONTEXT, 5), Failure.TOO_LONG),
    }

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(request for request, _ in cases.values()), asked(7, prompt_of(9), 5, stop_ids=(VOCABULARY,)))
        await gateway.until(lambda: len(gateway.ends()) == 6)
        failures = {end.attempt: end.failure for end in gateway.of(Failed)}
        assert failures == {n: failure for n, (_, failure) in cases.items()}

    play(node, scenario)


def test_weights_that_are_not_what_was_recorded_are_refused_by_name(
    tmp_path: Path, model: tuple[PreTrainedModel, Path]
) -> None:
    save_model("qwen3", tmp_path / "damaged")
    record_checksums(tmp_path / "damaged")
    victim = sorted((tmp_path / "damaged").glob("*.safetensors"))[-1]
    data = bytearray(victim.read_bytes())
    data[-3] ^= 1
    victim.write_bytes(data)
    with VllmNode(tmp_path, tmp_path / "damaged", "tiny", VOCABULARY, CONTEXT) as node:

        async def scenario(gateway: Gateway) -> None:
            gateway.send(asked(1, prompt_of(9), 5))
            await gateway.until(gateway.ends)
            assert gateway.ends()[1].failure is Failure.ENGINE
            assert victim.name in gateway.ends()[1].reason

        play(node, scenario)
        assert node.process.wait(LOAD_TIMEOUT_S) == 1
        assert victim.name in node.log


def test_a_model_that_does_not_fit_says_so_by_its_exit_status(
    tmp_path: Path, model: tuple[PreTrainedModel, Path]
) -> None:
    with VllmNode(tmp_path, model[1], "tiny", VOCABULARY, CONTEXT, options=("--memory-mib", "1")) as node:
        assert node.process.wait(LOAD_TIMEOUT_S) == errno.ENOMEM
        assert "load at most" in node.log


@pytest.mark.slow
def test_memory_that_runs_out_in_one_of_its_processes_is_told_by_its_exit_status(
    tmp_path: Path, model: tuple[PreTrainedModel, Path]
) -> None:
    options = ("--tensor-parallel", "2")
    with VllmNode(tmp_path, model[1], "tiny", VOCABULARY, CONTEXT, options=options, asked_blocks=10**12) as node:
        assert node.process.wait(LOAD_TIMEOUT_S) == errno.ENOMEM
        assert "vllm: OutOfMemoryError: " in node.log


def test_it_drains_and_ends_when_told(node: VllmNode) -> None:
    """Last of those that use it."""

    async def scenario(gateway: Gateway) -> None:
        gateway.send(asked(1, prompt_of(9), 60))
        await gateway.until(lambda: gateway.tokens(1))
        gateway.send(Drain(), asked(2, prompt_of(9), 5))
        await gateway.until(lambda: len(gateway.ends()) == 2)
        assert gateway.ends()[2].failure is Failure.DRAINING
        assert len(gateway.tokens(1)) == 60
        await until_nothing_is_held(gateway)
        assert gateway.status().state is SchedulerState.DRAINING

    play(node, scenario)
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(LOAD_TIMEOUT_S) == 0

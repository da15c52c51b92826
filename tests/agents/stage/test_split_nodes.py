"""Nodes that are pipelines, replicas and tensor-parallel inside, beside peers that are not: the tokens are the same."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.messages.to_gateway import Failure, Finished, Stats
from agents.messages.to_scheduler import AskStats
from templates_lib.values.speculation import Speculation
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference, save_model
from tests.agents.stage.instances import Gateway, Instance, Split, play
from tests.agents.stage.questions import KINDS, asked, expected

TOKENS = 12
DRAFTS = Speculation(1, 4)


@pytest.fixture(scope="module")
def mixed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """A stage of a pipeline of two parts beside two replicas beside a plain node, then a plain stage. Answers are
    drafted where places are free."""
    splits = {"0.0": Split(pp=2), "0.1": Split(dp=2)}
    weights = ((0.4, 0.4, 0.2), (1.0,))
    folder = tmp_path_factory.mktemp("mixed")
    with Instance(folder, checkpoint, (4, 2), weights, splits=splits, speculation=DRAFTS) as made:
        yield made


def test_parts_and_replicas_beside_plain_nodes_give_the_tokens_of_one_engine(mixed: Instance, whole: Pipeline) -> None:
    requests = {n: (prompt_of(5 + 9 * n, n), 6 + 2 * n, KINDS[n % 4]) for n in range(12)}
    answers = {n: expected(whole, *request) for n, request in requests.items()}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, *request) for n, request in requests.items()))
        await gateway.until(lambda: len(gateway.ends()) == len(requests))
        assert all(isinstance(end, Finished) for end in gateway.ends().values())
        for n, tokens in answers.items():
            assert gateway.tokens(n) == tokens, f"request {n}"
        repeating = prompt_of(12) * 2, 40
        gateway.send(asked(20, *repeating))
        await gateway.until(lambda: 20 in gateway.ends())
        assert gateway.tokens(20) == expected(whole, *repeating)
        await gateway.until(lambda: gateway.status().running == 0)
        assert gateway.status().kv_blocks_free == gateway.status().kv_blocks == mixed.kv_blocks
        gateway.send(AskStats())
        await gateway.until(lambda: gateway.of(Stats))
        done = gateway.of(Stats)[-1].done
        assert done.accepted_tokens > 0, "alone, it has places"
        nodes = done.nodes
        assert [node.node for node in nodes] == ["0.0", "0.1", "0.2", "1.0"], "one line for a node, of all its workers"
        read = {node.node: node.loaded_bytes for node in nodes}
        assert read["0.1"] == 2 * read["0.0"] == 2 * read["0.2"], "each replica reads all, its parts share it"

    play(mixed, scenario)


def test_a_worker_that_is_killed_takes_its_instance_along_and_is_named(checkpoint: Path, tmp_path: Path) -> None:
    splits = {"0.0": Split(dp=2, pp=2)}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, prompt_of(9, n), 200) for n in range(4)))
        await gateway.until(lambda: all(gateway.tokens(n) for n in range(4)))
        instance.workers["0.0/2"].kill()
        await gateway.until(lambda: len(gateway.ends()) == 4)
        assert {end.failure for end in gateway.ends().values()} == {Failure.ENGINE}
        assert all("0.0" in end.reason for end in gateway.ends().values())

    slow = ("--pace", "0.1")  # the requests are under way when the kill comes
    with Instance(tmp_path, checkpoint, (6,), ((1.0,),), worker_options=slow, splits=splits) as instance:
        play(instance, scenario)
        assert set(instance.ended(but="0.0/2")) == {"scheduler", "0.0/0", "0.0/1", "0.0/3"}


JOINT = Split(dp=2, joint=True)


@pytest.mark.parametrize(
    "split",
    [
        JOINT,
        pytest.param(replace(JOINT, pp=2), marks=pytest.mark.slow),
        pytest.param(replace(JOINT, tp=2), marks=pytest.mark.slow),
        pytest.param(Split(tp=2, pp=2), marks=pytest.mark.slow),
        pytest.param(Split(tp=2, pp=2, whole_experts=True), marks=pytest.mark.slow),
    ],
    ids=["joint replicas", "of two parts", "of two devices", "tensors of two parts", "experts of two parts"],
)
def test_windows_and_experts_over_one_node_answer_as_transformers_does(tmp_path: Path, split: Split) -> None:
    """Prompts of all lengths: replicas that share their experts have steps that are the other's alone. Answers are
    drafted where places are free, of which there are more the fewer requests are left."""
    torch.set_num_threads(1)
    folder = tmp_path / "tiny"
    folder.mkdir()
    model = save_model("gpt-oss", folder)
    prompts = {n: prompt_of(6 + 11 * n, n) for n in range(5)}
    answers = {n: reference(model, prompt, TOKENS + 2 * n) for n, prompt in prompts.items()}

    async def scenario(gateway: Gateway) -> None:
        gateway.send(*(asked(n, prompt, TOKENS + 2 * n) for n, prompt in prompts.items()))
        await gateway.until(lambda: len(gateway.ends()) == len(prompts))
        for n, answer in answers.items():
            assert_same(gateway.tokens(n), answer)
        gateway.send(AskStats())
        await gateway.until(lambda: gateway.of(Stats))
        assert gateway.of(Stats)[-1].done.draft_tokens > 0

    with Instance(tmp_path, folder, (6,), ((1.0,),), splits={"0.0": split}, speculation=DRAFTS) as instance:
        play(instance, scenario)

"""Decoders in processes of their own take rows out of a sidecar, and answer as the whole model of transformers does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from transformers import PreTrainedModel

from agents.messages.to_gateway import Failed, Failure, Finished, Status
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.weights.checkpoint import Checkpoint
from tests.agents.engines.components.given_requests import Encoded
from tests.agents.engines.components.graph_requests import (
    REQUESTS,
    GraphRequest,
    intern_request,
    omni_request,
    qwen_request,
    sound_request,
    text_request,
)
from tests.agents.engines.components.tiny_graphs import VOCABULARY, WHISPER
from tests.agents.engines.tiny_models import assert_same, reference
from tests.agents.stage.instances import Gateway, Instance, play
from tests.agents.stage.questions import asked
from tests.agents.tensors.nodes import SETTINGS, Node, run_node

Made = Callable[[str], tuple[Checkpoint, PreTrainedModel]]
Cut = tuple[tuple[int, ...], tuple[tuple[float, ...], ...]]
TOKENS = 8
CONTEXT = {"whisper": WHISPER.max_target_positions}


def text_of(seed: int) -> Callable[[PreTrainedModel], GraphRequest]:
    return lambda model: text_request(model, seed)


@contextmanager
def instance_of(folder: Path, checkpoint: Checkpoint, name: str, cut: Cut, node: Node) -> Iterator[Instance]:
    sidecar = ("--sidecar", node.name)
    context = CONTEXT.get(name, 256)
    with Instance(
        folder, checkpoint.path, *cut, worker_options=sidecar, vocabulary=VOCABULARY, context_tokens=context
    ) as made:
        yield made


async def ready(gateway: Gateway) -> Status:
    await gateway.until(lambda: gateway.seen.downs or (gateway.of(Status) and gateway.status().takes_rows))
    assert not gateway.seen.downs
    return gateway.status()


def check(gateway: Gateway, attempt: int, request: GraphRequest) -> None:
    assert isinstance(gateway.ends()[attempt], Finished), gateway.ends()[attempt]
    assert_same(gateway.tokens(attempt), reference(request.whole, request.prompt, TOKENS))


def test_images_and_text_at_once_again_by_content_and_with_rows_that_do_not_fit(
    tiny_graph: Made, tmp_path: Path
) -> None:
    """In two stages, of which the first has two nodes; chunks of 16 tokens cut images."""
    checkpoint, model = tiny_graph("qwen-vl")
    requests = {1: qwen_request(model, 1), 2: text_request(model, 6), 3: qwen_request(model, 3, ((1, 8, 12),))}

    async def scenario(gateway: Gateway) -> None:
        assert (await ready(gateway)).takes_rows == 1
        narrow = replace(rows.put(5, requests[3])[0], rows=3, grid=None)
        gateway.send(
            *(rows.ask(attempt, each, TOKENS, keyed=True) for attempt, each in requests.items()),
            asked(5, requests[3].prompt, TOKENS, given=(narrow,)),
        )
        await gateway.until(lambda: gateway.ends().keys() >= {*requests, 5})
        for attempt, each in requests.items():
            check(gateway, attempt, each)
        assert gateway.ends()[5].failure is Failure.UNSUPPORTED
        gateway.send(rows.ask(11, requests[1], TOKENS, keyed=True))
        await gateway.until(lambda: 11 in gateway.ends())
        check(gateway, 11, requests[1])
        sent = gateway.tokens(11)[:3]
        gateway.send(rows.ask(12, requests[1], TOKENS, sent=tuple(sent)))
        await gateway.until(lambda: 12 in gateway.ends())
        assert sent + gateway.tokens(12) == gateway.tokens(11), "it goes on behind what its client has"

    with run_node(SETTINGS) as node:
        rows = Encoded(checkpoint, "qwen-vl", node.client("encoder"), 1)
        with instance_of(tmp_path, checkpoint, "qwen-vl", ((2, 4), ((0.5, 0.5), (1.0,))), node) as instance:
            play(instance, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "others"),
    [
        ("qwen-vl", (1, 2, 1, 2), [lambda model: qwen_request(model, 5, ((1, 2, 14),)), text_of(6)]),
        ("internvl", (3, 1, 2), [lambda model: intern_request(model, 5, (2,)), text_of(6)]),
        ("omni", (1, 5), [lambda model: omni_request(model, 5, (16_000,))]),
        ("whisper", (6,), [lambda model: sound_request(model, 6, 16_000)]),
        ("whisper", (1, 2, 1, 2), [lambda model: sound_request(model, 5, 300)]),
    ],
)
def test_any_stages_answer_as_the_whole_model(
    tiny_graph: Made,
    tmp_path: Path,
    name: str,
    layers: tuple[int, ...],
    others: list[Callable[[PreTrainedModel], GraphRequest]],
) -> None:
    checkpoint, model = tiny_graph(name)
    requests = dict(enumerate([REQUESTS[name](model, 1), *(other(model) for other in others)], 1))

    async def scenario(gateway: Gateway) -> None:
        assert (await ready(gateway)).takes_rows == takers
        gateway.send(*(rows.ask(attempt, each, TOKENS) for attempt, each in requests.items()))
        await gateway.until(lambda: gateway.ends().keys() == requests.keys())
        for attempt, each in requests.items():
            check(gateway, attempt, each)
        await gateway.until(lambda: gateway.status().running == 0)
        assert gateway.status().kv_blocks_free == gateway.status().kv_blocks
        assert not node.tensors, "each was taken as often as the status says"

    takers = len(layers) if name == "whisper" else 1
    with run_node(SETTINGS) as node:
        rows = Encoded(checkpoint, name, node.client("encoder"), takers)
        cut = layers, ((1.0,),) * len(layers)
        with instance_of(tmp_path, checkpoint, name, cut, node) as instance:
            play(instance, scenario)


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_a_prompt_computed_at_one_instance_goes_on_at_another(tiny_graph: Made, tmp_path: Path, name: str) -> None:
    """Behind images with the positions that follow them; an encoder's rows are taken by both."""
    checkpoint, model = tiny_graph(name)
    requests = {1: REQUESTS[name](model, 1), 2: REQUESTS[name](model, 4)}

    with ExitStack() as stack:
        node = stack.enter_context(run_node(SETTINGS))
        rows = Encoded(checkpoint, name, node.client("encoder"), 5 if name == "whisper" else 1)
        sides = []
        for side, layers in (("prefill", (2, 4)), ("decode", (1, 3, 2))):
            folder = tmp_path / side
            folder.mkdir()
            cut = layers, ((1.0,),) * len(layers)
            sides.append(stack.enter_context(instance_of(folder, checkpoint, name, cut, node)))

        async def prefill(first: Gateway) -> None:
            async with Gateway(sides[1]) as second:
                ends = [(await ready(side)).hand_off for side in (first, second)]
                for attempt, each in requests.items():
                    given = rows.put(attempt, each)
                    for side, leg, other in ((first, Leg.PREFILL, 1), (second, Leg.DECODE, 0)):
                        key = sides[other].addresses["public_key"]
                        peer = OtherLeg("other", ends[other], key, f"hand-off {attempt}")
                        side.send(asked(attempt, each.prompt, TOKENS, leg=leg, peer=peer, given=given))
                await second.until(lambda: second.ends().keys() == requests.keys() or _failed(first))
                assert not _failed(first), first.ends()
                for attempt, each in requests.items():
                    assert isinstance(second.ends()[attempt], Finished), second.ends()[attempt]
                    tokens = first.tokens(attempt) + second.tokens(attempt)
                    assert_same(tokens, reference(each.whole, each.prompt, TOKENS))

        play(sides[0], prefill)


def _failed(gateway: Gateway) -> list[Failed]:
    return gateway.of(Failed)

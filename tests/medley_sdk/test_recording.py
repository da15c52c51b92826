"""Record and replay: what code calls is known before anything is computed, and values come back to it."""

from typing import Any

import pytest

from medley_sdk import NonDeterminismError, Request, TaskError, Workflow, decoder, encoder, generator, workflow
from medley_sdk import replayable_choice as choice
from medley_sdk.packing import unpacked
from medley_sdk.recording import branches, recorded, replayed
from medley_sdk.values import CallRef, Choice, InputRef, Record, Signature

OF = "m"
EYE, WRITER = encoder("eye", of=OF), decoder("writer", of=OF)
SPEAKER, BOTH = generator("speaker", of=OF), decoder("eye", "writer", of=OF)


def called(record: Record) -> list[str]:
    return [call.unit.name for call in record.calls]


def chat(**given: Any) -> Any:
    return workflow(takes=("text", "image"), makes=("text", "audio"), **given)


@chat()
async def describe(request: Request) -> Any:
    if choice("apart", "together") == "together":
        written = BOTH(request.text, request.images)
    else:
        written = WRITER(["You see:", *map(EYE, request.images), request.text], temperature=0.5)
    return {"sound": SPEAKER(written.stream)} if request.answer == "audio" else written


def test_a_run_is_recorded_with_what_each_call_takes_in_order() -> None:
    record = recorded(describe, Signature("audio", text=True, images=2))
    assert called(record) == ["eye", "eye", "writer", "speaker"]
    takes = [call.takes for call in record.calls]
    assert takes[0] == (InputRef("image", 0),)
    assert takes[2] == (CallRef(0), CallRef(1), InputRef("text"))
    assert takes[3] == (CallRef(2, stream=True),)
    assert unpacked(record.calls[2].given, ["a", "b", "c"]) == [[["You see:", "a", "b", "c"]], {"temperature": 0.5}]
    assert record.gives == (CallRef(3),)
    assert unpacked(record.answer, [b"pcm"]) == {"sound": b"pcm"}
    assert record.awaits is None


def test_a_choice_is_recorded_as_branches_and_taken_again_when_it_is_asked_for() -> None:
    signature = Signature("text", images=1)
    found = list(branches(describe, signature))
    assert [called(record) for record in found] == [["eye", "writer"], ["eye+writer"]]
    assert [record.choices for record in found] == [(Choice(2, 0),), (Choice(2, 1),)]
    assert recorded(describe, signature, (1,)) == found[1]


def test_every_way_through_nested_choices_is_there_once() -> None:
    @chat()
    async def nested(request: Request) -> Any:
        first = choice("a", "b", "c")
        second = choice(1, 2) if first != "b" else 0
        return WRITER(request.text, first, second)

    found = [unpacked(r.calls[0].given, ["text"])[0][1:] for r in branches(nested, Signature("text"))]
    assert found == [["a", 1], ["a", 2], ["b", 0], ["c", 1], ["c", 2]]


def test_a_workflow_runs_as_a_part_of_another() -> None:
    @chat()
    async def outer(request: Request) -> Any:
        return await choice(describe, describe)(request)

    assert [called(record) for record in branches(outer, Signature("text", images=1))] == 2 * [
        ["eye", "writer"], ["eye+writer"]
    ]  # fmt: skip


@chat()
async def shouts(request: Request) -> Any:
    written = WRITER(request.text)
    spoken = SPEAKER(written)
    return {"text": (await written).upper(), "sound": spoken}


def test_what_is_called_before_the_first_await_is_known_and_a_replay_has_the_values() -> None:
    record = recorded(shouts, Signature("text"))
    assert called(record) == ["writer", "speaker"]
    assert record.awaits == 0
    again = replayed(shouts, record, ["hello", None])
    assert again.calls == record.calls
    assert unpacked(again.answer, [b"pcm"]) == {"text": "HELLO", "sound": b"pcm"}


def replayed_otherwise(first: Any, then: Any) -> None:
    """Record one thing, and replay another."""

    def flow(calls: Any) -> Workflow:
        @chat()
        async def task(request: Request) -> Any:
            return await calls(request)

        return task

    replayed(flow(then), recorded(flow(first), Signature("text")), ["a"])


@pytest.mark.parametrize(
    "then",
    [
        lambda request: BOTH(request.text),
        lambda request: WRITER(request.text, 2),
        lambda request: WRITER(request.text, choice(1, 2)),
        lambda request: [EYE(request.text), WRITER(request.text, 1)][1],
        lambda request: [WRITER(request.text, 1), EYE(request.text)][0],
    ],
)
def test_a_replay_that_calls_or_chooses_another_thing_is_refused(then: Any) -> None:
    with pytest.raises(NonDeterminismError):
        replayed_otherwise(lambda request: WRITER(request.text, 1), then)


def test_a_call_after_an_await_is_refused_by_name() -> None:
    @chat()
    async def steps(request: Request) -> Any:
        return SPEAKER(await WRITER(request.text))

    record = recorded(steps, Signature("text"))
    assert called(record) == ["writer"]
    with pytest.raises(NonDeterminismError, match="speaker"):
        replayed(steps, record, ["a"])


async def _asks_for_text(request: Request) -> Any:
    return "draw" in request.text


async def _compares_text(request: Request) -> Any:
    return WRITER(request.text) if request.text == "draw" else None


async def _awaits_text(request: Request) -> Any:
    return await request.text


async def _awaits_rows(request: Request) -> Any:
    return await EYE(request.images[0])


async def _streams_an_image(request: Request) -> Any:
    return EYE(request.images[0].stream)


async def _hands_on_an_object(request: Request) -> Any:
    return WRITER(request.text, object())


async def _hands_on_too_much(request: Request) -> Any:
    return WRITER(request.text, "x" * 100_000)


async def _never_ends(request: Request) -> Any:
    while True:
        EYE(request.images[0])


async def _chooses_among_nothing(request: Request) -> Any:
    return WRITER(choice())


async def _chooses_for_ever(request: Request) -> Any:
    return [choice(*range(9)), choice(*range(9))]


async def _awaits_a_clock(request: Request) -> Any:
    class Later:
        def __await__(self) -> Any:
            yield 1.0

    return await Later()


@pytest.mark.parametrize(
    "code",
    [
        _asks_for_text,
        _compares_text,
        _awaits_text,
        _awaits_rows,
        _streams_an_image,
        _hands_on_an_object,
        _hands_on_too_much,
        _never_ends,
        _chooses_among_nothing,
        _chooses_for_ever,
        _awaits_a_clock,
    ],
)
def test_what_no_record_can_hold_is_refused(code: Any) -> None:
    with pytest.raises(TaskError):
        list(branches(chat()(code), Signature("text", images=1)))


def test_units_are_called_in_a_workflow_and_a_workflow_is_async() -> None:
    with pytest.raises(TaskError):
        EYE("an image")
    with pytest.raises(TaskError, match="async"):
        chat()(lambda _: None)
    with pytest.raises(TaskError):
        workflow(takes=("smell",))
    with pytest.raises(TaskError):
        encoder("eye", "eye", of=OF)

"""What a run may do next, by what is on record of it."""

from datetime import UTC, datetime

import pytest

from control.runs.book import RunBook
from control.runs.record import CallRecord, CallState
from control.runs.run_state import NEXT, OPEN, RESUMABLE, RunState
from medley_sdk.errors import NonDeterminismError
from medley_sdk.flows.messages import CallKind, Effects, Failure, FlowCall

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def call(path: str, *takes: str, target: str = "s", given: bytes = b"", external: bool = False) -> FlowCall:
    effects = Effects.EXTERNAL if external else Effects.NONE
    return FlowCall(path, CallKind.SERVICE, target, given, takes, effects)


def record(made: FlowCall, seq: int = 0, *, started: bool = True, failure: Failure | None = None) -> CallRecord:
    state = CallState.FAILED if failure else CallState.DONE if seq else CallState.OPEN
    return CallRecord(made, NOW, started_at=NOW if started else None, state=state, seq=seq, failure=failure)


def taken(book: RunBook, *calls: FlowCall) -> list[str]:
    """Record what is new, and return what can be started."""
    for new in book.announced(calls):
        book.recorded(record(new))
    return [each.call.path for each in book.startable()]


def test_a_call_can_be_started_once_its_inputs_are_there() -> None:
    book = RunBook()
    assert taken(book, call("1"), call("2", "1"), call("10")) == ["1", "10"]
    book.started("1")
    book.recorded(record(call("1"), 1))
    assert [each.call.path for each in book.startable()] == ["2", "10"]


def test_what_is_on_record_is_not_started_again_and_open_calls_without_effects_are() -> None:
    book = RunBook([record(call("1"), 1), record(call("2"))])
    assert taken(book, call("1"), call("2")) == ["2"]
    assert not book.is_uncertain(book["2"])


def test_an_open_call_with_effects_is_uncertain_only_if_somebody_else_started_it() -> None:
    book = RunBook([record(call("1", external=True)), record(call("2", external=True), started=False)])
    taken(book, call("1", external=True), call("2", external=True), call("3", external=True))
    assert [book.is_uncertain(book[path]) for path in "123"] == [True, False, False]


def test_outcomes_are_handed_over_in_the_order_in_which_they_came_each_once() -> None:
    book = RunBook([record(call("1"), 3), record(call("2"), 1), record(call("3"), 2)])
    found = []
    while (outcome := book.next_outcome(["1", "2", "3"])) is not None:
        found.append(outcome.call.path)
    assert found == ["2", "3", "1"]
    book.executed_again()
    again = book.next_outcome(["1", "2", "3"])
    assert again is not None
    assert again.call.path == "2"


@pytest.mark.parametrize(
    "other", [call("1", target="t"), call("1", given=b"x"), call("1", "2"), call("1", external=True)]
)
def test_a_call_that_is_another_than_before_is_named(other: FlowCall) -> None:
    book = RunBook([record(call("1"), 1)])
    with pytest.raises(NonDeterminismError, match="call 1 "):
        book.announced([other])


def test_code_that_ends_without_a_call_that_it_had_made_is_named_with_the_first() -> None:
    book = RunBook([record(call("2"), 1), record(call("10"), 2), record(call("1"), 3)])
    book.announced([call("1")])
    with pytest.raises(NonDeterminismError, match="call 2,"):
        book.ended()


def test_an_input_that_failed_fails_who_takes_it() -> None:
    failure = Failure("call", "broke")
    book = RunBook([record(call("1"), 1, failure=failure)])
    taken(book, call("1"), call("2", "1"))
    assert book.failed_input(book["2"]) == failure


def test_runs_end_and_go_on_as_the_table_says() -> None:
    assert set(NEXT) == set(RunState)
    assert all(RunState.QUEUED in NEXT[state] for state in RESUMABLE)
    ends = [state for state in RunState if state not in OPEN and state not in RESUMABLE]
    assert all(NEXT[state] == () for state in ends)
    assert all(RunState.CANCELLED in NEXT[state] for state in OPEN)


def test_failures_are_caught_that_the_code_was_handed_and_did_not_end_for() -> None:
    why = Failure("call", "no")
    made = [call(path) for path in "1234"] + [call("5", "1"), call("6", "2")]
    failed = [record(each, seq, failure=why) for seq, each in enumerate(made, 1)]
    book = RunBook(failed)
    assert book.caught(()) == list("123456")  # the code did not come to them
    book.announced(made)
    assert book.caught(()) == []  # it called them, and was not handed what came of them
    for awaits in ("5", "3"):
        book.next_outcome([awaits])
    assert book.caught(()) == ["1", "3", "5"]  # 1 was handed over with what takes it
    assert book.caught(["3"]) == ["1", "5"]
    assert book.caught(["1"]) == ["3"]
    book.executed_again()
    assert book.caught(()) == list("123456")

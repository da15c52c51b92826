"""Workflows that are executed: call paths, what travels, and what a run waits for."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import medley_sdk as medley
from medley_sdk.errors import TaskError
from medley_sdk.flows.app import App
from medley_sdk.flows.batch import Given, computed
from medley_sdk.flows.messages import Broke, Deliver, Failure, Finished, FlowCall, Step
from medley_sdk.flows.run import FlowRun
from medley_sdk.messages import Why
from medley_sdk.packing import filled, unpacked


class Doubles:
    def __call__(self, numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]


double = medley.service(Doubles)


class Doer:
    """Does what a run calls, and answers with outcomes in an order of its own."""

    def __init__(self, choose: Callable[[list[str]], str] = lambda paths: paths[0]) -> None:
        self._choose = choose
        self.calls: list[FlowCall] = []
        self.steps: list[Step] = []
        self._given: set[str] = set()

    def exchange(self, step: Step) -> Deliver:
        self.steps.append(step)
        self.calls += step.calls
        path = self._choose([each for each in step.awaits if each not in self._given])
        self._given.add(path)
        return Deliver(path, self.value(path))

    def value(self, path: str) -> bytes:
        call = next(each for each in self.calls if each.path == path)
        given = filled(call.given, [self.value(each) for each in call.takes])
        (outcome,) = computed(double, Doubles(), [Given(path, given)])
        assert not outcome.failure
        return outcome.value


def ran(function: Any, doer: Doer, run_id: str = "r1", max_calls: int = 1000, **arguments: Any) -> Finished | Broke:
    return FlowRun(run_id, max_calls, doer.exchange).executed(medley.workflow(function), arguments, __file__)


def answer(function: Any, doer: Doer | None = None, **arguments: Any) -> Any:
    doer = doer or Doer()
    ended = ran(function, doer, **arguments)
    assert isinstance(ended, Finished), ended
    doer.calls += ended.calls
    return unpacked(filled(ended.answer, [doer.value(path) for path in ended.gives]), ())


def test_handles_are_arguments_and_a_run_goes_on_until_it_awaits() -> None:
    async def chain(start: int) -> int:
        first = double(start)
        second = double(first)
        return await double(second)

    doer = Doer()
    assert answer(chain, doer, start=3) == 24
    assert len(doer.steps) == 1
    assert [call.takes for call in doer.steps[0].calls] == [(), ("1",), ("2",)]


def test_a_run_that_awaits_nothing_returns_handles() -> None:
    async def made(start: int) -> dict[str, int]:
        return {"a": double(start), "b": double(double(start))}  # type: ignore[dict-item]

    assert answer(made, start=1) == {"a": 2, "b": 4}


async def busy(depth: int) -> int:
    """Loops, gathers and groups of tasks: 23 calls."""

    async def leaf(number: int) -> int:
        value = number
        for _ in range(2):
            value = await double(value)
        return value

    total = sum(await medley.gather(*(leaf(number) for number in range(depth))))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(leaf(number)) for number in range(depth)]
    total += sum(task.result() for task in tasks)
    handles = [double(number) for number in range(3)]
    done, _ = await asyncio.wait([asyncio.ensure_future(wait(each)) for each in handles])
    return total + sum(task.result() for task in done)


async def wait(handle: medley.Handle) -> int:
    return int(await handle)


def test_the_order_of_completion_changes_no_call_path() -> None:
    seen = set()
    for seed in range(50):
        doer = Doer(random.Random(seed).choice)
        assert answer(busy, doer, depth=5) == 2 * 40 + 6
        seen.add(tuple(sorted((call.path, call.given) for call in doer.calls)))
    assert len(seen) == 1
    assert len(next(iter(seen))) == 23


def test_what_ends_first_is_known_to_the_code() -> None:
    async def race(names: list[int]) -> int:
        tasks = [asyncio.ensure_future(wait(double(name))) for name in names]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return next(iter(done)).result()

    assert answer(race, Doer(lambda paths: paths[-1]), names=[1, 2, 3]) == 6
    assert answer(race, Doer(lambda paths: paths[0]), names=[1, 2, 3]) == 2


def test_one_who_is_cancelled_takes_nothing_from_others_that_wait_for_the_same() -> None:
    async def shared(start: int) -> int:
        handle = double(start)
        first = asyncio.ensure_future(wait(handle))
        second = asyncio.ensure_future(wait(handle))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert answer(shared, start=4) == 8


def test_paths_are_chosen_by_the_run_and_differ_between_runs() -> None:
    async def chosen() -> list[str]:
        return [medley.path("left", "right") for _ in range(8)]

    found = [ran(chosen, Doer(), run_id=f"r{number}") for number in range(20)]
    answers = [each.answer for each in found if isinstance(each, Finished)]
    assert len(set(answers)) > 10
    assert answers == [each.answer for each in (ran(chosen, Doer(), run_id=f"r{n}") for n in range(20))]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("failure", "error", "why"),
    [
        ("call", medley.CallError, Why.RAISED),
        ("uncertain", medley.UncertainCallError, Why.UNCERTAIN),
        ("budget", medley.BudgetError, Why.BUDGET),
    ],
)
def test_what_failed_is_raised_where_it_is_awaited(failure: str, error: type[Exception], why: Why) -> None:
    async def careful(start: int) -> str:
        try:
            return str(await double(start))
        except error as caught:
            return f"caught {caught}"

    async def careless(start: int) -> int:
        return await double(start)

    def fails(step: Step) -> Deliver:
        return Deliver(step.awaits[0], failure=Failure(failure, "it broke"))

    caught = FlowRun("r", 10, fails).executed(medley.workflow(careful), {"start": 1}, __file__)
    assert isinstance(caught, Finished)
    assert msgspec.msgpack.decode(caught.answer) == "caught it broke"
    broke = FlowRun("r", 10, fails).executed(medley.workflow(careless), {"start": 1}, __file__)
    assert isinstance(broke, Broke)
    assert broke.fault.why is why


async def instead(start: int) -> int:
    try:
        return await double(start)
    except medley.CallError:
        return await double(start + 1)


async def as_its_own(start: int) -> int:
    try:
        return await double(start)
    except medley.CallError as error:
        raise ValueError("no way") from error


async def handles_badly(start: int) -> int:
    try:
        return await double(start)
    except medley.CallError:
        return int("none")


async def forgets(start: int) -> int:
    try:
        return await double(start)
    except medley.CallError:
        found: list[int] = []
    return found[0]


async def in_a_group(start: int) -> None:
    async def one(number: int) -> None:
        await double(number)

    async with asyncio.TaskGroup() as group:
        group.create_task(one(start))


@pytest.mark.parametrize(
    ("function", "causes"),
    [(instead, ("2",)), (as_its_own, ("1",)), (handles_badly, ("1",)), (forgets, ()), (in_a_group, ("1.1",))],
)
def test_a_run_says_for_which_calls_it_ended(function: Any, causes: tuple[str, ...]) -> None:
    def fails(step: Step) -> Deliver:
        return Deliver(step.awaits[-1], failure=Failure("call", "it broke"))

    broke = FlowRun("r", 10, fails).executed(medley.workflow(function), {"start": 1}, __file__)
    assert isinstance(broke, Broke)
    assert broke.causes == causes


async def sleeps_by_itself() -> None:
    await asyncio.sleep(1)


async def waits_for_nothing() -> None:
    await asyncio.Event().wait()


async def uses_a_thread() -> int:
    return await asyncio.to_thread(lambda: 1)


async def never_ends() -> None:
    while True:
        double(1)


async def hands_on_an_object() -> None:
    double(object())


async def calls_a_unit() -> None:
    medley.decoder("language", of="qwen2.5-vl-7b")("a text")


async def gives_too_few() -> None:
    double()


async def hands_on_much() -> None:
    double("x" * (1 << 21))


@pytest.mark.parametrize(
    "function",
    [
        sleeps_by_itself, waits_for_nothing, uses_a_thread, never_ends, hands_on_an_object, calls_a_unit, gives_too_few,
        hands_on_much,
    ],
)  # fmt: skip
def test_code_that_no_replay_would_meet_again_is_refused(function: Any) -> None:
    broke = ran(function, Doer(), max_calls=20)
    assert isinstance(broke, Broke)
    assert broke.fault.why is Why.REFUSED
    assert "test_flows.py:" in broke.fault.reason


def test_a_handle_of_another_run_is_refused() -> None:
    kept: list[medley.Handle] = []

    async def keeps(start: int) -> None:
        kept.append(double(start))

    async def hands_on(start: int) -> None:
        double(kept[0])

    async def awaits(start: int) -> None:
        await kept[0]

    assert isinstance(ran(keeps, Doer(), start=1), Finished)
    for function in (hands_on, awaits):
        broke = ran(function, Doer(), start=1)
        assert isinstance(broke, Broke)
        assert broke.fault.why is Why.REFUSED


class Lock:
    """It does not travel."""


def test_types_that_do_not_travel_are_refused_with_their_place() -> None:
    async def takes(lock: list[Lock]) -> None: ...
    async def gives() -> dict[str, Lock]: ...  # type: ignore[empty-body]
    async def has_no_type(it) -> None: ...  # type: ignore[no-untyped-def]
    async def gives_no_type(it: int): ...  # type: ignore[no-untyped-def]
    async def takes_any_number(*them: int) -> None: ...

    for function, place in (
        (takes, "lock"), (gives, "result"), (has_no_type, None), (gives_no_type, "result"), (takes_any_number, "them"),
    ):  # fmt: skip
        if place is None:  # one parameter without a type is that of a composite task
            assert medley.workflow(function).is_task
            continue
        with pytest.raises(TaskError, match=place):
            medley.workflow(function)

    class NoBatch:
        def __call__(self, number: int) -> list[int]: ...  # type: ignore[empty-body]

    class OddResult:
        def __call__(self, numbers: list[int]) -> list[Lock]: ...  # type: ignore[empty-body]

    for made_of, place in ((NoBatch, "number"), (OddResult, "result"), (Lock, "Lock")):
        with pytest.raises(TaskError, match=place):
            medley.service(made_of)


def test_a_batch_whose_results_are_too_few_fails_as_a_whole_and_wrong_arguments_alone() -> None:
    class Loses:
        def __call__(self, numbers: list[int]) -> list[int]:
            return numbers[1:]

    given = [Given(str(n), msgspec.msgpack.encode(((), {"numbers": n}))) for n in range(3)]
    lost = computed(medley.service(Loses), Loses(), given)
    assert all("Loses" in each.failure for each in lost)
    odd = Given("x", msgspec.msgpack.encode(((), {"numbers": "text"})))
    outcomes = computed(double, Doubles(), [given[1], odd, given[2]])
    assert [msgspec.msgpack.decode(each.value) for each in (outcomes[0], outcomes[2])] == [2, 4]
    assert "numbers" in outcomes[1].failure


def test_arguments_of_a_run_are_checked_by_name_and_type() -> None:
    async def asked(question: str, times: int = 1) -> str:
        return question * times

    app = App({"asked": medley.workflow(asked)}, {})
    assert app.arguments("asked", {"question": "why", "times": 2}) == {"question": "why", "times": 2}
    for wrong in ({}, {"question": "why", "tines": 2}, {"question": 3}):
        with pytest.raises(TaskError):
            app.arguments("asked", wrong)
    with pytest.raises(TaskError):
        app.info("ask")

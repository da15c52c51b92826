"""Tasks are recorded twice, and those that do not do the same are refused; what comes back serves requests."""

from collections.abc import Iterator

import pytest

from control.tasks.failure import TASK_FAILED, TaskFailedError
from control.tasks.recorded_task import TwoRecorders, two_recorders
from control.tasks.task_process import TaskProcess
from control.tasks.task_runner import TaskRunner
from medley_sdk.values import CallRef, Signature
from templates_lib.graphs.catalogue import load_graph
from templates_lib.tasks.recorded_ways import ways_of
from tests.control.tasks.files import BAD, GOOD, source

ONE_IMAGE = Signature("text", images=1)


@pytest.fixture(scope="module")
def bad() -> Iterator[TwoRecorders]:
    with two_recorders(source(BAD)) as recorders:
        yield recorders


@pytest.fixture(scope="module")
def good() -> Iterator[TaskProcess]:
    with TaskProcess(source(GOOD)) as process:
        yield process


def test_records_are_those_of_every_request_type_and_choice() -> None:
    with two_recorders(source(GOOD)) as recorders:
        found = recorders.recorded("describe")
    assert found.of == "qwen2.5-vl-7b"
    calls = {(r.signature.images, *(c.taken for c in r.choices)): len(r.calls) for r in found.records}
    assert calls == {(0, 0): 1, (0, 1): 1, (1, 0): 2, (1, 1): 1, (2, 0): 3, (2, 1): 1}


def test_code_that_awaits_a_text_is_recorded_to_its_end() -> None:
    with two_recorders(source(GOOD)) as recorders:
        found = recorders.recorded("speaks_and_shouts")
    (record,) = found.records
    assert (record.awaits, record.gives) == (0, (CallRef(1),))
    ways = ways_of(load_graph(found.of), found.records)
    assert [way.options for way in ways.ways] == [(("thinker",), ("talker", "vocoder"))]


@pytest.mark.parametrize(
    "task",
    ["rolls", "orders", "remembers", "answers_otherwise", "raises", "calls_for_ever", "takes_memory", "calls_nothing",
     "calls_after_awaiting", "of_two_models"],
)  # fmt: skip
def test_code_that_fails_or_differs_from_run_to_run_is_refused(bad: TwoRecorders, task: str) -> None:
    with pytest.raises(TaskFailedError, match=r"tasks\.py"):
        bad.recorded(task)


def test_an_unknown_workflow_is_refused_with_the_nearest_name(bad: TwoRecorders) -> None:
    with pytest.raises(LookupError, match="raises"):
        bad.recorded("raise")


def test_requests_of_one_signature_share_a_record_until_others_push_it_out(good: TaskProcess) -> None:
    runner = TaskRunner(good, "describe", kept=2)
    first = runner.record(ONE_IMAGE, (1,))
    assert [call.unit.name for call in first.calls] == ["vision+language"]
    good.close()
    assert runner.record(ONE_IMAGE, (1,)) is first
    assert good.pid is None
    runner.record(ONE_IMAGE, (0,))
    runner.record(Signature("text"), (0,))
    good.close()
    assert runner.record(ONE_IMAGE, (1,)) == first
    assert good.pid is not None


def test_an_answer_has_what_the_calls_gave(good: TaskProcess) -> None:
    plain = TaskRunner(good, "describe")
    record = plain.record(ONE_IMAGE)
    assert plain.answer(record, [None, "a red circle"]) == "a red circle"
    with pytest.raises(TaskFailedError):
        plain.answer(record, ["a red circle"])
    replayed = TaskRunner(good, "shouts")
    assert replayed.answer(replayed.record(Signature("text")), ["red"]) == {"text": "RED"}


def test_a_replay_that_does_otherwise_fails_the_request() -> None:
    text = GOOD.replace("await LANGUAGE(request.text", "await LANGUAGE(request.text, random.random()")
    with TaskProcess(source(f"import random\n{text}")) as process:
        runner = TaskRunner(process, "shouts")
        record = runner.record(Signature("text"))
        with pytest.raises(TaskFailedError) as caught:
            runner.answer(record, ["red"])
    assert caught.value.code == TASK_FAILED

"""Agents and hubs of protocol 1 beside those of today, by a frozen copy of its messages."""

from typing import Any

from hypothesis import given

from agents.messages.to_hub import ExecutorReport, NodeReport, ReportOfOne, ToHub
from agents.messages.to_node import Run, ToNode, Work, WorkOfOne
from agents.messages.wire import Decoder, encode
from templates_lib.values.placement import ONLY
from tests.agents.messages.protocol_1 import OldNodeReport, OldWork
from tests.agents.messages.test_node_messages import reports, works


@given(works)
def test_old_work_and_work_for_old_agents_are_the_same_on_the_wire(old: WorkOfOne) -> None:
    assert encode(Decoder[OldWork](OldWork).decode(encode(old))) == encode(old)
    arrived: Any = Decoder[WorkOfOne](ToNode).decode(encode(old))
    if old.instance:
        assert arrived.work.of_one == old
        (run,) = arrived.work.runs
        assert (run.scheduler, run.stage, run.restarts) == (old.scheduler, old.stage, False)
    else:
        assert arrived.work == Work(drain=old.drain)


@given(reports)
def test_old_reports_and_reports_for_old_hubs_are_the_same_on_the_wire(old: ReportOfOne) -> None:
    frozen = Decoder[OldNodeReport](OldNodeReport).decode(encode(old))
    assert isinstance(frozen, OldNodeReport)
    arrived: Any = Decoder[ReportOfOne](ToHub).decode(encode(frozen))
    assert arrived.report.of_one == arrived
    assert (arrived.report.of(ONLY).scheduler is None) == (old.scheduler is None)
    assert (frozen.instance, frozen.failure) == (old.instance, old.failure)


def test_what_an_old_agent_cannot_run_has_no_old_form() -> None:
    one = Run("a", "m")
    assert Work("i", (one,)).of_one == WorkOfOne("i", "m")
    assert Work().of_one == WorkOfOne()
    for runs in ((one, Run("b")), (Run("a", engine="echo"),), (Run("a", compute=0.5),), (Run("a", devices=(1,)),)):
        assert Work("i", runs).of_one is None
    assert Work("i", (Run("a", restarts=True),)).of_one is None
    assert NodeReport("i", (ExecutorReport("a"),)).of_one == ReportOfOne("i")

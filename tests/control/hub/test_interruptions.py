"""What the hub makes of a node that says that its cloud will take it."""

import pytest
from msgspec import Struct, structs

from agents.messages.to_gateway import SchedulerState
from agents.messages.to_hub import (
    ExecutorReport,
    Interruption,
    NodeReport,
    ReportOfOne,
    SchedulerReport,
    StageReport,
    ToHub,
)
from agents.messages.wire import Decoder, encode
from control.hub.board import Board
from control.lifecycle.event import EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.placement import ONLY
from tests.control.hub.boards import connected, deployed, nodes, says

FIRST, SECOND, LAST = nodes("i1")
S = InstanceState
NOTICE = Interruption(118.0, "spot interruption\x1b[31m")


def announced(state: InstanceState, node: str = SECOND) -> Board:
    made = connected(deployed("i1", state))
    for name in nodes("i1"):
        report = says("i1", state=SchedulerState.READY) if name == FIRST else NodeReport("i1")
        made.reported(name, structs.replace(report, interruption=NOTICE) if name == node else report)
    return made


@pytest.mark.parametrize("node", [FIRST, LAST])
def test_what_serves_is_drained_ahead_whichever_node_is_taken(node: str) -> None:
    made = announced(S.READY, node)
    ((instance, event),) = made.events(1.0)
    assert (instance, event.kind) == ("i1", EventKind.DRAIN)
    assert event.reason == f"{node} will be taken in 118 s: spot interruption [31m"
    assert made.announced() == {node: "spot interruption [31m"}


def test_what_does_not_serve_yet_is_given_back() -> None:
    made = announced(S.LOADING)
    ((_, event),) = made.events(1.0)
    assert event.kind is EventKind.RELEASE


def test_what_drains_already_goes_on_until_it_is_empty() -> None:
    made = announced(S.DRAINING)
    assert made.events(1.0) == []
    made.reported(FIRST, says("i1", state=SchedulerState.DRAINING))
    ((_, event),) = made.events(1.0)
    assert event.kind is EventKind.DRAINED


def test_a_node_that_is_lost_is_lost_notice_or_not() -> None:
    made = announced(S.READY)
    made.left(SECOND, 2.0)
    assert made.announced() == {}
    ((_, event),) = made.events(100.0)
    assert event.kind is EventKind.NODE_LOST


class OlderReport(Struct, frozen=True, array_like=True, tag="node_report"):
    """As agents and hubs of the release before know it."""

    instance: str
    scheduler: SchedulerReport | None = None
    stage: StageReport | None = None
    failure: str = ""
    metrics: str = ""


def test_agents_and_hubs_of_the_release_before_are_understood() -> None:
    report = Decoder[ReportOfOne](ToHub).decode(encode(OlderReport("i1", metrics="http://here")))
    assert isinstance(report, ReportOfOne)
    assert report.report == NodeReport("i1", (ExecutorReport(ONLY),), metrics="http://here")
    newer = NodeReport("i1", interruption=NOTICE).of_one
    assert Decoder[ReportOfOne](ToHub).decode(encode(newer)) == newer
    assert Decoder[OlderReport](OlderReport).decode(encode(newer)) == OlderReport("i1")

"""The life-cycle of an instance, edge by edge."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from control.lifecycle import transitions
from control.lifecycle.advance import RefusedEvent, Transition, advance
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from control.lifecycle.transitions import TRANSITIONS
from tests.control.lifecycle.worlds import START, wanted

GOOD_LIFE = (
    (EventKind.PROVISION, InstanceState.PROVISIONING),
    (EventKind.NODES_UP, InstanceState.BOOTSTRAPPING),
    (EventKind.AGENTS_UP, InstanceState.LOADING),
    (EventKind.LOADED, InstanceState.READY),
    (EventKind.DRAIN, InstanceState.DRAINING),
    (EventKind.DRAINED, InstanceState.TERMINATING),
    (EventKind.NODES_GONE, InstanceState.TERMINATED),
)


def test_a_good_life_goes_from_requested_to_terminated() -> None:
    instance = wanted()
    for number, (kind, state) in enumerate(GOOD_LIFE, start=1):
        step = advance(instance, Event(kind, "as it should be"), START + timedelta(seconds=number))
        assert isinstance(step, Transition)
        assert step.before is instance
        instance = step.after
        assert (instance.state, instance.version) == (state, number)
        assert instance.state_since == (START + timedelta(seconds=number)).isoformat()


def test_an_event_without_an_edge_is_refused_with_the_reason() -> None:
    instance = wanted(InstanceState.TERMINATED)
    refusal = advance(instance, Event(EventKind.LOADED, "late"), START)
    assert isinstance(refusal, RefusedEvent)
    assert refusal.instance is instance
    assert refusal.text == f"instance {instance.id} is terminated: loaded means nothing to it"


def test_an_instance_that_holds_nodes_is_not_terminated() -> None:
    instance = wanted(InstanceState.TERMINATING, nodes=("n0", "n1"))
    refusal = advance(instance, Event(EventKind.NODES_GONE, "says somebody"), START)
    assert isinstance(refusal, RefusedEvent)
    assert refusal.text.endswith("still holds n0, n1")


def test_a_ready_instance_cannot_be_released_without_draining() -> None:
    assert isinstance(advance(wanted(InstanceState.READY), Event(EventKind.RELEASE, "now!"), START), RefusedEvent)


def test_a_clock_that_is_behind_does_not_turn_history_around() -> None:
    step = advance(wanted(), Event(EventKind.PROVISION, ""), START - timedelta(minutes=5))
    assert isinstance(step, Transition)
    assert step.at == START
    assert step.after.state_since == START.isoformat()


def test_a_state_that_is_none_is_a_bug() -> None:
    with pytest.raises(ValueError, match="sleeping"):
        advance(wanted("sleeping"), Event(EventKind.PROVISION, ""), START)


def test_every_edge_has_a_comment_of_its_own() -> None:
    assert transitions.__file__
    lines = Path(transitions.__file__).read_text().splitlines()
    edges = [number for number, line in enumerate(lines) if re.match(r"\s+\(S\.\w+, E\.\w+\): S\.\w+,", line)]
    assert len(edges) == len(TRANSITIONS)
    assert all(lines[number - 1].lstrip().startswith("# ") for number in edges)

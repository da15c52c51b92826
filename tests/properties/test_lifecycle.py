"""What holds of every life of an instance, whatever happens to it in whatever order."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from control.lifecycle.advance import RefusedEvent, Transition, advance
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from control.lifecycle.transitions import TRANSITIONS
from templates_lib.values.instance import Node
from tests.control.lifecycle.worlds import START, wanted

HAPPENINGS = st.lists(st.tuples(st.sampled_from(EventKind), st.integers(-90, 90), st.booleans()), max_size=40)


def reachable(start: InstanceState) -> set[InstanceState]:
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for (source, _), target in TRANSITIONS.items():
            if source is here and target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def test_no_way_leads_out_of_terminated() -> None:
    assert not [edge for edge in TRANSITIONS if edge[0] is InstanceState.TERMINATED]


def test_every_state_is_reached_from_requested_and_reaches_terminated() -> None:
    assert reachable(InstanceState.REQUESTED) == set(InstanceState)
    assert all(InstanceState.TERMINATED in reachable(state) for state in InstanceState)


def test_no_way_leads_back() -> None:
    assert all(source not in reachable(target) for (source, _), target in TRANSITIONS.items())


def test_terminated_has_one_way_in_and_nodes_are_rented_in_one_state() -> None:
    ends = [edge for edge, target in TRANSITIONS.items() if target is InstanceState.TERMINATED]
    assert ends == [(InstanceState.TERMINATING, EventKind.NODES_GONE)]
    assert [e for e, target in TRANSITIONS.items() if target is InstanceState.PROVISIONING] == [
        (InstanceState.REQUESTED, EventKind.PROVISION)
    ]


def test_every_event_means_something_to_somebody() -> None:
    assert {kind for _, kind in TRANSITIONS} == set(EventKind)


@given(HAPPENINGS)
def test_versions_strictly_increase_time_does_not_go_back_and_only_edges_are_taken(
    happenings: list[tuple[EventKind, int, bool]],
) -> None:
    instance, lives = wanted(), 0
    for kind, seconds, holds_nodes in happenings:
        instance = replace(instance, nodes=(Node("n0", "o"),) if holds_nodes else ())
        step = advance(instance, Event(kind, "happened"), START + timedelta(seconds=seconds))
        if isinstance(step, RefusedEvent):
            edge = TRANSITIONS.get((InstanceState(instance.state), kind))
            assert edge is None or (edge is InstanceState.TERMINATED and holds_nodes)
            continue
        assert isinstance(step, Transition)
        assert TRANSITIONS[InstanceState(instance.state), kind] is InstanceState(step.after.state)
        assert step.after.version == instance.version + 1
        assert step.after.state_since >= instance.state_since
        assert not (step.after.state == InstanceState.TERMINATED and step.after.nodes)
        assert replace(step.after, state="", version=0, state_since="") == replace(
            instance, state="", version=0, state_since=""
        )
        instance, lives = step.after, lives + 1
    assert lives < len(InstanceState)

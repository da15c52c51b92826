"""Instances on record: one writer wins, and history says what happened."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from control.access.secret import new_secret
from control.db.database import Database
from control.db.errors import NotStoredError, StaleVersionError
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.lifecycle.advance import RefusedEvent, Transition, advance
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from tests.control.lifecycle.worlds import START, driven, requested, template, wanted

PROVISION = Event(EventKind.PROVISION, "the plan wants it")
WRITERS = 6


def step(instance: Instance, event: Event = PROVISION) -> Transition:
    found = advance(instance, event, START + timedelta(seconds=1))
    assert isinstance(found, Transition)
    return found


def test_a_requested_instance_comes_back_as_it_went_in(database: Database) -> None:
    instances, instance = PostgresInstances(database), wanted()
    assert instances.request(instance, template(), "plan-1", START) == instance
    assert instances.load(instance.id) == instance
    assert instances.template(instance.id) == template()
    assert instances.of_fleet("f") == (instance,)
    assert instances.of_fleet("another") == ()


def test_to_request_an_instance_again_changes_nothing(database: Database) -> None:
    instances, instance = PostgresInstances(database), driven(database, EventKind.PROVISION)
    assert instances.request(replace(instance, state="requested"), template(), "plan-2", START) == instance
    assert [past.reason for past in instances.history(instance.id)] == ["plan plan-1", "as the test wants it"]


def test_an_instance_of_another_template_is_refused(database: Database) -> None:
    other = replace(wanted(), template_id="another")
    with pytest.raises(ValueError, match="is of template another"):
        PostgresInstances(database).request(other, template(), "plan-1", START)


def test_an_id_that_another_instance_has_is_refused(database: Database) -> None:
    taken, other = requested(database), replace(template(), id="another")
    with pytest.raises(ValueError, match="choose another id"):
        PostgresInstances(database).request(replace(taken, template_id="another"), other, "plan-1", START)


def test_an_unknown_instance_is_an_error_with_the_nearest(database: Database) -> None:
    known = requested(database).id
    with pytest.raises(NotStoredError, match=known):
        PostgresInstances(database).load(known[:-1])
    with pytest.raises(NotStoredError, match=known):
        PostgresInstances(database).template(known[:-1])


def test_every_transition_is_appended_to_the_history(database: Database) -> None:
    instances, instance = PostgresInstances(database), requested(database)
    instances.write(step(instance))
    moved = instances.load(instance.id)
    instances.write(step(moved, Event(EventKind.BROKE, "no offer is left")))
    history = instances.history(instance.id)
    assert [(past.version, past.event, past.from_state, past.to_state, past.reason) for past in history] == [
        (0, None, None, "requested", "plan plan-1"),
        (1, "provision", "requested", "provisioning", "the plan wants it"),
        (2, "broke", "provisioning", "failed", "no offer is left"),
    ]
    assert [past.at for past in history[1:]] == [(START + timedelta(seconds=1)).isoformat()] * 2
    assert sorted(past.sequence for past in history) == [past.sequence for past in history]


def test_a_transition_that_was_judged_on_an_old_version_is_refused_and_leaves_no_trace(database: Database) -> None:
    instances, instance = PostgresInstances(database), requested(database)
    late = step(instance, Event(EventKind.RELEASE, "not wanted"))
    instances.write(step(instance))
    with pytest.raises(StaleVersionError, match=r"is provisioning, version 1, .* release was judged on version 0"):
        instances.write(late)
    assert instances.load(instance.id).state == InstanceState.PROVISIONING
    assert len(instances.history(instance.id)) == 2


def test_of_concurrent_writers_exactly_one_wins(database: Database) -> None:
    instances, instance = PostgresInstances(database), requested(database)
    barrier = Barrier(WRITERS)

    def write(number: int) -> bool:
        mine = step(instance, Event(EventKind.PROVISION, f"writer {number}"))
        barrier.wait()
        try:
            instances.write(mine)
        except StaleVersionError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    assert won.count(True) == 1
    assert instances.load(instance.id).version == 1
    assert [past.reason for past in instances.history(instance.id)][1:] == [f"writer {won.index(True)}"]


def test_a_fact_is_applied_whoever_is_faster(database: Database) -> None:
    instances, instance = PostgresInstances(database), requested(database)
    events = [Event(kind, "at once") for kind in (EventKind.PROVISION, EventKind.RELEASE, EventKind.BROKE)] * 2
    barrier = Barrier(len(events))

    def apply(event: Event) -> Transition | RefusedEvent:
        barrier.wait()
        return instances.apply(instance.id, event, START)

    with ThreadPoolExecutor(len(events)) as pool:
        outcomes = list(pool.map(apply, events))
    taken = [outcome for outcome in outcomes if isinstance(outcome, Transition)]
    history = instances.history(instance.id)
    assert sorted(t.after.version for t in taken) == [past.version for past in history[1:]]
    assert instances.load(instance.id).version == len(taken)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(EventKind), max_size=8))
def test_what_is_on_record_is_what_advance_says(database: Database, kinds: list[EventKind]) -> None:
    instances, instance = PostgresInstances(database), requested(database)
    for kind in kinds:
        event = Event(kind, "happened")
        outcome = advance(instance, event, START)
        assert type(instances.apply(instance.id, event, START)) is type(outcome)
        if isinstance(outcome, Transition):
            instance = outcome.after
        assert instances.load(instance.id) == instance
    history = instances.history(instance.id)
    assert [past.version for past in history] == list(range(instance.version + 1))
    assert all(old.to_state == new.from_state for old, new in itertools.pairwise(history))


def test_the_end_is_refused_while_a_node_is_held_even_if_it_was_not_seen(database: Database) -> None:
    instances, instance = PostgresInstances(database), driven(database, EventKind.PROVISION)
    intents = PostgresIntents(database)
    name = intents.open_create(instance.id, 0, "fake/a/small/on-demand", "fake", 1.0, new_secret(), START, START)
    instances.apply(instance.id, Event(EventKind.RELEASE, ""), START)
    blind = replace(instances.load(instance.id), nodes=())
    gone = advance(blind, Event(EventKind.NODES_GONE, ""), START)
    assert isinstance(gone, Transition)
    with pytest.raises(StaleVersionError, match="with 1 nodes"):
        instances.write(gone)
    intents.terminated(name, START)
    instances.write(gone)
    assert instances.of_fleet("f") == ()


def test_history_has_no_second_row_for_a_version(database: Database) -> None:
    instance = driven(database, EventKind.PROVISION)
    forged = text(
        "INSERT INTO instance_event (instance_id, version, event, from_state, to_state, reason, at)"
        " VALUES (:id, 1, 'release', 'requested', 'terminating', '', now())"
    )
    with pytest.raises(IntegrityError), database.transaction() as connection:
        connection.execute(forged, {"id": instance.id})

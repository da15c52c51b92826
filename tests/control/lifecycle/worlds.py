"""Instances, templates and clocks for tests of the life-cycle."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance, Node
from templates_lib.values.offer import Market
from templates_lib.values.placement import Placement
from templates_lib.values.template import ServingTemplate, template_id

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
_numbers = itertools.count(1)


class TickingClock:
    """A second later each time it is asked."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def template() -> ServingTemplate:
    placement = Placement("pipeline", 1, {"stages": []})
    parts = ("smollm2-135m", "r1", "fp32", "torch", "lockstep-v1", {"CPU:1/n10": 2}, placement)
    return ServingTemplate(template_id(*parts), *parts)


def wanted(state: str = InstanceState.REQUESTED, nodes: Sequence[str] = (), version: int = 0) -> Instance:
    held = tuple(Node(name, "fake/zone-a/small/on-demand") for name in nodes)
    name = f"i{next(_numbers):012x}"
    return Instance(name, template().id, "fake/zone-a", Market.ON_DEMAND, state, held, version, START.isoformat(), "f")


def requested(database: Database) -> Instance:
    return PostgresInstances(database).request(wanted(), template(), "plan-1", START)


def driven(database: Database, *events: EventKind) -> Instance:
    """An instance on record that has been through `events`."""
    instances = PostgresInstances(database)
    instance = requested(database)
    for kind in events:
        instances.apply(instance.id, Event(kind, "as the test wants it"), START)
    return instances.load(instance.id)

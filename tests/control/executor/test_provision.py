"""A gang is rented whole or given back: scarcest first, from the next offer when one is refused."""

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from control.cloud.errors import OwnFaultError, QuotaError, RetryLaterError, StockOutError
from control.db.database import Database
from control.executor.provision import NodePlace, Provisioned, provision
from control.executor.recover import Recovered
from control.executor.wind_down import WoundDown, wind_down
from control.lifecycle.advance import Transition
from control.lifecycle.event import Event, EventKind
from control.lifecycle.patience import Patience, overdue
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from tests.control.cloud.fake_cloud import Effect, FakeCloud
from tests.control.executor.fleets import START, Fleet, fleet, offer, pass_time
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import driven, requested

SMALL, LARGE = offer(), offer(instance_type="large")
EITHER = NodePlace((SMALL, LARGE), START)
BUSY = RetryLaterError("fake: slow down", 1.0)


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud("fake", {"small": 3, "large": 3})


def rent(medley: Fleet, instance: Instance, *places: NodePlace) -> Provisioned:
    return provision(medley.instances, medley.nodes, medley.executor, instance.id, places)


@dataclass(frozen=True)
class Repaired:
    recovered: Recovered
    overdue: tuple[Transition, ...]
    wound_down: tuple[WoundDown, ...]


def mend(medley: Fleet, patience: Patience | None = None) -> Repaired:
    """What a keeper does in a round that repairs."""
    recovered, late, instances = medley.recover(), [], medley.instances
    for instance in instances.of_fleet("f"):
        event = overdue(instance, patience or Patience(), medley.executor.clock())
        if event is not None:
            step = instances.apply(instance.id, event, medley.executor.clock())
            late += [step] if isinstance(step, Transition) else []
    wound_down = tuple(
        wind_down(instances, medley.executor, instance.id, "it has failed")
        for instance in instances.of_fleet("f")
        if instance.state in (InstanceState.FAILED, InstanceState.TERMINATING)
    )
    return Repaired(recovered, tuple(late), wound_down)


def creates(cloud: FakeCloud) -> list[str]:
    return [call.subject for call in cloud.calls if call.method == "create"]


def offers(found: Provisioned) -> list[str]:
    return [node.offer for node in found.instance.nodes]


def test_a_whole_gang_is_bootstrapping(database: Database, cloud: FakeCloud) -> None:
    medley, instance = fleet(database, cloud), requested(database)
    found = rent(medley, instance, EITHER, EITHER)
    assert (found.instance.state, found.waiting, found.refused) == ("bootstrapping", {}, ())
    assert offers(found) == [SMALL.key] * 2
    assert found.rented == (SMALL.key,) * 2
    assert rent(medley, instance, EITHER, EITHER) == replace(found, rented=())
    assert len(creates(cloud)) == 2


def test_the_scarcest_place_is_rented_first(database: Database, cloud: FakeCloud) -> None:
    scarce = NodePlace((replace(LARGE, available_count=1),), START)
    plenty = NodePlace((replace(SMALL, available_count=9),), START)
    medley, instance = fleet(database, cloud), requested(database)
    rent(medley, instance, EITHER, plenty, scarce)
    assert creates(cloud)[0] == f"medley-{instance.id}-2-0"


@pytest.mark.parametrize("fault", [OwnFaultError("no package"), ConnectionError("no network")])
def test_after_a_fault_of_our_own_no_other_offer_is_asked_and_the_same_is_taken_once_it_is_mended(
    database: Database, cloud: FakeCloud, fault: Exception
) -> None:
    cloud.fail_next("create", fault)
    medley, instance = fleet(database, cloud), requested(database)
    found = rent(medley, instance, EITHER)
    assert (found.instance.state, found.refused, len(creates(cloud))) == ("provisioning", (), 1)
    assert str(fault) in str(found.fault)
    assert found.waiting[0].retry_after_s >= 30
    found = rent(medley, instance, EITHER)
    assert (found.instance.state, offers(found), found.fault) == ("bootstrapping", [SMALL.key], None)


def test_a_refused_place_goes_on_with_its_next_offer(database: Database, cloud: FakeCloud) -> None:
    cloud.fail_next("create", QuotaError("fake: 0 vCPUs left"))
    found = rent(fleet(database, cloud), requested(database), EITHER)
    assert (found.instance.state, offers(found)) == ("bootstrapping", [LARGE.key])
    assert [(refused.offer, type(refused.error)) for refused in found.refused] == [(SMALL.key, QuotaError)]


def test_without_an_offer_left_the_instance_fails_and_is_given_back(database: Database) -> None:
    cloud = FakeCloud("fake", {"small": 1, "large": 1})
    medley, instance = fleet(database, cloud), requested(database)
    found = rent(medley, instance, EITHER, EITHER, EITHER)
    assert found.instance.state == InstanceState.FAILED
    assert {type(refused.error) for refused in found.refused} == {StockOutError}
    assert "no offer is left for node" in medley.instances.history(instance.id)[-1].reason
    (wound_down,) = mend(medley).wound_down
    assert (wound_down.instance.state, wound_down.left) == ("terminated", {})
    assert cloud.list({}, NOON) == ()


def test_while_the_scarcest_place_waits_nothing_else_is_rented(database: Database, cloud: FakeCloud) -> None:
    medley, instance = fleet(database, cloud), requested(database)
    cloud.fail_next("create", BUSY, Effect.DONE)
    first = rent(medley, instance, EITHER, EITHER)
    assert (first.instance.state, list(first.waiting.values())) == ("provisioning", [BUSY])
    assert len(creates(cloud)) == 1
    again = rent(medley, instance, NodePlace((LARGE, SMALL), START), EITHER)
    assert (again.instance.state, again.waiting) == ("bootstrapping", {})
    assert offers(again) == [SMALL.key] * 2  # what was under way is asked for again, whatever is best now
    assert len(cloud.list({}, NOON)) == 2


def test_a_place_on_its_way_from_an_offer_of_the_past_waits_for_recovery(database: Database, cloud: FakeCloud) -> None:
    medley, instance = fleet(database, cloud), requested(database)
    cloud.fail_next("create", BUSY)
    rent(medley, instance, EITHER)
    found = rent(medley, instance, NodePlace((LARGE,), START))
    assert "settle that first" in str(found.waiting[0])
    medley.recover()
    assert rent(medley, instance, NodePlace((LARGE,), START)).instance.state == InstanceState.BOOTSTRAPPING


def test_an_instance_that_is_not_to_be_provisioned_is_left_alone(database: Database, cloud: FakeCloud) -> None:
    instance = driven(database, EventKind.RELEASE)
    assert rent(fleet(database, cloud), instance, EITHER) == Provisioned(instance, {}, ())
    assert cloud.calls == []


@pytest.mark.parametrize(
    ("events", "limit"),
    [
        ((EventKind.PROVISION,), "provisioning"),
        ((EventKind.PROVISION, EventKind.NODES_UP), "bootstrapping"),
        ((EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP), "loading"),
        ((EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED, EventKind.DRAIN), "draining"),
    ],
)
def test_what_takes_too_long_is_ended(
    database: Database, cloud: FakeCloud, events: tuple[EventKind, ...], limit: str
) -> None:
    medley, instance = fleet(database, cloud), driven(database, *events)
    pass_time(timedelta(hours=1))
    forever = Patience(*[timedelta(days=100_000)] * 4)
    assert mend(medley, forever) == Repaired(Recovered(), (), ())
    repaired = mend(medley, replace(forever, **{limit: timedelta(minutes=59)}))
    (step,) = repaired.overdue
    assert step.event.reason == f"{limit} for more than 3540 s"
    assert medley.instances.load(instance.id).state == InstanceState.TERMINATED


def test_a_ready_instance_may_stay_so(database: Database, cloud: FakeCloud) -> None:
    up = (EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)
    medley, instance = fleet(database, cloud), driven(database, *up)
    pass_time(timedelta(days=365))
    assert mend(medley) == Repaired(Recovered(), (), ())
    assert medley.instances.load(instance.id) == instance


def test_the_loss_of_a_node_ends_its_whole_gang(database: Database, cloud: FakeCloud) -> None:
    medley, instance = fleet(database, cloud), requested(database)
    nodes = rent(medley, instance, EITHER, EITHER).instance.nodes
    for kind in (EventKind.AGENTS_UP, EventKind.LOADED):
        medley.instances.apply(instance.id, Event(kind, ""), NOON)
    cloud.preempt(nodes[0].id)
    repaired = mend(medley)
    assert repaired.recovered.lost == [nodes[0].id]
    assert [done.instance.state for done in repaired.wound_down] == ["terminated"]
    assert cloud.list({}, NOON) == ()
    assert mend(medley) == Repaired(Recovered(), (), ())

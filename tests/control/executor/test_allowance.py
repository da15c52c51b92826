"""What a fleet may spend holds when nodes are rented, whatever was decided before."""

from datetime import timedelta
from threading import Barrier, Thread

import pytest

from control.cloud.errors import RetryLaterError
from control.db.database import Database
from control.diff.limits import ChangeLimits
from control.executor.allowance import SpendingCheck
from control.executor.provision import NodePlace, provision
from control.lifecycle.state import InstanceState
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.executor.fleets import START, Fleet, fleet, offer, pass_time
from tests.control.lifecycle.worlds import requested

PLACE = NodePlace((offer(),), START)


@pytest.fixture
def medley(database: Database) -> Fleet:
    return fleet(database, FakeCloud("fake", {"small": 9}))


def allowance(medley: Fleet, limits: ChangeLimits) -> SpendingCheck:
    return SpendingCheck(medley.nodes, "f", medley.executor.clock, limits)


def test_a_node_that_would_cost_too_much_waits_and_is_rented_once_there_is_money(medley: Fleet) -> None:
    instance, limits = requested(medley.nodes.database), ChangeLimits(max_usd_per_hour=1.5)
    allowed = allowance(medley, limits)
    done = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE, PLACE), allowed)
    assert done.instance.state == InstanceState.PROVISIONING
    assert [str(error) for error in done.waiting.values()] == [
        "not rented: the fleet would cost 2.00 $/h, and may cost 1.50"
    ]
    allowed.limits = ChangeLimits(max_usd_per_hour=2.0)
    done = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE, PLACE), allowed)
    assert done.instance.state == InstanceState.BOOTSTRAPPING


def test_no_more_nodes_are_rented_within_an_hour_than_may_be(medley: Fleet) -> None:
    instance, allowed = requested(medley.nodes.database), allowance(medley, ChangeLimits(max_new_nodes_per_hour=1))
    done = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE, PLACE), allowed)
    assert list(done.waiting) == [1]
    pass_time(timedelta(hours=2))
    done = provision(medley.instances, medley.nodes, medley.executor, instance.id, (PLACE, PLACE), allowed)
    assert not done.waiting


def test_of_nodes_that_are_asked_for_at_once_only_as_many_pass_as_there_is_money_for(medley: Fleet) -> None:
    allowed, together, passed = allowance(medley, ChangeLimits(max_usd_per_hour=2.0)), Barrier(5), list[int]()

    def ask(place: int) -> None:
        try:
            with allowed.of_node("i1", place, 1.0):
                passed.append(place)
                together.wait(120)
        except RetryLaterError:
            together.wait(120)

    threads = [Thread(target=ask, args=(place,)) for place in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 2

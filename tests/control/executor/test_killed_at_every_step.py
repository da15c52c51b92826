"""A process that is killed just before or just after any commit or call leaves nothing that recovery does not mend."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from control.cloud.errors import RetryLaterError
from control.cloud.local.cloud import LocalCloud
from control.cloud.port import Cloud
from control.db.database import Database, open_database
from control.db.nodes import PostgresNodes
from control.executor.wind_down import wind_down
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from tests.control.cloud.fake_cloud import Effect, FakeCloud
from tests.control.cloud.harness import KINDS
from tests.control.executor.fleets import (
    START,
    Fleet,
    MortalCloud,
    ProcessKilledError,
    Steps,
    fleet,
    mortal_fleet,
    offer,
    pass_time,
)
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import driven, template, wanted

PLACES = 2
BUSY = RetryLaterError("fake: slow down", 1.0)
MANY = 500
"""More steps than any life here has."""


def live(medley: Fleet, instance: Instance, cloud: str) -> None:
    """A whole life, gone on with from wherever it stands."""
    medley.instances.request(instance, template(), "plan-1", NOON)
    happen(medley, instance, EventKind.PROVISION)
    found = medley.instances.load(instance.id)
    if found.state == InstanceState.PROVISIONING:
        held = {int(node.id.split("-")[2]) for node in found.nodes}
        for place in sorted(set(range(PLACES)) - held):
            medley.executor.rent(instance.id, place, offer(cloud), START)
    happen(medley, instance, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)
    happen(medley, instance, EventKind.DRAIN, EventKind.DRAINED)
    wind_down(medley.instances, medley.executor, instance.id, "not wanted")


def happen(medley: Fleet, instance: Instance, *kinds: EventKind) -> None:
    for kind in kinds:
        medley.instances.apply(instance.id, Event(kind, "as it should be"), NOON)


def assert_explained(database: Database, cloud: Cloud) -> None:
    """What exists is on record as rented, what is on record exists, and nothing is left open."""
    held = PostgresNodes(database).held(cloud.name)
    listed = {node.name: node.provider_id for node in cloud.list({}, NOON)}
    assert {name: node.provider_id for name, node in held.items()} == listed
    assert all(node.created_at is not None for node in held.values())
    assert fleet(database, cloud).executor.intents.open(cloud.name) == ()


def assert_ended(database: Database, cloud: Cloud, instance: Instance) -> None:
    medley = fleet(database, cloud)
    assert cloud.list({}, NOON) == ()
    assert PostgresNodes(database).held(cloud.name) == {}
    assert medley.instances.load(instance.id).state == InstanceState.TERMINATED
    assert [past.version for past in medley.instances.history(instance.id)] == list(range(8))


def test_a_life_that_is_cut_short_anywhere_is_mended_and_gone_on_with(database: Database) -> None:
    deaths: list[str] = []
    for step in range(MANY):
        # No more machines than places: whoever rents one twice runs out of them.
        cloud, instance, steps = FakeCloud("fake", {"small": PLACES}), wanted(), Steps(step)
        try:
            live(mortal_fleet(database, cloud, steps), instance, "fake")
        except ProcessKilledError:
            deaths.append(steps.where)
            fleet(database, cloud).recover()
            assert_explained(database, cloud)
            live(fleet(database, cloud), instance, "fake")
        assert_ended(database, cloud, instance)
        if not steps.where:
            break
    assert 40 < len(deaths) < MANY
    # The end of a gang is one of threads, in any order.
    assert {" ".join(where.split()[:2]) for where in deaths} >= {"before create", "after create", "before a", "after a"}


def mess(database: Database, cloud: FakeCloud) -> Instance:
    """Everything that can be amiss at once."""
    medley, instance = fleet(database, cloud), driven(database, EventKind.PROVISION)
    names = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(4)]
    happen(medley, instance, EventKind.NODES_UP)
    cloud.preempt(names[0])
    cloud.crash(names[1])
    cloud.fail_next("terminate", BUSY)
    with pytest.raises(RetryLaterError):
        medley.executor.give_back(names[2], "fake")
    other = driven(database, EventKind.PROVISION)
    for place, effect in enumerate((Effect.DONE, Effect.LATER, Effect.NONE)):
        cloud.fail_next("create", BUSY, effect)
        with pytest.raises(RetryLaterError):
            medley.executor.rent(other.id, place, offer(), START)
    cloud.create(replace(cloud.request(names[3]), name="medley-nobodys"), NOON)
    return instance


def test_a_recovery_that_is_cut_short_anywhere_is_mended_by_the_next(database: Database) -> None:
    for step in range(MANY):
        cloud, steps = FakeCloud(f"fake{step}", {"small": 9}), Steps(step)
        cloud.name = "fake"
        instance = mess(database, cloud)
        try:
            mortal_fleet(database, cloud, steps).recover()
        except ProcessKilledError:
            cloud.settle()
            fleet(database, cloud).recover()
        assert fleet(database, cloud).instances.load(instance.id).state == InstanceState.FAILED
        if not steps.where:
            break
        assert_explained(database, cloud)
        for node in cloud.list({}, NOON):
            fleet(database, cloud).executor.give_back(node.name, "fake")
    assert 20 < step < MANY


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCloud]:
    cloud = LocalCloud(tmp_path / "local-cloud", KINDS)
    yield cloud
    for node in cloud.list({}, NOON):
        cloud.terminate(node.name, NOON)


def test_a_control_plane_that_is_killed_for_good_leaves_no_process_behind(
    database: Database, database_url: str, local: LocalCloud, tmp_path: Path
) -> None:
    deaths = 0
    for step in range(MANY):
        instance = wanted()
        if (child := os.fork()) == 0:
            live_and_die(database_url, tmp_path / "local-cloud", instance, step)
        _, status = os.waitpid(child, 0)
        pass_time(timedelta(minutes=1))
        medley = fleet(database, local)
        medley.recover()
        assert_explained(database, local)
        live(medley, instance, "local")
        assert_ended(database, local, instance)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        deaths += 1
    assert 2 * 4 < deaths < MANY


def live_and_die(database_url: str, home: Path, instance: Instance, step: int) -> None:
    """In a process of its own, that never returns."""
    steps = Steps(step, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
    try:
        with open_database(database_url) as database:
            # At every call of the cloud: the commits between them are tried without so many processes above.
            live(fleet(database, MortalCloud(LocalCloud(home, KINDS), steps)), instance, "local")
    except BaseException:
        os._exit(1)
    os._exit(0)

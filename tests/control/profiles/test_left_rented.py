"""Rented nodes of which it is not known whether they are there: tries of unknown outcome, and runs that were killed."""

import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from control.actions.measure_rented import NotGivenBackError, end_rented, measure_rented, nodes_of
from control.cli import profile_rented
from control.cloud.errors import CloudError, OwnFaultError, RetryLaterError, StockOutError
from control.cloud.ssh.cloud import OwnMachines
from control.profiles.measurement_jobs import SweepError
from control.profiles.rentals import Rental, Rentals
from control.profiles.store import ProfileStore
from control.reconcile.clouds import Clouds
from tests.control.cloud.fake_cloud import Effect
from tests.control.cloud.harness import request
from tests.control.cloud.ssh_harness import sshd
from tests.control.lifecycle.worlds import START
from tests.control.profiles.talking_cloud import Course, TalkingCloud, story
from tests.control.profiles.test_measure_rented import OWNER, measurement, quiet

LEFT = Rental("medley-profile-1-0", "aws", "us-east-2a", "g6e.xlarge", "L40S:1/n10", 1.0, "now", "then")
AT_HOME = Rental("medley-profile-1-0", "owned", "here", "small", "L40S:1/n10", 0.0, "now", "then")


@pytest.mark.parametrize("effect", [Effect.DONE, Effect.LATER])
@pytest.mark.parametrize("refusal", [OwnFaultError("aws: no network"), StockOutError("aws: no more")])
def test_a_refusal_says_nothing_of_an_earlier_try_whose_answer_was_lost(
    tmp_path: Path, effect: Effect, refusal: CloudError
) -> None:
    store, cloud, course = ProfileStore(tmp_path / "profiles"), TalkingCloud([[], []]), Course()
    cloud.fail_next("create", RetryLaterError("aws: busy", 5.0), effect)
    cloud.fail_next("create", refusal)
    course.then = lambda waits: cloud.settle() if waits == 2 else None
    with pytest.raises(SweepError):
        measure_rented(measurement(tmp_path, zones=1), cloud, OWNER, store, course.pace, quiet)
    cloud.settle()
    assert cloud.list({}, START) == ()
    assert store.rentals.all() == ()


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_signal_ends_a_run_that_has_given_back_what_another_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, meanwhile: bool
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    rentals, cloud = ProfileStore(tmp_path / "profiles").rentals, TalkingCloud([story()])
    rentals.open(LEFT).leave()
    terminate = cloud.terminate

    def interrupted(name: str, now: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        terminate(name, now)  # type: ignore[arg-type]

    if meanwhile:
        monkeypatch.setattr(cloud, "terminate", interrupted)
    went_on = []
    with pytest.raises(KeyboardInterrupt), profile_rented.ended_politely():  # noqa: PT012
        profile_rented._end_left(Clouds({"aws": lambda: cloud}), OWNER, "aws", "")
        went_on.append("behind what was left")
        os.kill(os.getpid(), signal.SIGTERM)
        went_on.append("behind the signal")
    assert went_on == [] if meanwhile else ["behind what was left"]
    assert rentals.all() == ()
    assert [call.subject for call in cloud.calls if call.method == "terminate"] == [LEFT.node]


@pytest.mark.needs("sshd")
def test_a_node_on_an_own_machine_is_ended_where_nobody_knows_of_the_machine_any_more(tmp_path: Path) -> None:
    rentals, course = Rentals(tmp_path / "rented"), Course()
    with sshd(tmp_path / "hosts", ("small",)) as server:
        cloud = OwnMachines(server.hosts)
        nodes = nodes_of(cloud, rentals, "me", course.pace)
        nodes.rent(request(AT_HOME.node), AT_HOME, START + timedelta(minutes=1))
        assert rentals.take_left() == (), "it goes on"
        nodes._held.pop(AT_HOME.node).leave()  # as the kernel does where a run is killed
        later = nodes_of(OwnMachines([]), rentals, "me", course.pace)
        for left in rentals.take_left():
            later.take_over(left)
        end_rented(later)
        assert cloud.list({}, START) == ()
    assert rentals.all() == ()


@pytest.mark.needs("sshd")
def test_a_node_stays_on_record_while_its_own_machine_is_not_known_or_not_heard(tmp_path: Path) -> None:
    rentals, course = Rentals(tmp_path / "rented"), Course()
    with sshd(tmp_path / "hosts", ("small",)) as server:
        hosts = server.hosts
        rentals.open(AT_HOME).leave()
        # A record without a host, and none that it could be on.
        _ends(rentals, OwnMachines([]), course, "no host is known")
        nodes = nodes_of(OwnMachines(hosts), rentals, "me", course.pace)
        nodes.rent(request(AT_HOME.node), AT_HOME, START + timedelta(hours=1))
        nodes._held.pop(AT_HOME.node).leave()
        server_is_up = OwnMachines(hosts)
        assert [node.name for node in server_is_up.list({}, START)] == [AT_HOME.node]
        server_is_up.terminate(AT_HOME.node, START)
    _ends(rentals, OwnMachines([]), course, hosts[0].name)
    assert [record.held for record in rentals.all()] == [False]


def _ends(rentals: Rentals, cloud: OwnMachines, course: Course, says: str) -> None:
    """It cannot be ended, and why."""
    nodes = nodes_of(cloud, rentals, "me", course.pace)
    for left in rentals.take_left():
        nodes.take_over(left)
    with pytest.raises(NotGivenBackError, match=says):
        end_rented(nodes)

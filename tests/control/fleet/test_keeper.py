"""What keeps fleets, on a real database and a cloud that a test can break: no node ever runs."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from control.cloud.errors import CloudError, GiveUpError, StockOutError
from control.cloud.node import CloudNode, NodeRequest
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.ledger import PostgresLedger
from control.diff.limits import ChangeLimits
from control.diff.supply import supply_of
from control.diff.target import Target
from control.executor.node_start import NodeStart
from control.fleet.effects import InlineEffects, ThreadEffects
from control.fleet.keeper import Keeper, Ready
from control.fleet.keeper_settings import KeeperSettings
from control.fleet.observer import NoObserver
from control.fleet.order import FleetOrder
from control.fleet.stores import FleetStores
from control.hub.board import Board
from control.hub.deployed import ModelFiles
from control.ledger.period import Period
from control.lifecycle.event import Event, EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.state import InstanceState
from templates_lib.values.disks import Disks
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market, Offer
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.executor.fleets import fleet
from tests.control.fleet.fleets import template
from tests.control.lifecycle.worlds import START

FILES = {"chat": ModelFiles("chat", "path:/weights", 192, 256)}
ZONE = "fake/here"
STARTS = {"fake": NodeStart(("true",))}
UP = (EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)


def wish(layers: tuple[int, ...] = (4, 2), plan_id: str = "plan-1", count: int = 1) -> Target:
    served = {"chat/aggregated": 2.0}
    return Target(plan_id, "chat", template(layers), ZONE, Market.ON_DEMAND, count, served, 1.0 * len(layers))


class Refusing(ThreadEffects):
    """Tells when it has refused work for a name that other work is under way for, once it is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = threading.Event()
        self._is_watched = False

    def watch(self) -> None:
        self._is_watched = True

    def begin(self, name: str, work: Callable[[], None]) -> bool:
        if begun := super().begin(name, work):
            return begun
        if self._is_watched:
            self.refused.set()
        return False


@dataclass
class World(NoObserver):
    """Time passes a quarter of a second a tick, clouds answer within it."""

    database: Database
    stock: int = 4
    seconds: float = 0.0
    steps: list[PastTransition] = field(default_factory=list)
    refusals: list[tuple[str, str, type[CloudError]]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """Of offers, in order."""
    published: list[Ready] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cloud = FakeCloud("fake", {"small": self.stock})
        medley = fleet(self.database, self.cloud)
        self.stores = FleetStores(medley.instances, medley.nodes, medley.executor)
        self.keeper = self.restarted()

    def restarted(self) -> Keeper:
        """Another control plane."""
        board = Board({}, 1e9, 0.0)
        settings = KeeperSettings(1.0, timedelta(0), end_s=0.1)
        self.keeper = Keeper(self.stores, board, InlineEffects(), self.publish, settings, lambda: self.seconds)
        self.keeper.observer = self
        return self.keeper

    def order(self, *wanted: Target, **changes: Any) -> FleetOrder:
        offer = Offer("fake", "here", "here", "small", "small:1/n10", Market.ON_DEMAND, 1.0, self.stock)
        return replace(
            FleetOrder("f", wanted, (), supply_of([offer], (), {}, 0), FILES, starts=STARTS, limits=ChangeLimits()),
            **changes,
        )

    def publish(self, ready: Ready) -> None:
        self.published.append(list(ready))

    def on_transition(self, fleet: str, step: PastTransition) -> None:  # noqa: ARG002
        self.steps.append(step)

    def refused(self, fleet: str, offer: Offer, error: CloudError) -> None:
        self.refusals.append((fleet, offer.key, type(error)))
        self.heard.append("refused")

    def rented(self, fleet: str, offer: Offer) -> None:  # noqa: ARG002
        self.given.append(offer.key)
        self.heard.append("rented")

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.seconds += 0.25
            self.keeper.tick()

    def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(1000):
            if condition():
                return
            self.tick()
        raise AssertionError(f"not after {self.seconds} s: {self.states()}")

    def reasons(self, state: InstanceState) -> list[str]:
        return [step.reason for step in self.steps if step.to_state is state]

    def states(self, of: str = "") -> dict[str, str]:
        return {i.id: i.state for i in self.stores.instances.living() if of in ("", i.fleet)}

    def advance(self, instance: str, *events: EventKind) -> None:
        """As reports of nodes would."""
        for kind in events:
            self.stores.instances.apply(instance, Event(kind, "reported"), START)

    def serving(self, *wanted: Target, name: str = "f") -> list[str]:
        """Ids of instances that were launched and are ready; then another control plane takes over."""
        self.keeper.keep(replace(self.order(*wanted), name=name))
        count = sum(each.count for each in wanted)
        self.until(lambda: list(self.states(name).values()) == ["bootstrapping"] * count)
        for instance in self.states(name):
            self.advance(instance, EventKind.AGENTS_UP, EventKind.LOADED)
        self.restarted().load()
        self.steps.clear()
        self.cloud.calls.clear()
        return list(self.states(name))

    def on_record(self, name: str, of: Target, *events: EventKind, fleet_name: str = "f") -> Instance:
        """An instance of an earlier control plane, without nodes."""
        instances = PostgresInstances(self.database)
        new = Instance(name, of.template.id, of.zone, of.market, InstanceState.REQUESTED, (), fleet=fleet_name)
        instances.request(new, of.template, of.plan_id, START)
        for kind in events:
            instances.apply(name, Event(kind, "earlier"), START)
        return instances.load(name)


def test_an_instance_for_which_nothing_can_be_rented_is_launched_again_later_and_later(database: Database) -> None:
    world = World(database)
    world.keeper.keep(world.order(wish()))
    for _ in range(3):
        world.cloud.fail_next("create", StockOutError("none left"))
    failed_at = []
    for failures in (1, 2, 3):
        world.keeper.keep(world.order(wish()))  # a look at the market that knows nothing of refusals
        world.until(lambda n=failures: len(world.reasons(InstanceState.FAILED)) == n)
        failed_at.append(world.seconds)
        world.tick(20 if failures == 1 else 1)
        assert len(world.reasons(InstanceState.FAILED)) == failures  # not asked again without one
    world.keeper.keep(world.order(wish()))
    assert all("no offer is left" in reason for reason in world.reasons(InstanceState.FAILED))
    assert failed_at[2] - failed_at[1] >= 2.0
    assert world.refusals == [("f", "fake/here/small/on-demand", StockOutError)] * 3
    world.until(lambda: "bootstrapping" in world.states().values())
    world.tick()
    assert world.given == ["fake/here/small/on-demand"] * 2


def test_nodes_are_asked_for_with_the_disk_that_their_template_needs_and_are_charged_for_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked, create = World(database), [], FakeCloud.create

    def noted(cloud: FakeCloud, request: NodeRequest, now: datetime) -> CloudNode:
        asked.append(request.disk_gib)
        return create(cloud, request, now)

    monkeypatch.setattr(FakeCloud, "create", noted)
    large, small = wish(), wish(layers=(6,))
    disks = Disks({"fake": 0.5}, {})
    world.keeper.keep(world.order(large, small, disk_gib={large.template.id: 730}, disks=disks))
    world.until(lambda: list(world.states().values()) == ["bootstrapping"] * 2)
    assert sorted(asked) == [0, 730, 730]
    now = world.stores.executor.clock()
    charged = PostgresLedger(database).charges(Period(now - timedelta(hours=1), now))
    assert sum(each.usd_per_hour for each in charged) == 3 * 1 + 2 * Fraction(1, 2)
    assert sum(world.stores.nodes.rents("f").values()) == 4


def test_that_an_offer_refused_part_of_a_gang_is_heard_after_what_it_gave(database: Database) -> None:
    world = World(database, stock=1)
    world.keeper.keep(world.order(wish(), supply=World(database).order().supply))
    world.until(lambda: world.reasons(InstanceState.FAILED))
    world.tick()
    assert world.heard == ["rented", "refused"]  # the other way round it would be asked again at once


def test_every_step_is_said_whoever_takes_it(database: Database) -> None:
    world = World(database)
    world.keeper.keep(world.order(wish()))
    world.until(lambda: world.reasons(InstanceState.BOOTSTRAPPING))
    (lost, *_) = sorted(world.keeper.nodes)
    world.cloud.preempt(lost)
    world.until(lambda: world.reasons(InstanceState.TERMINATED))
    first = world.steps[0].instance_id
    own = [(step.from_state, step.to_state) for step in world.steps if step.instance_id == first]
    assert own == list(pairwise(["requested", "provisioning", "bootstrapping", "failed", "terminating", "terminated"]))
    assert "does not list" in world.reasons(InstanceState.FAILED)[0]


def test_the_end_gives_everything_back_and_takes_it_off_the_record(database: Database) -> None:
    world = World(database)
    world.keeper.keep(world.order(wish()))
    world.until(lambda: world.reasons(InstanceState.BOOTSTRAPPING))
    assert world.keeper.end(lambda: None) == {}
    assert world.states() == {}
    assert world.cloud.list({}, START) == ()


def test_the_end_gives_back_a_node_that_was_being_rented_when_it_came(database: Database) -> None:
    world, effects = World(database), Refusing()
    begun, create = threading.Event(), world.cloud.create

    def slowly(request: NodeRequest, now: datetime) -> CloudNode:
        begun.set()
        assert effects.refused.wait(60)
        return create(request, now)

    world.cloud.create = slowly
    settings = KeeperSettings(1.0, timedelta(hours=1), end_s=0.3)
    keeper = world.keeper = Keeper(world.stores, Board({}, 1e9, 0.0), effects, world.publish, settings)
    keeper.keep(world.order(wish((6,))))
    world.until(begun.is_set)
    assert keeper.end(effects.watch) == {}
    effects.close()
    assert world.states() == {}
    assert world.cloud.list({}, START) == ()


def test_what_an_earlier_run_went_through_is_no_news(database: Database) -> None:
    world = World(database)
    served = world.serving(wish())
    world.keeper.keep(world.order(wish()))
    assert world.keeper.ready == set(served)
    world.tick(8)
    assert world.steps == []
    assert {call.method for call in world.cloud.calls} == {"list"}


@pytest.mark.parametrize("known", [True, False], ids=["its plan is kept", "its plan is gone"])
def test_an_instance_of_a_model_that_is_not_served_any_more_is_drained(database: Database, known: bool) -> None:
    world = World(database)
    gone = Target("plan-0", "a model of old", template((3, 3)), ZONE, Market.ON_DEMAND, 1, {"old/serve": 1.0}, 0.0)
    (served,) = world.serving(gone)
    world.keeper.keep(world.order(earlier=(gone,) if known else ()))
    world.until(lambda: world.steps)
    assert world.keeper.ready == set()
    world.advance(served, EventKind.DRAINED)
    world.until(lambda: len(world.steps) == 3)
    assert [step.to_state for step in world.steps] == ["draining", "terminating", "terminated"]
    assert world.published[-1] == []


def test_what_replaces_an_instance_is_ready_before_it_is_drained(database: Database) -> None:
    world = World(database)
    (served,) = world.serving(wish((3, 3), "plan-0"))
    world.keeper.keep(world.order(wish(), earlier=(wish((3, 3), "plan-0"),)))
    world.until(lambda: "bootstrapping" in world.states().values())
    world.tick(20)
    assert world.states()[served] == "ready"
    (new,) = set(world.states()) - {served}
    world.advance(new, EventKind.AGENTS_UP, EventKind.LOADED)
    world.tick(2)
    assert world.states() == {served: "draining", new: "ready"}


def test_a_fleet_that_is_only_observed_is_left_as_it_is_but_for_what_has_failed(database: Database) -> None:
    world = World(database)
    one, other = world.serving(wish((3, 3), "plan-0", 2))
    world.advance(other, EventKind.BROKE)
    world.keeper.keep(world.order(wish(), acts=False))
    world.tick(20)
    assert world.states() == {one: "ready"}
    assert {call.method for call in world.cloud.calls} == {"list", "terminate"}


def test_two_fleets_are_kept_side_by_side_and_a_third_that_nobody_speaks_of_is_left_alone(database: Database) -> None:
    world = World(database, stock=9)
    (third,) = world.serving(wish((5, 1), "plan-3"), name="h")
    world.keeper.keep(world.order(wish()))
    world.keeper.keep(replace(world.order(wish((6,), "plan-2")), name="g"))
    world.until(lambda: list(world.states().values()).count("bootstrapping") == 2)
    world.tick(8)
    assert len(world.states("f")) == len(world.states("g")) == 1
    assert world.states("h") == {third: "ready"}
    world.keeper.forget("h")
    world.tick(2)
    assert world.states("h") == {third: "draining"}
    assert len(world.states("f")) == len(world.states("g")) == 1


def test_an_instance_at_a_cloud_of_others_is_not_touched(database: Database) -> None:
    world = World(database)
    elsewhere = Target("p", "chat", template(), "aws/zone", Market.ON_DEMAND, 1, {"chat/aggregated": 1.0}, 0.0)
    world.on_record("i-elsewhere", elsewhere, *UP)
    world.keeper.forget("f")
    world.tick(8)
    assert world.states() == {"i-elsewhere": "ready"}


def test_no_more_nodes_are_rented_within_an_hour_than_the_fleet_may(database: Database) -> None:
    world = World(database, stock=40)
    world.keeper.keep(world.order(wish(count=4), limits=ChangeLimits(max_new_nodes_per_hour=5)))
    world.tick(40)
    assert len(world.cloud.list({}, START)) == 4
    assert len(world.states()) == 2


def test_a_table_that_cannot_be_written_is_written_later(database: Database) -> None:
    full = [OSError(28, "No space left on device")] * 2

    class Full(World):
        def publish(self, ready: Ready) -> None:
            if full:
                raise full.pop()
            super().publish(ready)

    world = Full(database)
    world.keeper.keep(world.order())
    world.until(lambda: world.published)
    assert not full, "each of the refusals was met"
    assert world.published[-1] == []


def test_the_offer_of_a_node_that_is_another_machine_was_not_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(database)
    world.keeper.keep(world.order(wish()))
    world.until(lambda: list(world.states().values()) == ["bootstrapping"])
    (name,) = [node.id for instance in world.stores.instances.living() for node in instance.nodes][:1]
    monkeypatch.setattr(Board, "other_machines", lambda _: {name: "it was rented as L4:1/n10"})
    world.tick(3)
    assert world.refusals == [("f", "fake/here/small/on-demand", GiveUpError)], "once"

"""Renting and giving back: what is on record, and what the type of an error tells the caller to do next."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest
from sqlalchemy import select

from control.access.secret import Secret
from control.cloud.errors import GiveUpError, QuotaError, RetryLaterError, StockOutError, UnauthorisedError
from control.cloud.node import CloudNodeState, NodeRequest
from control.db.agent_keys import PostgresAgentKeys
from control.db.database import Database
from control.db.errors import NotWantedError, PlaceTakenError
from control.db.fleet_tables import intent
from control.executor.profile_tag import profile_tags
from control.executor.recover import Recovered
from control.executor.wind_down import wind_down
from control.lifecycle.event import Event, EventKind
from control.lifecycle.node_load import NodeLoad
from control.lifecycle.state import InstanceState
from templates_lib.values.offer import Market
from tests.control.cloud.fake_cloud import Effect, FakeCloud
from tests.control.executor.fleets import OWNER, START, fleet, offer, pass_time
from tests.control.lifecycle.worlds import START as NOON
from tests.control.lifecycle.worlds import driven

KEY = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
CROWD = 8
BUSY = RetryLaterError("fake: slow down", 1.0)


@pytest.fixture
def cloud() -> FakeCloud:
    return FakeCloud("fake", {"small": 3, "large": 3})


def outcomes(database: Database) -> dict[str, tuple[str, str]]:
    with database.transaction() as connection:
        rows = connection.execute(select(intent)).all()
    return {row.key: (row.state, row.outcome) for row in rows}


def test_a_rented_node_is_on_record_with_its_intent_and_its_tags(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    node = medley.executor.rent(instance.id, 1, offer(), START)
    assert node.name == f"medley-{instance.id}-1-0"
    assert node.tags.items() >= {"medley-owner": OWNER, "medley-instance": instance.id}.items()
    (held,) = medley.instances.load(instance.id).nodes
    assert (held.id, held.offer, held.provider_id) == (node.name, offer().key, node.provider_id)
    assert outcomes(database) == {f"create:{node.name}": ("done", node.provider_id)}


def test_a_node_registers_with_what_it_was_started_with(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    node = medley.executor.rent(instance.id, 0, offer(), replace(START, secrets={"HF_TOKEN": Secret("for the hub")}))
    asked = cloud.request(node.name)
    assert asked.environment == {
        "MEDLEY_SERVER": "tcp://127.0.0.1:1",
        "MEDLEY_NODE": node.name,
        "MEDLEY_CLOUD": "fake",
        "MEDLEY_NODE_NETWORK": "fake",
    }
    assert asked.secrets.keys() == {"HF_TOKEN", "MEDLEY_BOOTSTRAP_TOKEN"}
    token = asked.secrets["MEDLEY_BOOTSTRAP_TOKEN"]
    assert PostgresAgentKeys(database).register(token, KEY, NOON) == node.name
    assert medley.executor.give_back(node.name, "fake")
    assert PostgresAgentKeys(database).living() == {}


def test_the_intent_is_on_record_before_the_cloud_is_called(database: Database) -> None:
    class Witness(FakeCloud):
        def create(self, request, now):  # type: ignore[no-untyped-def]
            seen.update(outcomes(database))
            return super().create(request, now)

        def terminate(self, name, now):  # type: ignore[no-untyped-def]
            seen.update(outcomes(database))
            super().terminate(name, now)

    seen: dict[str, tuple[str, str]] = {}
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, Witness("fake", {"small": 1}))
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    assert seen == {f"create:{name}": ("open", "")}
    medley.executor.give_back(name, "fake")
    assert seen[f"terminate:{name}"] == ("open", "")


@pytest.mark.parametrize(
    "error", [StockOutError("none"), QuotaError("limit"), GiveUpError("no"), UnauthorisedError("who")]
)
def test_after_a_refusal_the_place_is_free_for_another_offer(
    database: Database, cloud: FakeCloud, error: Exception
) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", error)
    with pytest.raises(type(error)):
        medley.executor.rent(instance.id, 0, offer(), START)
    assert medley.instances.load(instance.id).nodes == ()
    assert outcomes(database) == {f"create:medley-{instance.id}-0-0": ("refused", f"{type(error).__name__}: {error}")}
    node = medley.executor.rent(instance.id, 0, offer(instance_type="large"), START)
    assert node.name == f"medley-{instance.id}-0-1"


@pytest.mark.parametrize("effect", [Effect.NONE, Effect.DONE])
def test_after_a_lost_call_the_same_name_is_asked_for_again(
    database: Database, cloud: FakeCloud, effect: Effect
) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", BUSY, effect)
    with pytest.raises(RetryLaterError):
        medley.executor.rent(instance.id, 0, offer(), START)
    with pytest.raises(PlaceTakenError, match=r"settle that first, then .*/large/"):
        medley.executor.rent(instance.id, 0, offer(instance_type="large"), START)
    node = medley.executor.rent(instance.id, 0, offer(), START)
    assert [n.name for n in cloud.list({}, NOON)] == [node.name]
    assert outcomes(database) == {f"create:{node.name}": ("done", node.provider_id)}


def test_a_place_has_one_node(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    node = medley.executor.rent(instance.id, 0, offer(), START)
    with pytest.raises(PlaceTakenError, match=f"has node {node.name}: release it first"):
        medley.executor.rent(instance.id, 0, offer(), START)


@pytest.mark.parametrize("events", [(), (EventKind.RELEASE,), (EventKind.PROVISION, EventKind.NODES_UP)])
def test_nothing_is_rented_for_an_instance_that_is_not_being_provisioned(
    database: Database, cloud: FakeCloud, events: tuple[EventKind, ...]
) -> None:
    instance = driven(database, *events)
    with pytest.raises(NotWantedError, match=f"instance {instance.id} is {instance.state}"):
        fleet(database, cloud).executor.rent(instance.id, 0, offer(), START)
    with pytest.raises(NotWantedError, match="not on record"):
        fleet(database, cloud).executor.rent("i0", 0, offer(), START)
    assert cloud.calls == []


def test_a_node_that_arrives_for_an_instance_given_up_meanwhile_is_given_back(database: Database) -> None:
    class Slow(FakeCloud):
        def create(self, request, now):  # type: ignore[no-untyped-def]
            node = super().create(request, now)
            wind_down(medley.instances, medley.executor, instance.id, "the plan changed")
            return super().create(request, now) if node else node

    cloud = Slow("fake", {"small": 1})
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    with pytest.raises(NotWantedError, match="was given up while it was being rented"):
        medley.executor.rent(instance.id, 0, offer(), START)
    assert cloud.list({}, NOON) == ()
    assert medley.instances.load(instance.id).state == InstanceState.TERMINATED


def test_a_cloud_without_adapter_is_named_before_anything_is_recorded(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    with pytest.raises(GiveUpError, match=r"no adapter for cloud 'fakes'; did you mean 'fake'"):
        medley.executor.rent(instance.id, 0, offer("fakes"), START)
    assert outcomes(database) == {}


def test_an_instance_is_wound_down_only_when_no_node_is_left(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    names = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(3)]
    cloud.fail_next("terminate", BUSY)
    first = wind_down(medley.instances, medley.executor, instance.id, "not wanted")
    assert (first.instance.state, list(first.left.values())) == ("terminating", ["fake: slow down"])
    assert [node.id for node in first.instance.nodes] == list(first.left)
    assert [node.name for node in cloud.list({}, NOON)] == list(first.left)
    last = wind_down(medley.instances, medley.executor, instance.id, "not wanted")
    assert (last.instance.state, last.instance.nodes, last.left) == ("terminated", (), {})
    assert wind_down(medley.instances, medley.executor, instance.id, "again") == last
    assert set(outcomes(database)) == {f"{kind}:{name}" for kind in ("create", "terminate") for name in names}
    assert {state for state, _ in outcomes(database).values()} == {"done"}


def test_a_node_is_gone_only_when_the_cloud_lists_it_no_more(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    cloud.ends_slowly = True
    done = wind_down(medley.instances, medley.executor, instance.id, "not wanted")
    assert (done.instance.state, done.left) == ("terminating", {name: "the cloud still lists it"})
    assert medley.recover().failed == {name: "the cloud still lists it"}
    cloud.settle()
    assert medley.recover().ended == [name]
    assert wind_down(medley.instances, medley.executor, instance.id, "").instance.state == "terminated"


def test_however_many_rent_a_place_at_once_it_has_one_node(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    barrier = Barrier(CROWD)

    def rent(_: int) -> str:
        barrier.wait()
        try:
            return medley.executor.rent(instance.id, 0, offer(), START).name
        except PlaceTakenError:
            return "taken"

    with ThreadPoolExecutor(CROWD) as pool:
        names = set(pool.map(rent, range(CROWD)))
    (node,) = cloud.list({}, NOON)
    assert names - {"taken"} == {node.name}
    assert [held.id for held in medley.instances.load(instance.id).nodes] == [node.name]


def test_a_serving_instance_is_not_wound_down_past_its_drain(database: Database, cloud: FakeCloud) -> None:
    up = (EventKind.PROVISION, EventKind.NODES_UP, EventKind.AGENTS_UP, EventKind.LOADED)
    instance, medley = driven(database, *up), fleet(database, cloud)
    with pytest.raises(ValueError, match="drain it before"):
        wind_down(medley.instances, medley.executor, instance.id, "not wanted")
    medley.instances.apply(instance.id, Event(EventKind.DRAIN, ""), NOON)
    assert wind_down(medley.instances, medley.executor, instance.id, "no time").instance.state == "terminated"


def test_a_heartbeat_is_kept_and_a_late_one_does_not_count(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    for minutes in (2, 1):
        medley.nodes.heard_of({name: NodeLoad(cpu_share=0.1 * minutes)}, NOON + timedelta(minutes=minutes))
    (node,) = medley.instances.load(instance.id).nodes
    assert node.last_heartbeat == (NOON + timedelta(minutes=2)).isoformat()
    (held,) = medley.nodes.of_instance(instance.id).values()
    assert held.load == NodeLoad(cpu_share=0.2)


def test_recovery_has_nothing_to_do_for_what_is_as_recorded(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    medley.executor.rent(instance.id, 0, offer(), START)
    before = outcomes(database)
    assert medley.recover() == Recovered()
    assert outcomes(database) == before


def test_recovery_adopts_a_node_whose_reply_was_lost(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", BUSY, Effect.DONE)
    with pytest.raises(RetryLaterError):
        medley.executor.rent(instance.id, 0, offer(), START)
    name = f"medley-{instance.id}-0-0"
    assert medley.recover().adopted == [name]
    assert outcomes(database)[f"create:{name}"] == ("done", "fake-1")


def test_recovery_abandons_what_never_came_and_ends_it_when_it_comes_after_all(
    database: Database, cloud: FakeCloud
) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", BUSY, Effect.LATER)
    with pytest.raises(RetryLaterError):
        medley.executor.rent(instance.id, 0, offer(), START)
    late = f"medley-{instance.id}-0-0"
    assert medley.recover().abandoned == [late]
    second = medley.executor.rent(instance.id, 0, offer(), START).name
    assert second == f"medley-{instance.id}-0-1"
    cloud.settle()
    assert medley.recover().orphans == [late]
    assert [node.name for node in cloud.list({}, NOON)] == [second]


def test_recovery_waits_for_a_launch_that_is_queued_and_ends_one_that_nobody_wants_any_more(
    database: Database, cloud: FakeCloud
) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    for place in range(2):
        cloud.fail_next("create", BUSY, Effect.QUEUED)
        with pytest.raises(RetryLaterError):
            medley.executor.rent(instance.id, place, offer(), START)
    names = [f"medley-{instance.id}-{place}-0" for place in range(2)]
    assert medley.recover() == Recovered(queued=names)
    assert {state for state, _ in outcomes(database).values()} == {"open"}
    medley.instances.apply(instance.id, Event(EventKind.BROKE, ""), NOON)
    ended = wind_down(medley.instances, medley.executor, instance.id, "failed")
    assert ended.instance.state == "terminated"
    assert cloud.list({}, NOON) == ()
    cloud.settle()
    assert medley.recover().orphans == names, "this cloud made them after all"


def test_recovery_leaves_calls_alone_that_may_be_under_way(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    cloud.fail_next("create", BUSY)
    with pytest.raises(RetryLaterError):
        medley.executor.rent(instance.id, 0, offer(), START)
    name = medley.executor.rent(instance.id, 1, offer(), START).name
    cloud.preempt(name)
    assert medley.recover(in_flight=timedelta(hours=1)) == Recovered()


def test_recovery_ends_what_was_to_be_ended(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    name = medley.executor.rent(instance.id, 0, offer(), START).name
    cloud.fail_next("terminate", BUSY)
    with pytest.raises(RetryLaterError):
        medley.executor.give_back(name, "fake")
    assert medley.recover() == Recovered(ended=[name])
    assert cloud.list({}, NOON) == ()


def test_recovery_fails_the_instance_of_a_preempted_node_and_its_key_with_it(
    database: Database, cloud: FakeCloud
) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    names = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(2)]
    keys = PostgresAgentKeys(database)
    keys.register(cloud.request(names[0]).secrets["MEDLEY_BOOTSTRAP_TOKEN"], KEY, NOON)
    medley.instances.apply(instance.id, Event(EventKind.NODES_UP, ""), NOON)
    cloud.preempt(names[0])
    assert medley.recover().lost == [names[0]]
    found = medley.instances.load(instance.id)
    assert (found.state, [node.id for node in found.nodes]) == ("failed", names[1:])
    assert keys.living() == {}
    assert wind_down(medley.instances, medley.executor, instance.id, "failed").instance.state == "terminated"


def test_a_node_lost_while_the_gang_is_rented_is_replaced_in_its_place(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    names = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(2)]
    cloud.preempt(names[0])
    cloud.crash(names[1])
    assert medley.recover().lost == names
    assert cloud.list({}, NOON) == ()
    assert medley.instances.load(instance.id).state == InstanceState.PROVISIONING
    again = [medley.executor.rent(instance.id, place, offer(), START).name for place in range(2)]
    assert again == [f"medley-{instance.id}-{place}-1" for place in range(2)]


def test_recovery_touches_no_node_of_another_owner(database: Database, cloud: FakeCloud) -> None:
    instance, medley = driven(database, EventKind.PROVISION), fleet(database, cloud)
    medley.executor.rent(instance.id, 0, offer(), START)
    theirs = replace(cloud.request(f"medley-{instance.id}-0-0"), name="theirs", tags={"medley-owner": "they"})
    ours = replace(theirs, name="ours-without-a-row", tags={"medley-owner": OWNER})
    for request in (theirs, ours):
        cloud.create(request, NOON)
    assert medley.recover().orphans == ["ours-without-a-row"]
    assert {node.name for node in cloud.list({}, NOON)} == {"theirs", f"medley-{instance.id}-0-0"}
    assert cloud.list({}, NOON)[0].state is CloudNodeState.RUNNING


def test_recovery_leaves_nodes_alone_that_are_measured_until_their_time_is_over(
    database: Database, cloud: FakeCloud
) -> None:
    """`medley profile run` has rented it: no row explains it."""
    medley = fleet(database, cloud)
    tags = {"medley-owner": OWNER, **profile_tags(medley.executor.clock() + timedelta(minutes=30))}
    cloud.create(NodeRequest("medley-profile-1-0", "here", "here", "small", Market.ON_DEMAND, tags, ("true",)), NOON)
    assert medley.recover() == Recovered()
    pass_time(timedelta(minutes=31))
    assert medley.recover().orphans == ["medley-profile-1-0"]
    assert cloud.list({}, NOON) == ()


def test_a_cloud_that_does_not_answer_does_not_keep_others_from_recovery(database: Database, cloud: FakeCloud) -> None:
    other = FakeCloud("other", {"small": 1})
    medley = fleet(database, other)
    medley = replace(medley, executor=replace(medley.executor, clouds={"fake": cloud, "other": other}))
    instance = driven(database, EventKind.PROVISION)
    other.fail_next("create", BUSY, Effect.DONE)
    with pytest.raises(RetryLaterError):
        medley.executor.rent(instance.id, 0, offer("other"), START)
    cloud.fail_next("list", UnauthorisedError("fake: the key has expired"))
    recovered = medley.recover()
    assert recovered.failed == {"fake": "fake: the key has expired"}
    assert recovered.adopted == [f"medley-{instance.id}-0-0"]


def test_a_node_whose_log_says_that_it_will_not_come_up_fails_its_instance_while_it_is_waited_for(
    database: Database, cloud: FakeCloud
) -> None:
    medley = fleet(database, cloud)
    waited_for, fine, serving = (driven(database, EventKind.PROVISION) for _ in range(3))
    names = {each.id: medley.executor.rent(each.id, 0, offer(), START).name for each in (waited_for, fine, serving)}
    for each in (waited_for, fine, serving):
        medley.instances.apply(each.id, Event(EventKind.NODES_UP, "all are rented"), NOON)
    medley.instances.apply(serving.id, Event(EventKind.AGENTS_UP, "all are connected"), NOON)
    cloud.failures = dict.fromkeys((names[waited_for.id], names[serving.id]), "driver 470\x1b[31m is too old")
    cloud.fail_next("failure", BUSY)
    cloud.fail_next("failure", BUSY)
    medley.recover()
    assert medley.instances.load(waited_for.id).state == InstanceState.BOOTSTRAPPING, "its log could not be read"
    medley.recover()
    states = [medley.instances.load(each.id).state for each in (waited_for, fine, serving)]
    assert states == [InstanceState.FAILED, InstanceState.BOOTSTRAPPING, InstanceState.LOADING]
    why = medley.instances.history(waited_for.id)[-1].reason
    assert names[waited_for.id] in why
    assert "driver 470 [31m is too old" in why
    assert names[serving.id] not in {call.subject for call in cloud.calls if call.method == "failure"}

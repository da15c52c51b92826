"""The reconcile loop: what it plans, proposes, does and leaves alone."""

from datetime import timedelta
from pathlib import Path
from socket import gaierror

import pytest
from sqlalchemy import event

from control.cloud.errors import OwnFaultError, StockOutError, UnauthorisedError
from control.cloud.node import NodeRequest
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.libraries import PostgresLibraries
from control.db.market_memory import PostgresMarketMemory
from control.db.plan_summary import PostgresPlanList
from control.gateway.published import read_published
from control.lifecycle.event import Event, EventKind
from control.lifecycle.fleet import FleetMode
from control.planning.templates import stored_template
from control.reconcile.reconciler import Reconciler
from templates_lib.values.offer import Market
from tests.control.api.test_unreadable_fleet import UNREADABLE
from tests.control.db.test_leader import cut_all
from tests.control.reconcile.reconciled import Place, Plane, spec


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Place:
    return Place(database, tmp_path)


def test_a_fleet_in_auto_is_planned_launched_and_then_left_in_peace(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    assert place.states() == ["ready"]
    assert place.types() == ["cheap"]
    calls = len([call for call in place.cloud.calls if call.method == "create"])
    plane.run(320)
    assert len([call for call in place.cloud.calls if call.method == "create"]) == calls == 1
    assert len(place.events("plan.accepted")) == 1
    assert [model.routing.id for model in read_published(plane.table).models] == ["chat-model"]


@pytest.mark.parametrize("mode", [FleetMode.AUTO, FleetMode.APPROVE])
def test_what_a_fleet_is_held_to_or_may_be_is_kept_with_what_baselines_would_cost(
    place: Place, mode: FleetMode
) -> None:
    place.put(spec(), mode)
    Plane(place).run(5)
    target = place.fleets.target("chat")
    found = PostgresPlanList(place.database).of(target.accepted or target.proposed)
    assert {each.name for each in found.baselines} == {"homo", "homo_joint", "cauchy"}
    assert found.usd_per_hour == pytest.approx(min(each.usd_per_hour for each in found.baselines)), "one node is all"


def test_a_file_that_a_spec_names_is_read_again_when_it_has_changed(place: Place) -> None:
    arrivals = place.folder / "arrivals.csv"

    def write(requests: int) -> None:
        """In ten minutes."""
        rows = (f"{600 * n / requests:.3f},100,10" for n in range(requests + 1))
        arrivals.write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]))

    write(120)
    text = spec(rate=0.2, more="reconcile: {replan_minutes: 1}\n")
    text = text.replace("requests_per_s: 0.2", "trace: arrivals.csv")
    place.fleets.create("chat", text, place.now, str(place.folder), mode=FleetMode.AUTO)
    plane = Plane(place)
    plane.until_settled()
    assert place.states() == ["ready"]
    write(720)
    plane.run(70)
    plane.until_settled()
    assert len(place.states()) > 1
    arrivals.unlink()
    plane.run(70)
    assert "arrivals.csv" in plane.loop.trouble()["chat"]
    assert len(place.states()) > 1
    assert "arrivals.csv" in place.fleets.target("chat").trouble
    write(720)
    plane.run(70)
    assert plane.loop.trouble() == {}
    assert place.fleets.target("chat").trouble == ""


def test_a_fleet_in_observe_is_planned_and_not_touched(place: Place) -> None:
    place.put(spec(), FleetMode.OBSERVE)
    plane = Plane(place)
    plane.run(30)
    target = place.fleets.target("chat")
    assert (target.accepted, bool(target.proposed)) == ("", True)
    assert len(place.events("plan.proposed")) == 1
    assert {call.method for call in place.cloud.calls} <= {"list"}
    assert place.states() == []


def test_a_fleet_in_approve_waits_for_a_word_for_plans_and_for_no_word_to_replace_what_fails(place: Place) -> None:
    place.put(spec(), FleetMode.APPROVE)
    plane = Plane(place)
    plane.run(10)
    assert place.states() == []
    target = place.fleets.target("chat")
    place.fleets.accept(target, target.proposed, "somebody", "looked at", place.now)
    plane.until_settled()
    assert place.states() == ["ready"]
    (node,) = place.cloud.list({}, place.now)
    place.cloud.preempt(node.name)
    plane.run(2)
    plane.until_settled()
    assert place.states() == ["ready"]
    place.put(spec(rate=1.2), FleetMode.APPROVE)
    plane.run(10)
    assert place.states() == ["ready"]
    assert place.fleets.target("chat").proposed


def test_a_refused_offer_is_avoided_by_the_next_plan_which_is_under_way_within_five_seconds(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    place.cloud.fail_next("create", StockOutError("local: no more cheap"))
    began = place.seconds
    while place.types() != ["dear"] and place.seconds < began + 30:
        plane.tick()
    assert place.seconds - began < 5 + 0.5
    plane.until_settled()
    assert place.events("offer.refused") == ["StockOutError: local: no more cheap"]
    asked = [call for call in place.cloud.calls if call.method == "create"]
    assert len(asked) == 2


def test_a_market_that_comes_back_is_asked_for_more_as_soon_as_it_gives(place: Place) -> None:
    others = [NodeRequest(f"theirs-{i}", "local", "local", "cheap", Market.ON_DEMAND, {}, ("true",)) for i in range(6)]
    for request in others:
        place.cloud.create(request, place.now)
    place.put(spec(rate=3.4))
    plane = Plane(place)
    plane.until_settled(120)
    most = place.types().count("dear")
    assert most > 3
    for request in others:
        place.cloud.terminate(request.name, place.now)
    for wanted, step_s in ((1, 5.0), (most, 1.0)):
        began = place.seconds
        while place.types().count("cheap") < wanted and place.seconds < began + 900:
            plane.tick(step_s)
    assert place.seconds - began < 30  # a plan every five minutes would take two of them
    plane.until_settled(120)
    assert place.types() == ["cheap"] * most


def test_what_refused_is_asked_again_when_it_may_be_not_when_the_next_plan_is_due(place: Place) -> None:
    place.put(spec(more="reconcile: {replan_minutes: 60}\n"))
    plane = Plane(place)
    place.cloud.fail_next("create", StockOutError("local: no more cheap"))
    plane.until_settled()
    assert place.types() == ["dear"]
    refused = place.seconds
    while "cheap" not in place.types() and place.seconds < refused + 300:
        plane.tick()
    assert 60 - 30 <= place.seconds - refused < 60 + 5
    plane.run(120)
    assert place.types() == ["cheap"]


def test_what_is_never_there_is_not_asked_for_in_a_storm(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    for _ in range(1000):
        place.cloud.fail_next("create", StockOutError("local: none"))
    plane.run(240)
    asked = [call for call in place.cloud.calls if call.method == "create"]
    assert 2 <= len(asked) <= 2 * 4 + 4  # of two offers, in four minutes
    assert place.states() == []


@pytest.mark.parametrize(
    "fault",
    [
        UnauthorisedError("local: the key has expired"),
        OwnFaultError("SkyPilot is not installed"),
        ModuleNotFoundError("No module named 'boto3'"),
        gaierror(-3, "Temporary failure in name resolution"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_fault_of_our_own_blames_no_offer_stops_launches_and_is_said_until_it_is_mended(
    place: Place, fault: Exception
) -> None:
    place.put(spec())
    place.put(spec("other"), name="other")
    plane = Plane(place)
    for _ in range(4):
        place.cloud.fail_next("create", fault)
    plane.run(170)
    asked = [call for call in place.cloud.calls if call.method == "create"]
    assert 2 <= len(asked) <= 4  # one to see whether it was mended, now and then, for both fleets together
    assert place.events("offer.refused") == []
    assert PostgresMarketMemory(place.database).read() == {}
    assert place.types() == []
    for fleet in ("chat", "other"):
        assert str(fault).split("] ")[-1] in place.fleets.target(fleet).trouble  # as `medley status` says it
        assert place.fleets.target(fleet).accepted
    plane.run(240)
    assert place.types() == ["cheap", "cheap"]  # what was planned, and nothing dearer in its place
    assert {place.fleets.target(fleet).trouble for fleet in ("chat", "other")} == {""}
    assert len(place.events("launches.stopped")) == len(place.events("launches.resumed")) == 1


def test_two_fleets_with_a_model_of_one_name_leave_the_loop_at_work_for_all(place: Place) -> None:
    """Actions refuse it; what was stored before they did, or by two people at once, must not end the loop."""
    place.put(spec())
    place.put(spec("other", model="chat-model"), name="other")
    plane = Plane(place)
    plane.until_settled()
    (model,) = read_published(plane.table).models
    assert model.fleet == "chat"
    assert "chat-model" in place.fleets.target("other").trouble
    assert place.fleets.target("chat").trouble == ""
    place.put(spec("other"), name="other")
    plane.until_settled()
    assert {each.fleet for each in read_published(plane.table).models} == {"chat", "other"}
    assert place.fleets.target("other").trouble == ""


def test_a_spec_that_cannot_be_planned_is_said_and_what_runs_goes_on(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    place.put("apiVersion: medley/v1\nkind: Fleet\nname: chat\n")
    plane.run(10)
    assert "models" in plane.loop.trouble()["chat"]
    assert len(place.events("fleet.trouble")) == 1
    assert place.states() == ["ready"]
    assert read_published(plane.table).models
    place.put(spec())
    plane.until_settled()
    assert plane.loop.trouble() == {}


def test_fleets_whose_specs_cannot_be_read_any_more_are_set_aside_and_the_others_looked_after(place: Place) -> None:
    for name, stored in UNREADABLE.items():
        place.put(stored, name=name.replace(" ", "-"))
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    assert place.states() == ["ready"]
    assert [each.fleet for each in read_published(plane.table).models] == ["chat"]
    assert set(plane.loop.trouble()) == {name.replace(" ", "-") for name in UNREADABLE}
    place.put(spec(rate=1.2))
    plane.run(3)
    plane.until_settled()
    assert len(place.states()) > 1


def test_more_demand_brings_more_and_less_takes_away_what_is_too_much(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    place.put(spec(rate=1.2))
    plane.run(3)
    plane.until_settled()
    more = len(place.states())
    assert more > 1
    place.put(spec(rate=0.2))
    plane.run(3)
    plane.until_settled(120)
    assert len(place.states()) < more


def test_a_tighter_objective_has_what_cannot_keep_it_replaced_before_it_is_given_back(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    libraries, before = PostgresLibraries(place.database), plane.keeper.known
    assert {stored_template(libraries, i.template_id).capacity.slo_ms for i in before} == {600.0}
    place.put(spec().replace("ttft_ms: 6000, tpot_ms: 600", "ttft_ms: 4000, tpot_ms: 400"))
    for _ in range(40):
        plane.tick()
        assert "ready" in place.states()
    plane.until_settled()
    assert {stored_template(libraries, i.template_id).capacity.slo_ms for i in plane.keeper.known} == {400.0}


def test_a_fleet_that_is_ended_is_drained_given_back_and_off_the_record(place: Place) -> None:
    record = place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    place.fleets.change("chat", record.version, place.now, ending=True)
    plane.run(20)
    assert place.states() == []
    assert place.cloud.list({}, place.now) == ()
    assert place.fleets.all() == ()
    assert read_published(plane.table).models == ()


def test_a_quiet_round_asks_the_database_for_little_whatever_is_on_its_way_out(place: Place) -> None:
    record = place.put(spec())
    place.put(spec("other"), name="other")
    plane = Plane(place, repair_s=1000.0)
    plane.until_settled()
    asked: list[str] = []
    event.listen(place.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))

    def statements() -> int:
        asked.clear()
        place.pass_time(0.25)
        plane.loop.tick()
        return len(asked)

    quiet = statements()
    assert statements() == quiet
    place.fleets.change("chat", record.version, place.now, ending=True)
    plane.loop.tick()
    assert "draining" in place.states()
    plane.loop.tick()
    assert statements() == statements() <= quiet + 1


def test_a_fleet_that_was_removed_and_made_anew_between_two_rounds_is_the_new_one(place: Place) -> None:
    place.put(spec(), FleetMode.OBSERVE)
    plane = Plane(place)
    plane.run(3)
    place.fleets.remove("chat")
    place.pass_time(1)
    place.put(spec(model="another"), FleetMode.AUTO)
    plane.run(3)
    plane.until_settled()
    assert [model.routing.id for model in read_published(plane.table).models] == ["another"]


def test_the_next_control_plane_goes_on_where_this_one_stood(place: Place) -> None:
    place.put(spec())
    one = Plane(place)
    one.until_settled()
    nodes = place.cloud.list({}, place.now)
    one.leader.resign()  # as its death would
    two = Plane(place, "two")
    two.run(20)
    assert place.cloud.list({}, place.now) == nodes
    assert place.events("plan.accepted") == place.events("plan.accepted")[:1]
    assert two.loop.is_settled()


def test_of_two_control_planes_one_acts_until_it_is_gone(place: Place) -> None:
    place.put(spec())
    one, two = Plane(place, "one"), Plane(place, "two")
    for _ in range(40):
        one.tick()
        two.tick()
    assert (one.loop.leads, two.loop.leads) == (True, False)
    assert place.types() == ["cheap"]
    cut_all(place.database)
    place.database.engine.dispose()
    for _ in range(80):
        two.tick()
        one.tick()
    assert (one.loop.leads, two.loop.leads) == (False, True)
    assert one.loop.is_deposed()
    assert place.types() == ["cheap"]
    assert place.states() == ["ready"]
    assert len([call for call in place.cloud.calls if call.method == "create"]) == 1


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_loses_and_doubles_nothing(place: Place, hours: int) -> None:
    place.put(spec(rate=0.6))
    plane = Plane(place)
    plane.run(0.5)
    place.now += timedelta(hours=hours)
    plane.until_settled(120)
    place.now -= timedelta(hours=hours)
    plane.run(60)
    place.put(spec(rate=0.2))
    place.now += timedelta(hours=hours)
    plane.run(60)
    plane.until_settled(300)
    listed = {node.name for node in place.cloud.list({}, place.now)}
    on_record = {node.id for i in PostgresInstances(place.database).living() for node in i.nodes}
    assert listed == on_record
    assert len(listed) == len(place.states()) == 1


def test_an_instance_that_fails_is_replaced_without_a_plan(place: Place) -> None:
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    (instance,) = PostgresInstances(place.database).living()
    PostgresInstances(place.database).apply(instance.id, Event(EventKind.BROKE, "engine died"), place.now)
    plane.tick()
    plane.until_settled()
    (other,) = PostgresInstances(place.database).living()
    assert other.id != instance.id
    assert len(place.events("plan.accepted")) == 1
    assert len(place.cloud.list({}, place.now)) == 1


def test_a_plan_that_was_taken_and_not_ordered_yet_is_nothing_settled(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    order = Reconciler._order

    def looked_at(loop: Reconciler) -> None:
        """As another thread might, amid a round."""
        seen.append(loop.is_settled())
        order(loop)

    monkeypatch.setattr(Reconciler, "_order", looked_at)
    place = Place(database, tmp_path)
    place.put(spec())
    plane = Plane(place)
    for _ in range(40):
        plane.tick()
        if place.states():
            break
    assert place.states()
    assert seen
    assert not any(seen)

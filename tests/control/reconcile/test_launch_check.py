"""What would fail is not rented by itself, and is tried again once it is mended."""

from pathlib import Path

from control.db.database import Database
from control.lifecycle.fleet import FleetMode
from templates_lib.values.plan import Plan
from tests.control.reconcile.reconciled import Place, Plane, spec

WHY = "aws: the token has expired"
OFTEN = "reconcile: {replan_minutes: 1}\n"
TURN_S = 90.0
"""More than the time between two plans of a fleet."""


def test_a_plan_whose_launch_would_fail_is_not_carried_out_in_auto_until_it_is_mended(
    database: Database, tmp_path: Path
) -> None:
    place = Place(database, tmp_path, failing=lambda _: (WHY,))
    place.put(spec(more=OFTEN))
    plane = Plane(place)
    plane.run(TURN_S)
    assert place.states() == []
    assert place.fleets.targets()["chat"].accepted == ""
    assert place.fleets.targets()["chat"].trouble == f"cannot be launched: {WHY}"
    assert place.events("fleet.trouble") == [f"cannot be launched: {WHY}"], "it is said once"
    place.failing = lambda _: ()
    plane.run(TURN_S)
    assert place.states() == ["ready"]
    assert place.fleets.targets()["chat"].trouble == ""


def test_what_runs_stays_as_it_is_while_what_is_to_replace_it_could_not_be_launched(
    database: Database, tmp_path: Path
) -> None:
    place = Place(database, tmp_path)
    place.put(spec(more=OFTEN))
    plane = Plane(place)
    plane.until_settled()
    accepted, ran = place.fleets.targets()["chat"].accepted, place.states()
    place.failing = lambda _: (WHY,)
    place.put(spec(rate=2.0, more=OFTEN))
    plane.run(TURN_S)
    assert (place.fleets.targets()["chat"].accepted, place.states()) == (accepted, ran)
    assert WHY in place.fleets.targets()["chat"].trouble


def test_what_somebody_looks_at_is_not_held_up(database: Database, tmp_path: Path) -> None:
    asked: list[str] = []

    def noted(plan: Plan) -> tuple[str, ...]:
        asked.append(plan.id)
        return (WHY,)

    place = Place(database, tmp_path, failing=noted)
    place.put(spec(more=OFTEN), mode=FleetMode.APPROVE)
    Plane(place).run(TURN_S)
    assert place.fleets.targets()["chat"].proposed
    assert asked == []

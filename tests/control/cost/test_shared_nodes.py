"""What the models of a unit cost: the unit's cost, split by their share of compute, and not a cent more or less."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from control.access.secret import new_secret
from control.cost.report import cost_report
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.intents import PostgresIntents
from control.db.ledger import PostgresLedger
from control.db.plans import PostgresPlans
from control.ledger.charge import Charge
from control.ledger.cost_line import By
from control.ledger.period import Period
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.sources.placement_checks import PlacementError
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market
from templates_lib.values.placement import Share, UnitPlacement
from templates_lib.values.template import ServingTemplate
from tests.control.db.test_plans import PLAN, SNAPSHOT
from tests.templates_lib.units import CONFIG, executor, unit_template

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

shares = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1 / 3, 0.5])
places = st.sampled_from([((0,),), ((1,),), ((0, 1),), ((1,), (0,))])
money = st.fractions(0, 1000, max_denominator=1_000_000)


@given(st.lists(st.tuples(st.sampled_from("abc"), places, shares), min_size=1, max_size=5), money, money)
def test_parts_add_up_to_what_the_unit_costs(
    given_: list[tuple[str, tuple[tuple[int, ...], ...], float]], usd: Fraction, usd_per_hour: Fraction
) -> None:
    executors = [
        executor(f"e{number}", slots, component=component, share=Share((), compute))
        for number, (component, slots, compute) in enumerate(given_)
    ]
    nodes = len({slot for each in executors for slot in each.configs})
    try:
        unit = unit_of(unit_template(*executors, nodes={CONFIG: nodes}))
    except PlacementError:
        assume(False)
    charge = Charge("i", "f", "p", "both", "aws", "spot", usd, usd_per_hour, 2, 0.0)
    parts = charge.split(unit.component_shares)
    assert sum((part.usd for part in parts), Fraction(0)) == usd
    assert sum((part.usd_per_hour for part in parts), Fraction(0)) == usd_per_hour
    assert {part.model for part in parts} == {each.component for each in executors}
    assert all(part.usd >= 0 for part in parts)


def test_models_that_state_no_share_pay_alike_and_others_what_they_state() -> None:
    alike = UnitPlacement((executor("a"), executor("b")))
    assert alike.component_shares == {"a": Fraction(1, 2), "b": Fraction(1, 2)}
    apart = UnitPlacement((executor("a", share=Share((0,))), executor("b", share=Share((1, 2, 3)))))
    assert apart.component_shares == {"a": Fraction(1, 4), "b": Fraction(3, 4)}
    idle = UnitPlacement((executor("a", share=Share((), 0.2)), executor("b", share=Share((), 0.6))))
    assert idle.component_shares == {"a": Fraction(1, 4), "b": Fraction(3, 4)}, "what is idle is paid for too"


def rented(database: Database, template: ServingTemplate, plan: str) -> datetime:
    """Rent one for 2 $/h, and return since when: for four hours."""
    new = Instance("i1", template.id, "aws/x", Market.SPOT, InstanceState.REQUESTED, (), fleet="f")
    stored = PostgresInstances(database)
    stored.request(new, template, plan, NOW)
    stored.apply("i1", Event(EventKind.PROVISION, "wanted"), NOW)
    began = NOW - timedelta(hours=4)
    PostgresIntents(database).open_create("i1", 0, "aws/x", "aws", 2.0, new_secret(), NOW, began)
    return began


def test_members_of_a_unit_pay_what_the_plan_says_that_asked_for_it(database: Database) -> None:
    template = unit_template(executor("a"), executor("b"))
    paid = {"a": 1.0, "b": 3.0}
    planned = replace(PLAN.instances[0], template_id=template.id, usd_per_hour=4.0, usd_per_hour_by_member=paid)
    planned = replace(planned, zone="aws/x", market=Market.SPOT)
    elsewhere = replace(planned, zone="aws/y", usd_per_hour_by_member={"a": 4.0, "b": 0.0})
    PostgresPlans(database).save("f", replace(PLAN, instances=(*PLAN.instances, elsewhere, planned)), SNAPSHOT)
    began = rented(database, template, PLAN.id)
    report = cost_report(PostgresLedger(database), Period(began, NOW), By.MODEL, NOW)
    assert {line.name: line.usd for line in report.lines} == {"a": 2, "b": 6}
    assert report.usd == 8


def test_a_report_by_model_has_a_line_for_each_model_of_a_unit(database: Database) -> None:
    template = unit_template(executor("a", share=Share((), 0.25)), executor("b", share=Share((), 0.75)))
    began = rented(database, template, "plan")
    report = cost_report(PostgresLedger(database), Period(began, NOW), By.MODEL, NOW)
    assert {line.name: (line.usd, line.usd_per_hour) for line in report.lines} == {"a": (2, 0.5), "b": (6, 1.5)}
    assert (report.usd, report.nodes) == (8, 1)
    whole = cost_report(PostgresLedger(database), Period(began, NOW), By.INSTANCE, NOW)
    assert {line.name: line.usd for line in whole.lines} == {"i1": 8}

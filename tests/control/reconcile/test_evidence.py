"""What answers prove: nothing while instances come and go, nor while more is asked than planned for."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork
from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.fleets import PostgresFleets
from control.db.slo_samples import Judged, LatencyHistogram, PostgresSloSamples, SloSample
from control.reconcile.promises_kept import MeasuredCorrections
from policies.correction import Correction
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Market
from templates_lib.values.plan import Attained, Flow, Plan, PlannedInstance
from templates_lib.values.settings import Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Leg, Route, Unit

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PREFILL, DECODE = "m/prefill", "m/decode"
PROMPT, OUTPUT = 1000.0, 200.0
RATE = 10.0
NOTHING = LatencyHistogram((None,), (0.0,))


def _snapshot(**settings: float) -> Snapshot:
    route = Route("r", "m", "chat", (Leg(PREFILL, PROMPT), Leg(DECODE, OUTPUT)))
    caps = Settings(utilisation_caps={PREFILL: 0.5, DECODE: 1.0}, corrections=settings)
    return Snapshot("", "", (), (), (), (), (route,), (), caps, "", "costs-1")


def _plan(share: float = 0.992) -> Plan:
    """Half of what prefill instances sustain is used, four fifths of what decode instances do."""
    instances = (
        PlannedInstance("p", "m", "prefill", "z", Market.SPOT, 2, 0, {}, {PREFILL: RATE * PROMPT}, 1.0),
        PlannedInstance("d", "m", "decode", "z", Market.SPOT, 1, 0, {}, {DECODE: RATE * OUTPUT / 0.8}, 1.0),
    )
    attained = {name: Attained(share, 99, 24_000, 0) for name in (PREFILL, DECODE)}
    flows = (Flow("r", ("z", "z"), RATE, 0.0),)
    return Plan("", "", "", "", instances, (), flows, 2, 2, 0, 0, 0, {}, 2, 2, 0, 0, "optimal", attainment=attained)


def _instance(name: str, template: str, minutes: float = 300, state: str = "ready") -> Instance:
    since = (NOW - timedelta(minutes=minutes)).isoformat()
    return Instance(name, template, "z", Market.SPOT, state, (), state_since=since, fleet="f")


ALL = (_instance("1", "p"), _instance("2", "p"), _instance("3", "d"))


@dataclass
class Gateways:
    database: Database

    def answered(self, share: float, since: int = 60, until: int = 0, load: float = 1.0, size: float = 1.0) -> None:
        """Answers of the minutes from `since` to `until` before now, whose prompts kept their objective in `share`.
        `load`: of what was planned; `size`: of the planned prompt."""
        answers = 60 * RATE * load
        judged = (Judged(PREFILL, "ttft", answers, answers * share), Judged(DECODE, "tpot", answers, answers))
        for ago in range(since, until, -1):
            at = NOW - timedelta(minutes=ago)
            PostgresSloSamples(self.database).add([SloSample("g", "m", at, NOTHING, NOTHING, judged)])
            tokens = int(PROMPT * size * answers), int(OUTPUT * answers)
            work = (
                OfferedWork(PREFILL, Unit.PROMPT_TOKEN, tokens[0], 0, tokens[0]),
                OfferedWork(DECODE, Unit.OUTPUT_TOKEN, tokens[1], 0, tokens[1]),
            )
            line = OfferedLine("f", "m", "chat", "", int(answers), 0, *tokens, int(answers), *tokens, work)
            report = Offered("1", int(at.timestamp()), 60, 1, (line,))
            PostgresDemand(self.database).record([("g", report)], NOW)


@pytest.fixture
def gateways(database: Database) -> Gateways:
    PostgresFleets(database).create("f", "", NOW)
    return Gateways(database)


def _due(
    gateways: Gateways, own: tuple[Instance, ...] = ALL, plan: Plan | None = None, snapshot: Snapshot | None = None
) -> dict[str, float]:
    found = MeasuredCorrections(gateways.database).due("f", plan or _plan(), snapshot or _snapshot(), own, NOW)
    return {name: round(each.factor, 6) for name, each in found.items()}


def test_only_the_class_that_falls_short_is_corrected(gateways: Gateways) -> None:
    gateways.answered(0.98)
    assert _due(gateways) == {PREFILL: 0.9}


def test_what_was_promised_is_no_reason(gateways: Gateways) -> None:
    gateways.answered(0.99)
    assert _due(gateways) == {}


def test_a_plan_that_promised_less_is_held_to_that(gateways: Gateways) -> None:
    gateways.answered(0.98)
    assert _due(gateways, plan=_plan(share=0.97)) == {}


def test_nobody_counts_answers(gateways: Gateways) -> None:
    assert _due(gateways) == {}


def test_more_than_was_planned_for_is_no_reason(gateways: Gateways) -> None:
    gateways.answered(0.9, load=1.3)
    assert _due(gateways) == {}


def test_longer_prompts_than_planned_for_are_no_reason(gateways: Gateways) -> None:
    gateways.answered(0.9, size=1.3)
    assert _due(gateways) == {}


def test_a_rush_and_what_waits_from_it_do_not_count(gateways: Gateways) -> None:
    gateways.answered(0.992, since=60, until=30)
    gateways.answered(0.3, since=30, until=20, load=2.0)
    gateways.answered(0.7, since=20, until=15)
    gateways.answered(0.992, since=15)
    assert _due(gateways) == {}


def test_answers_prove_nothing_while_instances_are_missing_or_new(gateways: Gateways) -> None:
    gateways.answered(0.9)
    assert _due(gateways, ALL[1:]) == {}
    assert _due(gateways, (_instance("1", "p", state="loading"), *ALL[1:])) == {}
    assert _due(gateways, (_instance("1", "p", minutes=5), *ALL[1:])) == {}
    assert _due(gateways, (_instance("1", "p", minutes=30), *ALL[1:])) == {PREFILL: 0.8}


def test_before_another_correction_its_own_answers_are_waited_for(gateways: Gateways) -> None:
    gateways.answered(0.9)
    corrections = PostgresCorrections(gateways.database)
    corrected = Correction(0.9, NOW - timedelta(minutes=5), cost_model="costs-1")
    corrections.put("f", {PREFILL: corrected})
    less = replace(_plan(), instances=(replace(_plan().instances[0], count=3), _plan().instances[1]))
    own = (*ALL, _instance("4", "p"))
    assert _due(gateways, own, less, _snapshot(**{PREFILL: 0.9})) == {}
    corrections.put("f", {PREFILL: replace(corrected, changed_at=NOW - timedelta(minutes=30))})
    assert _due(gateways, own, less, _snapshot(**{PREFILL: 0.9})) == {PREFILL: round(0.8 * 2 / 3, 6)}
    assert _due(gateways) == {}  # the plan in force is from before it


def test_idle_instances_get_nothing_back(gateways: Gateways) -> None:
    gateways.answered(1.0, since=100, load=0.3)
    corrected = Correction(0.9, NOW - timedelta(hours=5), cost_model="costs-1")
    PostgresCorrections(gateways.database).put("f", {PREFILL: corrected})
    assert _due(gateways) == {}


def test_a_correction_goes_with_the_step_times_that_it_corrects(gateways: Gateways) -> None:
    corrected = Correction(0.7, NOW - timedelta(hours=5), fell_short_at=0.8, relapses=4, cost_model="costs-0")
    PostgresCorrections(gateways.database).put("f", {PREFILL: corrected})
    found = MeasuredCorrections(gateways.database).due("f", _plan(), _snapshot(), ALL, NOW)
    assert {name: (each.factor, each.relapses, each.cost_model) for name, each in found.items()} == {
        PREFILL: (1.0, 0, "costs-1")
    }

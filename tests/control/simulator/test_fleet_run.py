"""The real control plane over logs: what it rents, what it pays, and what it routes to while nodes come and go."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.db.plans import PostgresPlans
from control.planning.session import PlanningSession
from control.simulator.fleet_history import FleetHistory
from control.simulator.fleet_run import Around, FleetRun, run_fleet
from control.simulator.scenario import FleetScenario, read_scenario
from control.simulator.step_log import StepLog

FLEET = Path(__file__).parents[3] / "examples" / "simulate" / "chat-fleet.yaml"
SCENARIO = f"""
apiVersion: medley/v1
kind: Scenario
name: short
fleet: {FLEET}
minutes: 60
startup: {{least_minutes: 3, most_minutes: 5}}
traffic:
  - {{model: gpt-oss-20b, synthetic: poisson, requests_per_s: 4}}
market:
  prices: {{file: prices.csv}}
  availability: {{file: stock.csv, known: false}}
"""
PRICES = """time,zone,machine,market,usd_per_hour
0,aws/us-east-2,L4:1,spot,0.10
1200,aws/us-east-2,L4:1,spot,0.13
2400,aws/us-east-2,L4:1,spot,0.17
"""
STOCK = """time,zone,machine,market,available
0,aws/us-east-2,L4:1,spot,6
1500,aws/us-east-2,L4:1,spot,0
"""
LENGTH_S = 3600.0
IN_A_PROCESS = """
import sys
from pathlib import Path
from control.db.database import open_database
from control.db.libraries import PostgresLibraries
from control.simulator.fleet_run import Around, run_fleet
from control.simulator.scenario import read_scenario

asked, folder = map(Path, sys.argv[1:])
with open_database(None, folder / "libraries") as database:
    around = Around(PostgresLibraries(database), lambda *_: None, lambda: 0.0, folder)
    log = run_fleet(read_scenario(asked), around).log
print(*((plan.at_s, plan.plan_id) for plan in log.plans), sep="\\n")
print(*((at_s, step.instance_id, step.event) for at_s, step in log.steps), sep="\\n")
"""
"""All plans of a scenario, and what became of instances."""


def scenario(folder: Path) -> FleetScenario:
    (folder / "prices.csv").write_text(PRICES)
    (folder / "stock.csv").write_text(STOCK)
    (folder / "scenario.yaml").write_text(SCENARIO)
    found = read_scenario(folder / "scenario.yaml")
    assert isinstance(found, FleetScenario)
    return found


def ran(asked: FleetScenario, database: Database, short_tmp: Path) -> tuple[FleetRun, FleetHistory]:
    run = run_fleet(asked, Around(PostgresLibraries(database), lambda *_: None, lambda: 0.0, short_tmp))
    return run, FleetHistory(run.log, run.clouds, asked.world.recipe, asked.length_s)


def test_a_fleet_that_is_taken_back_is_replaced_elsewhere_and_all_of_it_is_paid_for(
    database: Database, tmp_path: Path, short_tmp: Path
) -> None:
    asked = scenario(tmp_path)
    run, history = ran(asked, database, short_tmp)
    fleet, nodes = history.timeline(), history.nodes()

    # It was warm, on the cheapest offer; what was taken there is replaced by what takes a start-up to be there.
    before, after = ([i for i in fleet.instances if (i.ready_s == 0) is warm] for warm in (True, False))
    assert before
    assert after
    assert {(i.zone, i.gone_s) for i in before} == {("aws/us-east-2", 1500.0)}
    assert all(i.ready_s >= 1500 + 180 for i in after)
    assert all(node.until_s <= 1500 for node in nodes if node.offer.startswith("aws/us-east-2/g6.xlarge/spot"))

    # Nobody serves before its nodes are there, or after one of them is gone.
    lives = {life.id: life for life in fleet.instances}
    for node in nodes:
        if node.instance in lives:
            assert node.from_s <= lives[node.instance].ready_s
            assert node.until_s >= min(lives[node.instance].gone_s, LENGTH_S)
    spans = {span.id: span for span in history.instances()}
    assert all(span.ready_s is None or span.ready_s - span.requested_s >= 180 for span in spans.values())

    # Tables name what is there by then, until the loss is noticed a moment later.
    ends = [at_s for at_s, _ in fleet.tables[1:]] + [LENGTH_S]
    for (at_s, models), until_s in zip(fleet.tables, ends, strict=True):
        for routed in (routed for model in models for routed in model.members):
            assert lives[routed.id].ready_s <= at_s
            assert lives[routed.id].gone_s >= until_s - 5
    assert all(one[0] < other[0] for one, other in pairwise(fleet.tables))

    # Money is the integral of the price over the lives of nodes, and of their disks of 100 GiB, to the cent.
    prices = {log.offer.key: log.usd_per_hour for log in asked.market.offers}
    owed = sum(_owed(prices[node.offer], node.from_s, node.until_s) for node in nodes)
    owed += sum(node.until_s - node.from_s for node in nodes) / 3600 * 100 * 0.08 / 730
    assert sum(node.spent_usd for node in nodes) == pytest.approx(owed, abs=1e-6)
    assert sum(cloud.spent_between_usd(0, LENGTH_S) for cloud in run.clouds.values()) == pytest.approx(owed, abs=1e-6)
    assert owed > 0.1


def _owed(price: StepLog, from_s: float, until_s: float) -> float:
    """By hand: in steps of a tenth of a second."""
    return sum(price.at(tenth / 10) for tenth in range(round(10 * from_s), round(10 * until_s))) / 36_000


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["homo", "homo_joint", "cauchy", "medley"])
def test_every_strategy_runs_in_the_same_world_and_a_seed_repeats_it(
    database: Database, tmp_path: Path, short_tmp: Path, strategy: str
) -> None:
    asked = replace(scenario(tmp_path), strategy=strategy)
    (one, first), (_, again) = (ran(asked, database, short_tmp) for _ in range(2))
    assert one.log.plans
    assert not any(plan.unmet for plan in one.log.plans)
    assert first.nodes() == again.nodes()
    assert first.instances() == again.instances()
    assert first.events() == again.events()


@pytest.mark.slow
def test_plans_depend_on_no_order_that_a_process_hashes_by(tmp_path: Path, short_tmp: Path) -> None:
    scenario(tmp_path)
    told = []
    for seed in ("1", "2"):
        folder = short_tmp / seed
        folder.mkdir()
        asked = [sys.executable, "-c", IN_A_PROCESS, str(tmp_path / "scenario.yaml"), str(folder)]
        done = subprocess.run(
            asked, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        told.append(done.stdout.splitlines())
    assert told[0] == told[1]
    assert len(told[0]) > 10


@pytest.mark.slow
def test_a_plan_that_is_fixed_is_held_to_whatever_comes(database: Database, tmp_path: Path, short_tmp: Path) -> None:
    asked = scenario(tmp_path)
    plenty = tuple(replace(log, nodes=StepLog((0.0,), (inf,))) for log in asked.market.offers)
    session = PlanningSession(PostgresLibraries(database), PostgresPlans(database), lambda *_: None, lambda: 0.0)
    demand = tuple(replace(each, requests_per_s=9.0) for each in asked.world.demand)
    recording, templates = session.record(replace(asked.world, demand=demand), asked.start.isoformat())
    plan = session.plan(recording, templates, baselines=False).plan
    asked = replace(asked, strategy="fixed", fixed=plan, market=replace(asked.market, offers=plenty))
    run, history = ran(asked, database, short_tmp)
    assert {made.plan_id for made in run.log.plans} == {plan.id}
    there = Counter((i.zone, i.market, i.template) for i in history.instances())
    assert there == Counter({(i.zone, i.market.value, i.template_id): i.count for i in plan.instances})
    assert all(life.ready_s == 0 and life.gone_s == inf for life in history.timeline().instances)

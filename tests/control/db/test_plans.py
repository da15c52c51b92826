"""Plans come back as they were, with their snapshots."""

from dataclasses import replace

import pytest

from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.plans import PostgresPlans
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import Placement
from templates_lib.values.plan import Flow, Plan, PlannedInstance, Reason
from templates_lib.values.settings import Guardrails, Replicas, Settings
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from templates_lib.values.traffic import TrafficPrice
from templates_lib.values.work import Demand, Edge, Leg, Route

OFFER = Offer(
    "aws", "us-east-1", "us-east-1a", "g6.xlarge", "L4:1/n10", Market.SPOT, 0.3, None, "2026-11-01T10:00:00+00:00",
    0.001, "aws",
)  # fmt: skip
SNAPSHOT = Snapshot(
    version="s-1",
    now="2026-11-01T12:00:00Z",
    offers=(OFFER,),
    # Neither sorted nor in the order of length: the order of keys is part of what a replay sees.
    pools=(SupplyPool("quota", 8.5, "vcpu", {"zz": 4.0, "a": 0.1 + 0.2, "mmm": 1e-300}),),
    traffic=(TrafficPrice("aws/us-east-1a", "aws/us-east-1b", 0.02),),
    instances=(),
    routes=(Route("r", "m", "chat", (Leg("m/prefill", 914.0), Leg("m/decode", 155.0)), (Edge(0, 1, 1e9),)),),
    demand=(Demand("m", "chat", 25.0),),
    settings=Settings(guardrails=Guardrails(replicas={"m/decode": Replicas(2)})),
    library_version="l-1",
    cost_model_fingerprint="c-1",
)
PLAN = Plan(
    id="p-1",
    snapshot_version="s-1",
    library_version="l-1",
    policy="medley",
    instances=(
        PlannedInstance(
            "t", "m", "decode", "aws/us-east-1a", Market.SPOT, 3, 1, {"L4:1/n10": 2}, {"m/decode": 1 / 3}, 1.8,
            Placement("pipeline", 1, {"stages": [{"layers": 32, "nodes": []}]}),
        ),
    ),
    offers=(),
    flows=(Flow("r", ("aws/us-east-1a", "aws/us-east-1a"), 25.0, 0.0),),
    usd_per_hour=1.8,
    rent_usd_per_hour=1.8,
    traffic_usd_per_hour=0.0,
    init_usd=0.06,
    spot_risk_usd_per_hour=0.0,
    unmet={"m/chat": 0.5},
    objective=1.86,
    bound=1.85,
    gap=0.0053,
    solve_s=0.7,
    status="partial",
    duals={"pool:quota": -0.25},
    reasons=(Reason("supply", "only 3 of 4 to be had", "quota"),),
)  # fmt: skip


def test_a_plan_comes_back_with_its_snapshot(database: Database) -> None:
    plans = PostgresPlans(database)
    plans.save("fleet", PLAN, SNAPSHOT)
    plans.save("fleet", replace(PLAN, id="p-2", policy="homo"), SNAPSHOT)
    assert plans.load("p-1") == PLAN
    loaded = plans.snapshot("s-1")
    assert loaded == SNAPSHOT
    assert list(loaded.pools[0].members) == ["zz", "a", "mmm"]


def test_a_plan_that_is_stored_stays_as_it_was(database: Database) -> None:
    plans = PostgresPlans(database)
    plans.save("fleet", PLAN, SNAPSHOT)
    plans.save("fleet", replace(PLAN, solve_s=9.0), SNAPSHOT)
    assert plans.load("p-1").solve_s == PLAN.solve_s


def test_a_plan_that_could_not_be_read_back_is_refused_whole(database: Database) -> None:
    plans = PostgresPlans(database)
    with pytest.raises(ValueError, match=r"'p-1' cannot be stored.*not finite.*gap"):
        plans.save("fleet", replace(PLAN, gap=float("inf")), SNAPSHOT)
    with pytest.raises(ValueError, match="'s-1' cannot be stored"):
        plans.save("fleet", PLAN, replace(SNAPSHOT, demand=(Demand("m", "chat", float("nan")),)))
    with pytest.raises(ValueError, match="solved on snapshot 's-1', not on 's-2'"):
        plans.save("fleet", PLAN, replace(SNAPSHOT, version="s-2"))
    with pytest.raises(NotStoredError):
        plans.snapshot("s-1")


def test_what_is_not_stored_names_the_nearest(database: Database) -> None:
    plans = PostgresPlans(database)
    plans.save("fleet", PLAN, SNAPSHOT)
    with pytest.raises(NotStoredError, match="plan 'p-9' is not stored; the nearest is 'p-1'"):
        plans.load("p-9")
    with pytest.raises(NotStoredError, match="snapshot 's-9' is not stored; the nearest is 's-1'"):
        plans.snapshot("s-9")


def test_plans_are_listed_newest_first_and_found_by_how_their_id_begins(database: Database) -> None:
    plans = PostgresPlans(database)
    assert plans.newest(5) == ()
    for name in ("abc", "abd", "b"):
        plans.save(f"fleet-{name}", replace(PLAN, id=name), SNAPSHOT)
    assert [(p.id, p.name, p.unmet) for p in plans.newest(2)] == [
        ("b", "fleet-b", {"m/chat": 0.5}), ("abd", "fleet-abd", {"m/chat": 0.5}),
    ]  # fmt: skip
    assert plans.find("abd").id == "abd"
    assert plans.find("b").usd_per_hour == 1.8
    with pytest.raises(NotStoredError, match="several plans begin with 'ab', such as 'ab"):
        plans.find("ab")
    with pytest.raises(NotStoredError, match="plan '%' is not stored; 3 others are"):
        plans.find("%")

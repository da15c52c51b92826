"""Plans with their snapshots, and offers with their history, come back as they were."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from control.db.database import Database
from control.db.errors import NotStoredError
from control.db.offers import PostgresOffers
from control.db.plans import PostgresPlans
from templates_lib.offer import Market, Offer
from templates_lib.placement import Placement
from templates_lib.plan import Flow, Plan, PlannedInstance, Reason
from templates_lib.settings import Guardrails, Replicas, Settings
from templates_lib.snapshot import Snapshot
from templates_lib.supply import SupplyPool
from templates_lib.traffic import TrafficPrice
from templates_lib.work import Demand, Edge, Leg, Route

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
    plans.save(PLAN, SNAPSHOT)
    plans.save(replace(PLAN, id="p-2", policy="homo"), SNAPSHOT)
    assert plans.load("p-1") == PLAN
    loaded = plans.snapshot("s-1")
    assert loaded == SNAPSHOT
    assert list(loaded.pools[0].members) == ["zz", "a", "mmm"]


def test_a_plan_that_is_stored_stays_as_it_was(database: Database) -> None:
    plans = PostgresPlans(database)
    plans.save(PLAN, SNAPSHOT)
    plans.save(replace(PLAN, solve_s=9.0), SNAPSHOT)
    assert plans.load("p-1").solve_s == PLAN.solve_s


def test_a_plan_that_could_not_be_read_back_is_refused_whole(database: Database) -> None:
    plans = PostgresPlans(database)
    with pytest.raises(ValueError, match=r"'p-1' cannot be stored.*not finite.*gap"):
        plans.save(replace(PLAN, gap=float("inf")), SNAPSHOT)
    with pytest.raises(ValueError, match="'s-1' cannot be stored"):
        plans.save(PLAN, replace(SNAPSHOT, demand=(Demand("m", "chat", float("nan")),)))
    with pytest.raises(ValueError, match="solved on snapshot 's-1', not on 's-2'"):
        plans.save(PLAN, replace(SNAPSHOT, version="s-2"))
    with pytest.raises(NotStoredError):
        plans.snapshot("s-1")


def test_what_is_not_stored_names_the_nearest(database: Database) -> None:
    plans = PostgresPlans(database)
    plans.save(PLAN, SNAPSHOT)
    with pytest.raises(NotStoredError, match="plan 'p-9' is not stored; the nearest is 'p-1'"):
        plans.load("p-9")
    with pytest.raises(NotStoredError, match="snapshot 's-9' is not stored; the nearest is 's-1'"):
        plans.snapshot("s-9")


def history(database: Database) -> list[tuple[str, float]]:
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT source, usd_per_hour FROM offer_history ORDER BY observed_at, source"))
        return [(row.source, row.usd_per_hour) for row in rows]


def later(hours: int, **changes: object) -> Offer:
    return replace(OFFER, observed_at=f"2026-11-01T{10 + hours}:00:00+00:00", **changes)


def test_the_latest_quote_counts_and_changes_are_kept(database: Database) -> None:
    offers = PostgresOffers(database)
    offers.record([OFFER, replace(OFFER, zone="us-east-1b", market=Market.ON_DEMAND, available_count=0)])
    offers.record([later(1)])
    offers.record([later(3, usd_per_hour=0.5), later(2, usd_per_hour=0.4)])
    offers.record([later(2, usd_per_hour=0.7, source="catalogue")])
    offers.record([])
    on_demand, spot = sorted(offers.latest(), key=lambda o: o.market)
    assert (on_demand.zone, on_demand.available_count) == ("us-east-1b", 0)
    assert spot == later(3, usd_per_hour=0.5)
    assert history(database) == [("aws", 0.3), ("aws", 0.3), ("aws", 0.4), ("catalogue", 0.7), ("aws", 0.5)]


def test_a_quote_of_an_earlier_time_does_not_replace_a_later_one(database: Database) -> None:
    offers = PostgresOffers(database)
    offers.record([later(5, usd_per_hour=0.5)])
    offers.record([OFFER])
    assert offers.latest() == (later(5, usd_per_hour=0.5),)


def test_an_offer_without_a_time_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match=r"aws/us-east-1a/g6.xlarge/spot.*no time of observation"):
        PostgresOffers(database).record([replace(OFFER, observed_at="")])


def test_a_date_is_a_time(database: Database) -> None:
    PostgresOffers(database).record([replace(OFFER, observed_at="2026-11-01")])
    assert PostgresOffers(database).latest()[0].observed_at == "2026-11-01T00:00:00+00:00"

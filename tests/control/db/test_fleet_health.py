"""What rows say of how fleets fare."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert

from control.alerts.watch import AlertWatch
from control.db.alerts import PostgresAlerts
from control.db.database import Database
from control.db.fleet_health import FleetHealth
from control.db.fleets import PostgresFleets
from control.db.live_offers import CloudMarket, PostgresOffers
from control.db.plans import PostgresPlans
from control.db.tables import library
from control.market.answers import note
from policies.availability import CallOutcome
from templates_lib.values.offer import QuarantinedOffer
from tests.control.api.worlds import OFFER, kept_plan

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def held(database: Database) -> None:
    """Fleet chat, held to a plan for one L4."""
    fleets = PostgresFleets(database)
    fleets.create("chat", "{}", NOW)
    fleets.accept(fleets.target("chat"), kept_plan(database, "chat").id, "ada", "as looked at", NOW)


def built(database: Database, version: str, costs: str) -> None:
    made_of = {"parameters": {}, "configs": [], "classes": []}
    row = {"kind": "pipeline", "fingerprint": version, "version": version, "cost_model_fingerprint": costs} | made_of
    with database.transaction() as connection:
        connection.execute(insert(library).values(row))


def test_what_a_plan_rents_and_cannot_have_is_told_until_it_may_be_asked_for_again(database: Database) -> None:
    held(database)
    note(database, OFFER, CallOutcome.STOCK_OUT, "no capacity", NOW)
    note(database, replace(OFFER, zone="us-east-1b"), CallOutcome.STOCK_OUT, "no capacity", NOW)
    assert [each.stock_outs for each in FleetHealth(database).facts(NOW + timedelta(seconds=30))] == [(OFFER.key,)]
    assert [each.stock_outs for each in FleetHealth(database).facts(NOW + timedelta(hours=1))] == [()]


def test_a_plan_of_older_step_times_is_told_once_a_newer_one_is_made(database: Database) -> None:
    held(database)
    built(database, "library-1", "costs-1")
    assert [each.has_old_profile for each in FleetHealth(database).facts(NOW)] == [False]
    built(database, "library-2", "costs-2")
    plans = PostgresPlans(database)
    first = plans.load("plan-chat-1")
    snapshot = replace(plans.snapshot(first.snapshot_version), version="newer", library_version="library-2")
    newer = replace(first, id="newer", snapshot_version="newer", library_version="library-2")
    plans.save("chat", newer, replace(snapshot, cost_model_fingerprint="costs-2"))
    assert [each.has_old_profile for each in FleetHealth(database).facts(NOW)] == [True]


def test_quarantined_prices_become_an_alert_of_their_cloud(database: Database) -> None:
    doubted = (QuarantinedOffer(replace(OFFER, usd_per_hour=0.0), "a price of 0 $/h cannot be right"),)
    PostgresOffers(database).answered(CloudMarket("aws", "a test", NOW, NOW, quarantined=doubted), partly=False)
    AlertWatch(database, lambda: NOW).step()
    (alert,) = PostgresAlerts(database).recent(9)
    assert (alert.kind, alert.subject) == ("offers.quarantined", "cloud aws")
    assert OFFER.key in alert.text

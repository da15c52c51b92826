"""Whoever looks is told which clouds are left out of plans, and why: their offers were not to be had."""

from control.cloud.errors import StockOutError, UnauthorisedError
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.live_offers import PostgresOffers
from control.market.answers import note_refusal
from control.market.cloud_status import CloudStatus, cloud_statuses
from tests.control.market.markets import NOON, offer


def test_missing_credentials_are_named_and_refusals_leave_no_cloud_out(database: Database) -> None:
    assert cloud_statuses(database) == []
    offers = PostgresOffers(database)
    offers.failed("gcp", "gcp-api", "no GCP credentials were found", "no GCP credentials were found", NOON)
    offers.failed("runpod", "runpod-api", "it answered 502", None, NOON)
    note_refusal(database, offer(), StockOutError("no L4"), NOON)
    note_refusal(database, offer(), UnauthorisedError("aws: the security token has expired"), NOON)
    gcp, runpod = cloud_statuses(database)
    assert gcp == CloudStatus("gcp", "no GCP credentials were found", "no GCP credentials were found")
    assert runpod == CloudStatus("runpod", "", "it answered 502")
    spec = "models: []\nclouds: [{cloud: local}, {cloud: gcp, regions: [us-central1]}]"
    PostgresFleets(database).create("chat", spec, NOON)
    assert [(each.cloud, each.fleets) for each in cloud_statuses(database)] == [("gcp", ("chat",)), ("runpod", ())]

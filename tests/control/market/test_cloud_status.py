"""Whoever looks is told which clouds are left out, and why: for offers that were not to be had, or for refusals."""

from control.cloud.errors import StockOutError, UnauthorisedError
from control.db.database import Database
from control.db.live_offers import PostgresOffers
from control.market.answers import note_refusal
from control.market.cloud_status import CloudStatus, cloud_statuses
from tests.control.market.markets import NOON, after, offer


def test_expired_credentials_are_named_wherever_they_were_found_out(database: Database) -> None:
    assert cloud_statuses(database, NOON) == []
    offers = PostgresOffers(database)
    offers.failed("gcp", "gcp-api", "no GCP credentials were found", "no GCP credentials were found", NOON)
    offers.failed("runpod", "runpod-api", "it answered 502", None, NOON)
    note_refusal(database, offer(), StockOutError("no L4"), NOON)
    note_refusal(database, offer(), UnauthorisedError("aws: the security token has expired"), NOON)
    aws, gcp, runpod = cloud_statuses(database, after(1))
    assert aws.cloud == "aws"
    assert aws.left_out == (
        "it refuses to rent (aws: the security token has expired), and is asked again after 2026-11-21T12:05:00+00:00"
    )
    assert gcp == CloudStatus("gcp", "no GCP credentials were found", "no GCP credentials were found")
    assert runpod == CloudStatus("runpod", "", "it answered 502")
    assert [each.cloud for each in cloud_statuses(database, after(301))] == ["gcp", "runpod"]

"""What is spent and leaked, on the API's /metrics."""

from datetime import timedelta

from fastapi.testclient import TestClient

from control.access.secret import new_secret
from control.db.database import Database
from control.db.intents import PostgresIntents
from control.lifecycle.event import EventKind
from tests.control.api.conftest import now
from tests.control.lifecycle.worlds import driven


def test_burn_and_leaks_are_on_metrics(client: TestClient, database: Database) -> None:
    assert 'medley_leaked_usd_total{cloud=""} 0.0' in client.get("/metrics").text
    instance, intents = driven(database, EventKind.PROVISION), PostgresIntents(database)
    intents.open_create(instance.id, 0, "aws/x", "aws", 2.5, new_secret(), now(), now())
    intents.leaked("nobody-knows", "aws", now() - timedelta(hours=1), None, now())
    said = client.get("/metrics").text
    burn = 'medley_cost_usd_per_hour{cloud="aws",fleet="f",market="on-demand",project="default"} 2.5'
    assert burn in said
    assert 'medley_leaked_nodes{cloud="aws"} 1.0' in said

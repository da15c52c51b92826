"""`/status` says what `medley status` says."""

from control.cloud.errors import UnauthorisedError
from control.db.database import Database
from control.market.answers import note_refusal
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OFFER


def test_a_cloud_that_is_left_out_is_named_with_the_reason(viewer: Api, database: Database) -> None:
    assert viewer.get("/status").json() == {"clouds": [], "fleets": []}
    note_refusal(database, OFFER, UnauthorisedError("aws: the key was revoked"), now())
    (aws,) = viewer.get("/status").json()["clouds"]
    assert (aws["cloud"], aws["failure"]) == ("aws", "")
    assert "the key was revoked" in aws["left_out"]

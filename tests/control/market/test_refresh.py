"""A round over clouds: what is stored, what is doubted, and what is said of those that fail."""

from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from control.db.database import Database
from control.db.live_offers import PostgresOffers
from control.market.refresh import Refreshed, refresh
from control.market.sources import askable_clouds, known_clouds, sources_of
from control.offers.live.source import LiveAnswer, NoAccessError, NoAnswerError, SourceError
from templates_lib.values.hardware import instance_type, node_configs
from templates_lib.values.offer import Market, Offer
from tests.control.market.markets import NOON, after, offer

SPOT = offer()
ON_DEMAND = offer(market=Market.ON_DEMAND, usd_per_hour=0.8048)
CONFIGS = node_configs([instance_type("aws", "g6.xlarge")])


@dataclass
class Source:
    """A cloud that answers what it is told to."""

    result: LiveAnswer | SourceError
    cloud: str = "aws"
    name: str = "aws-api"

    def fetch(self, now: datetime) -> LiveAnswer:  # noqa: ARG002 - as the port has it
        if isinstance(self.result, SourceError):
            raise self.result
        return self.result


def answer(*offers: Offer, partly: bool = False, notes: tuple[str, ...] = ()) -> LiveAnswer:
    return LiveAnswer(offers, CONFIGS, notes=notes, partly=partly)


def one(database: Database, result: LiveAnswer | SourceError, at_s: float = 0) -> Refreshed:
    (done,) = refresh(database, [Source(result)], after(at_s))
    return done


def stored(database: Database) -> dict[str, float]:
    return PostgresOffers(database).prices("aws")


def test_clouds_that_answer_are_stored_and_the_others_say_why(database: Database) -> None:
    sources = [
        Source(answer(SPOT, ON_DEMAND, notes=("a\x1b[0m note",))),
        Source(NoAccessError("the token has expired"), "gcp", "gcp-api"),
        Source(NoAnswerError("throttled"), "runpod", "runpod-api"),
    ]
    aws, gcp, runpod = refresh(database, sources, NOON)
    assert (aws.offers, aws.failure, aws.is_left_out) == (2, "", False)
    assert (gcp.failure, gcp.is_left_out) == ("the token has expired", True)
    assert (runpod.failure, runpod.is_left_out) == ("throttled", False)
    markets = PostgresOffers(database).markets()
    assert {cloud: (m.left_out, m.failure) for cloud, m in markets.items()} == {
        "aws": ("", ""),
        "gcp": ("the token has expired", "the token has expired"),
        "runpod": ("", "throttled"),
    }
    assert markets["aws"].notes == ("a [0m note",)


@pytest.mark.parametrize("usd_per_hour", [0.0, -1.0, float("nan"), 25.0, 0.01])
def test_an_impossible_price_is_quarantined_against_the_last_one(database: Database, usd_per_hour: float) -> None:
    one(database, answer(SPOT, ON_DEMAND))
    done = one(database, answer(replace(SPOT, usd_per_hour=usd_per_hour), ON_DEMAND), 60)
    assert [aside.offer.key for aside in done.quarantined] == [SPOT.key]
    assert stored(database) == {SPOT.key: 0.25, ON_DEMAND.key: 0.8048}
    healed = one(database, answer(replace(SPOT, usd_per_hour=0.3), ON_DEMAND), 120)
    assert healed.quarantined == ()
    assert stored(database)[SPOT.key] == 0.3


def test_a_first_price_is_doubted_by_the_shipped_list(database: Database) -> None:
    per_gpu = replace(ON_DEMAND, instance_type="g6.48xlarge", node_config="L4:8/n100", usd_per_hour=1.67)
    done = one(database, answer(per_gpu, ON_DEMAND))
    assert [aside.offer.key for aside in done.quarantined] == [per_gpu.key]
    assert "more than 3x off the last known $13.3504/h" in done.quarantined[0].reason


def test_a_market_that_vanishes_at_once_is_not_believed(database: Database) -> None:
    one(database, answer(SPOT))
    assert "sells nothing" in one(database, answer(), 60).failure
    assert stored(database) == {SPOT.key: 0.25}


def test_who_is_left_out_stays_so_until_there_is_an_answer(database: Database) -> None:
    one(database, NoAccessError("expired"))
    one(database, NoAnswerError("throttled"), 60)
    assert PostgresOffers(database).markets()["aws"].left_out == "expired"
    one(database, answer(SPOT), 120)
    assert PostgresOffers(database).markets()["aws"].left_out == ""


def test_every_cloud_has_a_source() -> None:
    named = {source.cloud: source.name for source in sources_of([*known_clouds(), "local"], {})}
    assert named == {
        "aws": "aws-api",
        "azure": "skypilot-catalogue",
        "gcp": "gcp-api",
        "lambda": "skypilot-catalogue",
        "runpod": "runpod-api",
    }
    assert askable_clouds({"HOME": "/nowhere"}) == ("aws", "gcp", "runpod")
    assert {source.name for source in sources_of(["aws"], {}, from_skypilot=True)} == {"skypilot-catalogue"}

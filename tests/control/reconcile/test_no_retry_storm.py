"""A cloud that has nothing to give is asked again less and less often, and everybody can see how often."""

from itertools import pairwise
from pathlib import Path

import pytest

from control.db.database import Database
from control.db.market_memory import PostgresMarketMemory
from policies.availability import LEAST_COOL_DOWN_S
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.lifecycle.worlds import START
from tests.control.reconcile.reconciled import Place, Plane, spec


@pytest.mark.slow
def test_an_offer_that_refuses_for_an_hour_is_asked_a_handful_of_times(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path, FakeCloud("local", {"cheap": 0, "dear": 6}))
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    assert place.types() == ["dear"]
    for _ in range(120):
        plane.tick(30)
    plane.run(1)  # for the last answer to be heard
    assert place.types() == ["dear"]
    asked = [call.at for call in place.cloud.calls if call.method == "create"]
    cheap, dear = PostgresMarketMemory(database).calls(START)
    assert "/cheap/" in cheap.offer
    assert (cheap.calls + dear.calls, cheap.granted, dear.granted) == (len(asked), 0, dear.calls)
    assert 2 <= cheap.calls <= 15
    assert (cheap.most_in_a_minute, dear.calls) == (1, 1)
    refused = asked[:1] + asked[2:]  # the second was given
    assert all((later - earlier).total_seconds() >= LEAST_COOL_DOWN_S for earlier, later in pairwise(refused))

"""All clouds asked at once: one that fails, or hangs, costs nobody else anything."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from control.offers.live.fetch import fetch_all
from control.offers.live.source import LiveAnswer, NoAccessError, NoAnswerError
from tests.control.market.markets import NOON, offer

GOOD = LiveAnswer((offer(),), {})


@dataclass(frozen=True)
class Source:
    cloud: str
    do: Callable[[], LiveAnswer]
    name: str = "test"

    def fetch(self, now: datetime) -> LiveAnswer:
        assert now == NOON
        return self.do()


def refused() -> LiveAnswer:
    raise NoAccessError("expired")


def broken() -> LiveAnswer:
    raise ZeroDivisionError("of a vendor's library")


def test_each_cloud_has_an_answer_or_a_reason() -> None:
    found = fetch_all([Source("a", lambda: GOOD), Source("b", refused), Source("c", broken)], NOON, 240.0)
    assert [(f.cloud, type(f.result)) for f in found] == [("a", LiveAnswer), ("b", NoAccessError), ("c", NoAnswerError)]
    assert str(found[2].result) == "unexpected ZeroDivisionError: of a vendor's library"


def test_they_are_asked_side_by_side() -> None:
    """Each waits for the others to have begun."""
    together = threading.Barrier(3, timeout=120)

    def meet() -> LiveAnswer:
        together.wait()
        return GOOD

    found = fetch_all([Source(name, meet) for name in "abc"], NOON, 240.0)
    assert [f.result for f in found] == [GOOD] * 3


def test_one_that_hangs_is_not_waited_for() -> None:
    release = threading.Event()

    def hang() -> LiveAnswer:
        release.wait(240)
        return GOOD

    found = fetch_all([Source("a", hang), Source("b", lambda: GOOD)], NOON, 3.0)
    release.set()
    assert str(found[0].result) == "no answer within 3 s"
    assert found[1].result == GOOD

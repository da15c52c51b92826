"""What answers tell of how many nodes could be held."""

from datetime import UTC, datetime, timedelta
from math import inf

from control.db.past import PastCall, PastNode
from control.simulator.replay.shortage import as_asked, nodes_log, shortages
from control.simulator.step_log import StepLog
from policies.availability import COOL_DOWNS, CallOutcome
from templates_lib.values.offer import Market
from tests import factories as make

START = datetime(2026, 11, 21, tzinfo=UTC)
OFFER = make.offer("L4:1/n10", "aws/use1-az1", 0.2, None, market=Market.SPOT, instance_type="g6.xlarge")
ALWAYS = StepLog((0.0,), (inf,))
COOL_DOWN_S = COOL_DOWNS[CallOutcome.STOCK_OUT].first_s


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def call(seconds: float, outcome: CallOutcome) -> PastCall:
    return PastCall(OFFER.key, at(seconds), outcome, "")


def log(*calls: PastCall, held: int = 2) -> StepLog:
    short: dict[str, list[object]] = {}
    for each in shortages(calls, {OFFER.key: OFFER}):
        short.setdefault(each.subject, []).append(each)
    return nodes_log(OFFER, short, lambda _: held, lambda t: (t - START).total_seconds(), ALWAYS)  # type: ignore[arg-type]


def test_a_refusal_bounds_what_can_be_held_until_its_cool_down_has_passed() -> None:
    found = log(call(100, CallOutcome.STOCK_OUT))
    assert [found.at(t) for t in (99, 100, 100 + COOL_DOWN_S - 1, 100 + COOL_DOWN_S)] == [inf, 2, 2, inf]


def test_a_node_that_is_granted_ends_it_and_the_next_refusal_lasts_for_longer() -> None:
    found = log(call(100, CallOutcome.STOCK_OUT), call(120, CallOutcome.GRANTED))
    assert [found.at(t) for t in (110, 120)] == [2, inf]
    again = log(call(100, CallOutcome.STOCK_OUT), call(300, CallOutcome.STOCK_OUT))
    assert [again.at(t) for t in (299, 300, 300 + 2 * COOL_DOWN_S - 1, 300 + 2 * COOL_DOWN_S)] == [inf, 2, 2, inf]


def test_a_quota_bounds_every_offer_of_its_family_and_a_lost_reply_none() -> None:
    found = log(call(100, CallOutcome.QUOTA), held=1)
    assert found.at(101) == 1
    assert log(call(100, CallOutcome.UNKNOWN)).at(101) == inf


def test_answers_count_from_when_they_were_asked_for_and_what_was_granted_beside_a_refusal_first() -> None:
    def node(place: int, *, given: bool) -> PastNode:
        gone = None if given else at(100)
        made = at(101) if given else None
        return PastNode(f"n{place}", "i", "chat", place, OFFER.key, "", at(100), made, gone, "", given, ())

    calls = (call(101, CallOutcome.STOCK_OUT), call(101, CallOutcome.GRANTED))
    moved = as_asked(calls, [node(0, given=True), node(1, given=False)])
    assert [(each.at, each.outcome) for each in moved] == [
        (at(100), CallOutcome.GRANTED),
        (at(100), CallOutcome.STOCK_OUT),
    ]
    assert log(*moved).at(100) == 2

"""How a span went is added up from what lived in it."""

import numpy as np
import pytest

from control.simulator.replay.course import Demand, Held, Life, Moves, build_course
from templates_lib.values.work import Leg, Route

EDGES = np.array([0.0, 3600.0, 5400.0])
ROUTE = Route("r", "chat", "chat", (Leg("chat/prefill", 100.0), Leg("chat/decode", 10.0)))
NOTHING = Moves((), (), (), ())


def lives(*rows: tuple[str, str, float, float, float]) -> list[Life]:
    return [Life(zone, {f"chat/{phase}": units}, ready, until) for zone, phase, units, ready, until in rows]


def unmet(found: list[Life], rate: float = 2.0, *, anywhere: bool = False) -> list[float]:
    demand = Demand({"chat": np.full(90, rate)})
    made = build_course(EDGES, [], [], demand, [ROUTE], found, NOTHING, anywhere=anywhere)
    assert made.offered.tolist() == pytest.approx([3600 * rate, 1800 * rate])
    return made.unmet.tolist()


def test_a_route_serves_what_its_scarcest_leg_does_in_the_same_zone() -> None:
    both = lives(("a", "prefill", 200.0, 0.0, 5400.0), ("a", "decode", 10.0, 0.0, 5400.0))
    assert unmet(both) == pytest.approx([3600.0, 1800.0])
    apart = lives(("a", "prefill", 200.0, 0.0, 5400.0), ("b", "decode", 20.0, 0.0, 5400.0))
    assert unmet(apart) == pytest.approx([7200.0, 3600.0])
    assert unmet(apart, anywhere=True) == pytest.approx([0.0, 0.0])


def test_what_is_not_ready_serves_nothing() -> None:
    late = lives(("a", "prefill", 200.0, 1800.0, 3600.0), ("a", "decode", 20.0, 1200.0, 5400.0))
    assert unmet(late) == pytest.approx([3600.0, 3600.0])


def test_money_is_the_integral_of_price_over_time_and_what_has_no_price_is_said() -> None:
    held = [Held("x", -100.0, 1800.0, 2.0), Held("x", 1800.0, 7200.0, 4.0), Held("y", 0.0, 1800.0, None)]
    none = Demand({"chat": np.zeros(90)})
    plans = [(600.0, 5.0), (4500.0, 7.0)]
    found = build_course(EDGES, held, plans, none, [ROUTE], [], Moves((10.0, 4000.0), (20.0,), (), ()), anywhere=False)
    assert found.usd.tolist() == pytest.approx([3.0, 2.0])
    assert found.unpriced_node_hours == pytest.approx(0.5)
    assert found.planned_usd_per_hour.tolist() == pytest.approx([5.0, 6.0])
    assert found.nodes["x"].tolist() == pytest.approx([1.0, 1.0])
    assert (found.launched.tolist(), found.moved.tolist()) == ([1.0, 1.0], [1.0, 0.0])
    assert found.unmet_share == 0.0

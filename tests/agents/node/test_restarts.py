from hypothesis import given
from hypothesis import strategies as st

from agents.node.instance_work import MOST, Restarts


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_restarts_wait_longer_each_time_and_are_bounded_in_any_window(pauses: list[float]) -> None:
    restarts, now_s = Restarts(), 0.0
    deaths: list[float] = []
    for pause in pauses:
        now_s += pause
        deaths = [at for at in deaths if now_s - at <= 300.0] + [now_s]
        assert restarts.died(now_s) is (len(deaths) <= MOST)
        assert restarts.due_s >= now_s + 0.5 * len(deaths)


def test_what_dies_seldom_is_always_started_again() -> None:
    restarts = Restarts()
    assert all(restarts.died(at * 1000.0) and restarts.due_s == at * 1000.0 + 0.5 for at in range(100))

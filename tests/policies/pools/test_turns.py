import heapq

from hypothesis import given
from hypothesis import strategies as st

from policies.pools.turns import Waiting, by_slack, first_come

REQUESTS = st.lists(
    st.builds(
        lambda asked, late, work, due: Waiting(asked, asked + late, work, due),
        st.floats(0, 30), st.floats(0, 5), st.floats(0.01, 5), st.floats(0, 20),
    ),
    min_size=1, max_size=40,
)  # fmt: skip


def served(requests: list[Waiting]) -> list[tuple[float, Waiting]]:
    """(when each begins, request) at one server that takes the least turn of those that have come."""
    coming = sorted(requests, key=lambda each: each.came_s)
    queue: list[tuple[float, int, Waiting]] = []
    now_s, begun, number = 0.0, [], 0
    while coming or queue:
        if not queue:
            now_s = max(now_s, coming[0].came_s)
        while coming and coming[0].came_s <= now_s:
            heapq.heappush(queue, (by_slack(coming[0]), number, coming.pop(0)))
            number += 1
        _, _, request = heapq.heappop(queue)
        begun.append((now_s, request))
        now_s += request.work_s
    return begun


@given(REQUESTS)
def test_nobody_waits_beyond_the_aged_bound(requests: list[Waiting]) -> None:
    """From its turn on a request is passed by none that was asked for later, so it begins when what was asked for
    before its turn is done: a backlog that does not grow by what follows."""
    for begins_s, request in served(requests):
        turn_s = by_slack(request)
        before = sum(each.work_s for each in requests if each is not request and each.asked_s <= turn_s)
        under_way = max((each.work_s for each in requests if each is not request), default=0.0)
        latest = max((each.came_s for each in requests if each.asked_s <= turn_s), default=0.0)
        assert begins_s <= max(request.came_s, latest) + before + under_way + 1e-6


@given(st.floats(0, 100), st.floats(0.01, 5), st.floats(0.01, 5), st.floats(0, 60))
def test_the_shorter_of_two_goes_first(asked_s: float, work_s: float, more_s: float, due_s: float) -> None:
    short = Waiting(asked_s, asked_s, work_s, work_s + more_s + due_s)
    long = Waiting(asked_s, asked_s, work_s + more_s, 8 * (work_s + more_s) + due_s + 60)
    assert by_slack(short) <= by_slack(long)


@given(st.floats(0, 100), st.floats(0.01, 5), st.floats(0, 60))
def test_a_turn_is_never_before_asking_nor_too_late_to_be_in_time(asked_s: float, work_s: float, due_s: float) -> None:
    turn_s = by_slack(Waiting(asked_s, asked_s, work_s, due_s))
    assert asked_s <= turn_s <= asked_s + 4 * work_s + 1e-9
    assert due_s < work_s or turn_s + work_s <= asked_s + due_s + 1e-9


@given(st.floats(0, 100), st.floats(0.01, 5), st.floats(0.01, 20))
def test_who_cannot_be_in_time_goes_before_nobody_who_can(asked_s: float, work_s: float, late_s: float) -> None:
    lost = Waiting(asked_s, asked_s, work_s + late_s, work_s)
    assert by_slack(Waiting(asked_s, asked_s, work_s, work_s + late_s)) <= by_slack(lost)


def test_what_waited_for_its_pictures_has_waited() -> None:
    pictures = Waiting(0.0, 3.0, 0.2, 5.0)
    text = Waiting(2.5, 2.5, 0.2, 5.0)
    assert by_slack(pictures) < by_slack(text)
    assert first_come(text) < first_come(pictures)

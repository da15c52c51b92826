"""Places of an instance among gateways: nobody is given what another has, and nobody waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from policies.places import ASK_S, GRANT_S, Places

EVENTS = st.lists(
    st.tuples(st.sampled_from(["ask", "use", "leave", "give", "wait"]), st.integers(0, 3), st.integers(0, 6)),
    max_size=60,
)


@given(EVENTS, st.integers(0, 8))
def test_what_is_given_out_is_there(events: list[tuple[str, int, int]], most: int) -> None:
    """Gateways send what they were told, no more; the instance finishes at any time."""
    places, now_s, busy = Places[int](), 0.0, 0
    told = dict.fromkeys(range(4), 0)
    for gateway in told:
        places.join(gateway)
    for what, gateway, number in events:
        if what == "ask":
            places.ask(gateway, number / 2, number, now_s)
        elif what == "use" and told[gateway] > 0:
            places.use(gateway)
            told[gateway] -= 1
            busy += 1
        elif what == "leave":
            places.leave(gateway)
            places.join(gateway)  # with another connection
            told[gateway] = 0
        elif what == "wait":
            now_s += number / 10
            busy = max(0, busy - number)
        for each in places.give_out(most - busy, now_s):
            told[each] = places.of(each)
        assert sum(told.values()) + busy <= most


@given(st.lists(st.tuples(st.floats(-10, 10), st.integers(1, 5)), min_size=2, max_size=5), st.integers(1, 12))
def test_the_least_slack_comes_first_and_one_each_before_a_second(asked: list[tuple[float, int]], free: int) -> None:
    places = Places[int]()
    for gateway, (slack_s, calls) in enumerate(asked):
        places.join(gateway)
        places.ask(gateway, slack_s, calls, 0.0)
    places.give_out(free, 0.0)
    got = [places.of(gateway) for gateway in range(len(asked))]
    assert sum(got) == free
    for one, (slack_s, calls) in enumerate(asked):
        for other, (other_s, _) in enumerate(asked):
            if slack_s < other_s and got[other] > 0:
                assert got[one] > 0
            if got[one] < calls:
                assert got[other] <= got[one] + 1


def test_a_gateway_alone_has_all_of_them_without_asking() -> None:
    places = Places[str]()
    places.join("a")
    assert places.give_out(7, 0.0) == ("a",)
    assert places.of("a") == 7
    places.use("a")
    assert not places.are_shared("a")
    places.give_out(6, 0.0)
    assert places.of("a") == 6
    places.join("b")
    places.give_out(6, GRANT_S)
    assert (places.of("a"), places.of("b"), places.are_shared("a")) == (3, 3, True)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_whoever_asks_gets_places_though_another_asks_for_all_and_uses_none(order: list[int]) -> None:
    places = Places[str]()
    places.join("greedy")
    places.join("modest")
    places.ask("greedy", -1e6, 4096, 0.0)
    places.give_out(3, 0.0)
    now_s, got = 0.0, 0
    for _ in order:
        now_s += GRANT_S
        places.ask("greedy", -1e6, 4096, now_s)
        places.ask("modest", 5.0, 1, now_s)
        places.give_out(3, now_s)
        got += places.of("modest")
    assert got == len(order)


def test_asking_ends_after_a_while() -> None:
    places = Places[str]()
    places.join("gone")
    places.join("here")
    places.ask("gone", 0.0, 9, 0.0)
    places.ask("here", 9.0, 9, ASK_S)
    places.give_out(4, ASK_S)
    assert (places.of("gone"), places.of("here")) == (0, 4)

"""Offered load by interval: everything once, whenever it becomes known, and within bounds while nobody listens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork, ServedKey
from control.gateway import meter as meter_module
from control.gateway.meter import Meter
from policies.metered_work import metered_classes, text_classes
from policies.routing_table import RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit

KIND = ("fleet", "m", "p")


class Clock:
    def __init__(self, now_s: float = 600.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def line(report: Offered, app: str = "m") -> OfferedLine:
    (found,) = [each for each in report.lines if each.app == app]
    return found


def test_a_request_counts_when_it_comes_and_its_answer_counts_there_too(clock: Clock):
    meter = Meter("life", 60, 10, clock)
    offer = meter.offer(KIND, 100, 50.0)
    assert meter.due(10) == []
    clock.now_s = 665.0
    (first,) = meter.due(10)
    assert (first.started_s, first.seconds, first.revision) == (600, 60, 1)
    assert (line(first).requests, line(first).prompt_tokens, line(first).output_tokens) == (1, 100, 50)
    assert line(first).served_requests == 0
    meter.stored(600, 1)
    meter.settle(offer, 7, is_whole=True, is_length_known=True)
    (second,) = meter.due(10)
    assert (second.started_s, second.revision) == (600, 2)
    assert line(second).output_tokens == 7
    assert (line(second).served_requests, line(second).served_prompt_tokens, line(second).served_output_tokens) == (
        1,
        100,
        7,
    )
    meter.stored(600, 2)
    assert meter.due(10) == []


def test_what_is_refused_is_offered_all_the_same_and_once(clock: Clock):
    meter = Meter("life", 60, 10, clock)
    meter.refuse(meter.offer(KIND, 100, 50.0))
    again = meter.offer(KIND, 100, 50.0, is_new=False)
    meter.settle(again, 20, is_whole=True, is_length_known=True)
    clock.now_s = 660.0
    (report,) = meter.due(10)
    one = line(report)
    assert (one.requests, one.refused, one.prompt_tokens, one.output_tokens) == (1, 1, 100, 50)
    assert (one.served_requests, one.served_prompt_tokens, one.served_output_tokens) == (1, 100, 20)


def test_an_answer_that_broke_off_keeps_the_length_that_was_expected(clock: Clock):
    meter = Meter("life", 60, 10, clock)
    meter.settle(meter.offer(KIND, 10, 50.0), 3, is_whole=False, is_length_known=False)
    clock.now_s = 660.0
    (report,) = meter.due(10)
    assert (line(report).output_tokens, line(report).served_requests, line(report).served_output_tokens) == (50, 0, 3)


def test_a_model_that_nobody_asked_says_so_and_one_that_is_not_served_says_nothing(clock: Clock):
    meter = Meter("life", 60, 10, clock)
    meter.serve({("fleet", "m"): (), ("fleet", "n"): text_classes("n")})
    meter.refuse(meter.offer(KIND, 1, 1.0))
    clock.now_s = 660.0
    (report,) = meter.due(10)
    nothing = tuple(OfferedWork(each.work_class, each.unit, 0, 0, 0) for each in text_classes("n"))
    assert line(report, "n") == OfferedLine("fleet", "n", "chat", "", 0, 0, 0, 0, 0, 0, 0, nothing)
    assert len(report.lines) == 2


def test_what_came_is_counted_in_the_unit_of_every_work_class(clock: Clock):
    see, draw = RoutedLeg("m/see", Unit.IMAGE_TOKEN, 576.0), RoutedLeg("m/draw", Unit.INVOCATION, 2.0)
    whole = RoutedRoute("whole", (RoutedLeg("m/aggregated", Unit.INVOCATION, 1.0),))
    chain = RoutedRoute(
        "chain",
        (see, RoutedLeg("m/prefill", Unit.PROMPT_TOKEN, 1.0), RoutedLeg("m/decode", Unit.OUTPUT_TOKEN, 1.0), draw),
        (Edge(0, 1, 0.0), Edge(1, 2, 0.0), Edge(2, 3, 0.0)),
    )
    meter = Meter("life", 60, 10, clock)
    meter.serve({("fleet", "m"): metered_classes(RoutedModel("m", (whole, chain)))})
    meter.refuse(meter.offer(KIND, 100, 50.0))
    meter.settle(meter.offer(KIND, 30, 40.0), 20, is_whole=True, is_length_known=True)
    clock.now_s = 660.0
    (report,) = meter.due(10)
    assert {(w.work_class, w.unit): (w.offered, w.refused, w.served) for w in line(report).work} == {
        ("m/see", Unit.IMAGE_TOKEN): (1152, 576, 576),
        ("m/prefill", Unit.PROMPT_TOKEN): (130, 100, 30),
        ("m/decode", Unit.OUTPUT_TOKEN): (70, 50, 20),
        ("m/draw", Unit.INVOCATION): (4, 2, 2),
    }


def test_what_is_served_is_counted_by_key_too_and_what_is_refused_is_not(clock: Clock):
    meter = Meter("life", 60, 10, clock)
    meter.serve({("fleet", "m"): text_classes("m")})
    first, second = (meter.offer(KIND, 100, 50.0, key=key) for key in ("a", "b"))
    meter.refuse(meter.offer(KIND, 30, 50.0, key="c"))
    nobody = meter.offer(KIND, 5, 50.0)
    meter.settle(first, 7, is_whole=True, is_length_known=True)
    meter.settle(nobody, 1, is_whole=True, is_length_known=True)
    clock.now_s = 660.0
    (report,) = meter.due(10)
    assert line(report).keys == (ServedKey("a", 1, (100, 7)),)
    meter.settle(second, 3, is_whole=False, is_length_known=False)  # it broke off
    (report,) = meter.due(10)
    assert line(report).keys == (ServedKey("a", 1, (100, 7)), ServedKey("b", 0, (100, 3)))
    assert [work.served for work in line(report).work] == [205, 11]


def test_keys_beyond_the_most_are_counted_with_their_project(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meter_module, "MAX_KEYS", 2)
    meter = Meter("life", 60, 10, clock)
    meter.serve({("fleet", "m"): text_classes("m")})
    for key in "abcab":
        meter.settle(meter.offer(KIND, 10, 1.0, key=key), 1, is_whole=True, is_length_known=True)
    clock.now_s = 660.0
    (report,) = meter.due(10)
    assert line(report).keys == (ServedKey("a", 2, (20, 2)), ServedKey("b", 2, (20, 2)))
    assert line(report).served_requests == 5


def test_keys_of_all_intervals_that_are_not_stored_are_bounded_too(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meter_module, "_MOST_KEYS_KEPT", 3)
    meter = Meter("life", 60, 2, clock)
    meter.serve({("fleet", "m"): text_classes("m")})

    def used(*keys: str) -> None:
        for key in keys:
            meter.settle(meter.offer(KIND, 10, 1.0, key=key), 1, is_whole=True, is_length_known=True)

    def told() -> dict[int, list[str]]:
        return {each.started_s: [served.key for served in line(each).keys] for each in meter.due(10)}

    used("a", "b")
    clock.now_s = 660.0
    used("c", "d")
    clock.now_s = 720.0  # of three intervals only two are kept
    used("e", "f")
    clock.now_s = 780.0
    used("g")
    reports = told()
    assert reports == {720: ["e", "f"]}
    meter.stored(720, 1)
    used("h", "i", "j")
    clock.now_s = 840.0
    assert told() == {780: ["g", "h", "i"]}


def test_pictures_count_by_their_rows_and_not_by_their_requests(clock: Clock):
    see, write = RoutedLeg("m/see", Unit.IMAGE_TOKEN, 576.0), RoutedLeg("m/write", Unit.OUTPUT_TOKEN, 1.0)
    route = RoutedRoute("chain", (see, write), (Edge(0, 1, 0.0),))
    meter = Meter("life", 60, 10, clock)
    meter.serve({("fleet", "m"): metered_classes(RoutedModel("m", (route,)))})
    meter.refuse(meter.offer(KIND, 10, 5.0, brought={Unit.IMAGE_TOKEN: 8 * 1024}))
    meter.settle(meter.offer(KIND, 10, 5.0, brought={Unit.IMAGE_TOKEN: 64}), 5, is_whole=True, is_length_known=True)
    meter.settle(meter.offer(KIND, 10, 5.0, brought={Unit.IMAGE_TOKEN: 1}), 0, is_whole=False, is_length_known=False)
    clock.now_s = 601.0
    (recent,) = meter.recent().lines
    assert (recent.requests, [each.units for each in recent.work]) == (3, [8 * 1024 + 65, 15])
    clock.now_s = 660.0
    assert meter.recent().lines == ()
    (report,) = meter.due(10)
    assert [(each.work_class, each.offered, each.refused, each.served) for each in line(report).work] == [
        ("m/see", 8 * 1024 + 65, 8 * 1024, 64),
        ("m/write", 15, 5, 5),
    ]


def test_an_interval_covers_what_was_watched_of_it(clock: Clock):
    clock.now_s = 640.0
    meter = Meter("life", 60, 10, clock)
    clock.now_s = 650.0
    (cut_short,) = meter.due(10, with_open=True)
    assert (cut_short.started_s, cut_short.seconds) == (600, 10)
    clock.now_s = 665.0
    meter.due(10)
    clock.now_s = 725.0
    first, second = meter.due(10)
    assert (first.seconds, second.seconds) == (20, 60)


def test_while_nobody_stores_them_the_oldest_intervals_are_given_up(clock: Clock):
    meter = Meter("life", 60, 3, clock)
    for n in range(6):
        clock.now_s = 600.0 + 60 * n
        meter.refuse(meter.offer(KIND, 1, 1.0))
    assert [report.started_s for report in meter.due(10)] == [780, 840]
    assert meter.dropped == 3


def test_the_length_of_answers_is_learned(clock: Clock):
    meter = Meter("life", 60, 3, clock)
    assert meter.expected_output("m", 256.0, 1000) == 256.0
    assert meter.expected_output("m", 256.0, 100) == 100.0
    for _ in range(300):
        meter.settle(meter.offer(KIND, 1, 256.0), 10, is_whole=True, is_length_known=True)
        meter.settle(meter.offer(KIND, 1, 0.0, has_answer=False), 0, is_whole=True, is_length_known=True)
    assert meter.expected_output("m", 256.0, 1000) == pytest.approx(10.0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["offer", "settle", "refuse", "tick", "lose", "store"]), st.integers(0, 90)),
        max_size=80,
    )
)
def test_whatever_is_lost_or_sent_again_the_newest_revisions_add_up_to_all_that_came(steps: list[tuple[str, int]]):
    clock = Clock()
    meter = Meter("life", 60, 1000, clock)
    opened, came, kept = [], 0, dict[int, Offered]()
    for what, number in steps:
        match what:
            case "offer":
                opened.append(meter.offer(KIND, number, 5.0))
                came += number
            case "settle" if opened:
                meter.settle(opened.pop(number % len(opened)), 3, is_whole=True, is_length_known=True)
            case "refuse" if opened:
                meter.refuse(opened.pop(number % len(opened)))
            case "tick":
                clock.now_s += number
            case "lose":
                meter.due(2)
            case "store":
                for report in meter.due(3):
                    kept[report.started_s] = max(report, kept.get(report.started_s, report), key=lambda r: r.revision)
                    meter.stored(report.started_s, report.revision)
    for offer in opened:
        meter.settle(offer, 3, is_whole=True, is_length_known=True)
    clock.now_s += 61
    for report in meter.due(1000):
        kept[report.started_s] = report
        meter.stored(report.started_s, report.revision)
    assert sum(line(report).prompt_tokens for report in kept.values() if report.lines) == came
    assert meter.unstored == 0

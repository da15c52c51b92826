"""What came in the last seconds, whatever the times at which it came and is asked for; no more than that is kept."""

from hypothesis import given
from hypothesis import strategies as st

from control.gateway.recent_load import ANSWERS_S, LOAD_S, RecentLoad
from policies.metered_work import MeteredClass, text_classes
from templates_lib.values.work import Unit

APPS = (("f", "a"), ("f", "b"))
SEE = MeteredClass("a/see", Unit.IMAGE_TOKEN, 576.0)
CLASSES = {APPS[0]: (*text_classes("a"), SEE), APPS[1]: text_classes("b")}
BEGAN_S = 1000.25


class Clock:
    now_s = BEGAN_S

    def __call__(self) -> float:
        return self.now_s


gaps = st.sampled_from((0.0, 0.1, 0.9, 1.0, 4.0, 11.0, 70.0))
events = st.lists(st.tuples(gaps, st.sampled_from(APPS), st.integers(0, 50), st.booleans(), st.booleans()), max_size=60)


@given(events, gaps)
def test_a_report_says_what_came_in_whole_seconds_and_how_the_minutes_answers_were(
    came: list[tuple[float, tuple[str, str], int, bool, bool]], later_s: float
) -> None:
    clock, asked, judged = Clock(), [], []
    load = RecentLoad(clock)
    for gap_s, app, tokens, is_answer, is_kept in came:
        clock.now_s += gap_s
        if is_answer:
            load.judged(app, is_in_time=is_kept)
            judged.append((clock.now_s, app, is_kept))
        else:
            load.asked(app, tokens, 2.0)
            asked.append((clock.now_s, app, tokens))
    clock.now_s += later_s
    report = load.report(CLASSES)
    until = int(clock.now_s)
    assert report.seconds == min(LOAD_S, max(1.0, until - BEGAN_S))
    lines = {(line.fleet, line.app): line for line in report.lines}
    for app in APPS:
        own = [tokens for at_s, of, tokens in asked if of == app and until - LOAD_S <= int(at_s) < until]
        sure = [kept for at_s, of, kept in judged if of == app and at_s > clock.now_s - ANSWERS_S + 5]
        most = [kept for at_s, of, kept in judged if of == app and at_s > clock.now_s - ANSWERS_S - 5]
        line = lines.get(app)
        if line is None:
            assert not own
            assert not sure
            continue
        assert line.requests == len(own)
        work = {each.work_class: each.units for each in line.work}
        assert work[f"{app[1]}/prefill"] == sum(own)
        assert work[f"{app[1]}/decode"] == 2 * len(own)
        assert len(sure) <= line.judged <= len(most)
        assert sum(sure) <= line.in_time <= sum(most)
        if app == APPS[0]:
            assert work["a/see"] == 576 * len(own)


def test_no_more_is_kept_than_reports_tell() -> None:
    clock = Clock()
    load = RecentLoad(clock)
    for _ in range(1000):
        clock.now_s += 1
        load.asked(APPS[0], 1, 1.0, ({Unit.AUDIO_SECOND: 1.5}, {Unit.AUDIO_SECOND: 0.5}))
        load.judged(APPS[0], is_in_time=True)
    assert len(load._asked) <= LOAD_S + 1
    assert len(load._judged) <= ANSWERS_S / 5 + 1
    clock.now_s += 1
    (line,) = load.report({APPS[0]: (MeteredClass("a/speak", Unit.AUDIO_SECOND, 9.0),)}).lines
    assert (line.requests, [each.units for each in line.work]) == (LOAD_S, [2 * LOAD_S])
    assert load.report({}).lines == (), "nobody serves it any more"

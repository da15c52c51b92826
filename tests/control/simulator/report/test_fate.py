"""Requests are judged as their clients would judge them."""

import numpy as np
import pytest

from control.simulator.report.fate import Fate, judge, share_within
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served, Use
from templates_lib.values.slo import Slo

NAN = float("nan")
SLO = {"chat": Slo(ttft_ms=1000.0, tpot_ms=50.0, ttft_ms_per_1k_prompt_tokens=500.0)}


def judged(*rows: tuple[float, int, int, Outcome, float, float], length_s: float = 100.0) -> list[Fate]:
    """(arrival, prompt, output, outcome, first token, finish), seconds and tokens."""
    arrival, prompt, output, outcome, first, finish = map(np.array, zip(*rows, strict=True))
    n = len(rows)
    requests = Requests(("chat",), np.zeros(n, np.int32), arrival, prompt, output)
    none, zeros = np.full(n, NAN), np.zeros(n, np.int32)
    idle = Use(60.0, np.zeros(0, np.int64), ())
    served = Served(
        outcome.astype(np.int8),
        zeros[:, None],
        none,
        first,
        none,
        none,
        finish,
        output,
        zeros,
        zeros,
        idle,
    )
    return [Fate(f) for f in judge(requests, served, SLO, length_s).fate]


def test_both_objectives_hold_and_the_first_one_grows_with_the_prompt() -> None:
    assert judged(
        (0.0, 1000, 11, Outcome.SERVED, 1.5, 2.0),
        (0.0, 1000, 11, Outcome.SERVED, 1.6, 2.0),
        (0.0, 2000, 11, Outcome.SERVED, 1.6, 2.0),
        (0.0, 1000, 11, Outcome.SERVED, 1.0, 1.6),
    ) == [Fate.WITHIN, Fate.LATE, Fate.WITHIN, Fate.SLOW]


def test_an_answer_of_one_token_has_no_gaps_to_be_slow_in() -> None:
    assert judged((0.0, 10, 1, Outcome.SERVED, 0.5, 0.5)) == [Fate.WITHIN]


def test_what_has_waited_too_long_already_is_late_though_it_is_unfinished() -> None:
    assert judged(
        (90.0, 10, 5, Outcome.UNFINISHED, NAN, NAN),
        (99.0, 10, 5, Outcome.UNFINISHED, 99.1, NAN),
        (99.5, 10, 5, Outcome.UNFINISHED, NAN, NAN),
    ) == [Fate.LATE, Fate.UNFINISHED, Fate.UNFINISHED]


def test_refused_and_lost_count_as_missed_and_unfinished_as_unknown() -> None:
    fates = judged(
        (0.0, 10, 5, Outcome.REFUSED, NAN, NAN),
        (0.0, 10, 5, Outcome.REFUSED_LATE, NAN, NAN),
        (0.0, 10, 5, Outcome.LOST, 0.1, NAN),
        (0.0, 10, 5, Outcome.SERVED, 0.1, 0.2),
        (99.9, 10, 5, Outcome.UNFINISHED, NAN, NAN),
    )
    assert fates == [Fate.REFUSED, Fate.REFUSED_LATE, Fate.LOST, Fate.WITHIN, Fate.UNFINISHED]
    assert share_within(np.array(fates)) == pytest.approx(1 / 4)
    assert np.isnan(share_within(np.array([Fate.UNFINISHED])))

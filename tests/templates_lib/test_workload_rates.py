from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.resampled import resampled
from templates_lib.load.arrivals import arrival_times
from templates_lib.load.rate_files import read_rate_series
from templates_lib.load.rate_series import RateSeries, constant, diurnal, mixed
from templates_lib.load.traces import TraceError

rates = st.lists(st.floats(0, 100), min_size=1, max_size=20)


def series_of(values: list[float], window_s: float = 60.0, cv: float = 1.0) -> RateSeries:
    return RateSeries("r", window_s, np.array(values, np.float64), np.full(len(values), cv))


@given(rates, st.floats(1, 500))
def test_resampling_keeps_the_requests(values: list[float], window_s: float) -> None:
    series = series_of(values)
    other = resampled(series, window_s)
    assert (other.requests_per_s * other.window_s).sum() == pytest.approx((series.requests_per_s * 60).sum(), abs=1e-6)
    assert other.duration_s >= series.duration_s - 1e-3


def test_resampling_to_halves_and_back_is_the_same() -> None:
    series = series_of([1, 5, 0, 2], cv=2.0)
    again = resampled(resampled(series, 20), 60)
    assert again.requests_per_s == pytest.approx(series.requests_per_s)
    assert again.cv[[0, 1, 3]] == pytest.approx([2, 2, 2])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0.1, 1000))
def test_scaling_reaches_the_mean_and_keeps_the_curve(values: list[float], target: float) -> None:
    series = series_of(values)
    scaled = series.scaled_to(target)
    assert scaled.mean_requests_per_s == pytest.approx(target)
    assert scaled.requests_per_s / target == pytest.approx(series.requests_per_s / series.mean_requests_per_s)


def test_mixing_adds_rates_and_weighs_burstiness() -> None:
    both = mixed("both", [series_of([10, 0], cv=1.0), series_of([30, 0, 7], cv=3.0)])
    assert both.requests_per_s.tolist() == [40, 0]
    assert both.cv == pytest.approx([np.sqrt((10 * 1 + 30 * 9) / 40), 1.0])
    with pytest.raises(ValueError, match="one length"):
        mixed("no", [series_of([1]), series_of([1], window_s=30)])


def test_a_silent_series_cannot_be_scaled_and_bad_rates_are_refused() -> None:
    with pytest.raises(ValueError, match="no requests"):
        series_of([0, 0]).scaled_to(3)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="rate must be"):
            series_of([1.0, bad])


def test_a_day_has_the_mean_and_the_ratio_it_was_asked_for() -> None:
    day = diurnal("d", 10, peak_to_trough=4, days=2, window_s=60)
    assert day.mean_requests_per_s == pytest.approx(10)
    assert day.peak_requests_per_s / day.requests_per_s.min() == pytest.approx(4, rel=1e-3)
    assert day.at(14 * 3600) == pytest.approx(day.peak_requests_per_s, rel=1e-4)
    assert day.at(-1) == day.at(3 * 86400) == 0


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 3.0])
def test_arrivals_have_the_rate_and_the_burstiness(cv: float) -> None:
    times = np.array(list(arrival_times(constant("c", 50, 1000, cv=cv), seed=7)))
    gaps = np.diff(times)
    assert len(times) == pytest.approx(50_000, rel=0.06)
    assert (gaps >= 0).all()
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.06, abs=0.01)


def test_every_window_has_its_own_rate_and_silence_stays_silent() -> None:
    times = np.array(list(arrival_times(series_of([40, 0, 10], window_s=500), seed=3)))
    counts = np.histogram(times, bins=[0, 500, 1000, 1500])[0]
    assert counts[1] == 0
    assert counts[0] == pytest.approx(20_000, rel=0.03)
    assert counts[2] == pytest.approx(5_000, rel=0.06)


def test_burstiness_changes_with_the_window() -> None:
    series = RateSeries("r", 1000.0, np.array([50.0, 50.0]), np.array([0.2, 3.0]))
    times = np.array(list(arrival_times(series, seed=5)))
    calm, wild = np.diff(times[times < 1000]), np.diff(times[times >= 1000])
    assert calm.std() / calm.mean() == pytest.approx(0.2, rel=0.1)
    assert wild.std() / wild.mean() == pytest.approx(3.0, rel=0.1)


def test_a_seed_is_a_stream() -> None:
    long_day = diurnal("d", 100, days=30)

    def head(seed: int) -> list[float]:
        return list(islice(arrival_times(long_day, seed), 3000))

    assert head(1) == head(1)
    assert head(1) != head(2)


def test_rate_files_add_clients_up_and_fill_gaps(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("model,client,t_s,rate_req_s,cv\nm,0,0,1,1\nm,1,0,3,2\nm,0,1200,5,\nother,0,0,2,1\n")
    found = read_rate_series(path, 600)
    assert found["m"].requests_per_s.tolist() == [4, 0, 5]
    assert found["m"].cv == pytest.approx([np.sqrt(13 / 4), 1, 1])
    assert found["other"].requests_per_s.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", "none of the known kinds"),
        ("series,t_s,requests_per_s\nm,0,-1\n", "rates.csv:2: rate -1.0"),
        ("series,t_s,requests_per_s\nm,0,1\nm,x,1\n", "rates.csv:3: could not convert"),
        ("series,t_s,requests_per_s\nm,0,1\nm,700,1\n", "not on a grid of 600 s"),
        ("series,t_s,requests_per_s\n", "no rows"),
    ],
)
def test_rate_files_say_what_is_wrong_and_where(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=problem):
        read_rate_series(path, 600)

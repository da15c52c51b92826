"""Forecast policies against the arrivals of real traces.

    python -m bench.forecast [--traces ../shared/data/traces]

At the start of every interval the policy sees the rates of all intervals before, and says one rate for the next; no
capacity is wrong beyond that. *over*: requests that could have been served and did not come; *under*: requests that
came beyond the forecast; both as shares of all requests. Azure and Mooncake last an hour, so they are scored in
5-minute intervals; ServeGen's models come in windows of 10 minutes, for 14 days (deepseek-r1 and mm-image: one), of
which the first tenth is only looked at. A seasonal policy is shown where its season comes twice. Exits with 1 when,
over a day or more, head-room leaves more than two thirds of what is under without it.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.resampled import resampled
from policies.forecast import Ewma, Forecast, Last, Rates
from policies.headroom_forecast import Headroom
from policies.seasonal_forecast import Seasonal
from templates_lib.load.rate_files import read_rate_series
from templates_lib.load.rate_series import RateSeries
from templates_lib.load.traces import read_trace

DAY_S = 86_400.0
QUANTILE = 0.9
BAR_LEFT = 2 / 3
PLAIN: dict[str, Forecast] = {
    "last": Last(),
    "ewma": Ewma(900.0),
    "seasonal day": Seasonal(DAY_S, 900.0),
    "seasonal week": Seasonal(7 * DAY_S, 900.0),
}
LASTS_S = {"seasonal day": 2 * DAY_S, "seasonal week": 14 * DAY_S}
REQUESTS_FILES = ("azure_llm_2023_conv.csv.gz", "azure_llm_2023_code.csv.gz", "mooncake_conversation.csv.gz")
RATES_FILE, RATES_WINDOW_S = "servegen_model_rates.csv", 600.0


@dataclass(frozen=True, slots=True)
class Score:
    over: float
    under: float


def score(policy: Forecast, rates: Rates, step_s: float) -> Score:
    first = max(1, len(rates) // 10)
    said = np.array([policy.ahead(rates[:n], step_s, 1)[0] for n in range(first, len(rates))])
    came = rates[first:]
    total = came.sum()
    return Score(float(np.maximum(said - came, 0).sum() / total), float(np.maximum(came - said, 0).sum() / total))


def cases(folder: Path) -> Iterator[tuple[str, float, Rates]]:
    """(trace, interval in minutes, mean rates)."""
    for name in REQUESTS_FILES:
        series = read_trace(folder / name).rates(60.0)
        yield name.partition(".")[0], 5.0, _whole(series, 300.0)
    for model, series in sorted(read_rate_series(folder / RATES_FILE, RATES_WINDOW_S).items()):
        for minutes in (15.0, 60.0):
            yield f"servegen {model}", minutes, _whole(series, minutes * 60)


def _whole(series: RateSeries, step_s: float) -> Rates:
    """Without a last interval that is not over."""
    return resampled(series, step_s).requests_per_s[: int(series.duration_s / step_s)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).parents[2] / "shared" / "data" / "traces"
    parser.add_argument("--traces", type=Path, default=default)
    folder = parser.parse_args().traces
    if not folder.is_dir():
        print(f"real traces are needed, and {folder} is not there: name their folder with --traces")
        return 1
    print(f"{'trace':32}{'interval':>9}  {'policy':16}{'over':>7}{'under':>7}   with {QUANTILE:g} quantile head-room")
    missed = []
    for trace, minutes, rates in cases(folder):
        for name, policy in PLAIN.items():
            step_s = minutes * 60
            if len(rates) * step_s < LASTS_S.get(name, 0.0):
                continue
            plain, raised = score(policy, rates, step_s), score(Headroom(policy, QUANTILE, DAY_S), rates, step_s)
            print(
                f"{trace:32}{minutes:5g} min  {name:16}{plain.over:7.1%}{plain.under:7.1%}"
                f"   {raised.over:7.1%}{raised.under:7.1%}"
            )
            if len(rates) * step_s >= DAY_S and raised.under > BAR_LEFT * plain.under:
                missed.append(f"{trace}, {minutes:g} min, {name}")
    print(f"bar {'MISSED by ' + '; '.join(missed) if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

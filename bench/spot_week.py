"""A week of spot prices and of preemptions from real logs, through the real reconcile loop.

    python -m bench.spot_week [--days 7.0] [--seed 1] [--strategies guarded,obedient,on-demand,calm]

Prices: AWS, by region and day, August 2024. Availability: spot nodes of AWS, 2022 and 2023. Demand: ServeGen, a week of
ten-minute rates, one series a model. `bench.joined_logs` says how prices and availability are
joined. The loop, its planner and its database are the real ones, on a clock that skips the time in which nothing
happens: a plan every ten minutes, at every refusal and when what refused may be asked again, for the highest rate of
three hours. `guarded` is the loop as it is, `calm` also limits the moves that only save money
(`payback_share`), `obedient` carries out every plan,
`on-demand` is obedient and rents no spot node. Moves are instances that were drained, or given back before they were
ready, though nothing ailed them. A seed is one world of a week, of which `--days` runs the beginning; one strategy in
it makes the same plans in every run. Code that makes another plan, be it by a word of its reasons, gives instances
other names, and what is drawn by these (start-ups, which nodes are taken) differs from then on.

Exits 1 unless the guarded fleet costs no more than the obedient one, moves at most half as much, and leaves no more
demand unmet; and costs no more than on demand only.
"""

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime
from multiprocessing import get_context
from pathlib import Path

from bench.joined_logs import joined_logs
from bench.log_files import read_availability_traces, read_daily_prices
from bench.log_plane import LogDemand, LogPlane, Tally, spec_with
from control.db.database import open_database
from control.planning.world import read_world
from control.simulator.offer_log import OfferLog
from templates_lib.load.rate_files import read_rate_series
from templates_lib.values.offer import Market

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SPEC = Path(__file__).parent / "spot_week.yaml"
FIRST = date(2024, 8, 2)
DAY_S = 86400.0
DAYS = 7
"""Of every world, however much of it is run: what is drawn depends on it."""
REGIONS = frozenset({"us-east-1", "us-east-2", "us-west-2", "eu-west-1"})
APPS = {"gpt-oss-20b": ("m-small", 24.0), "phi-4-14b": ("m-mid", 6.0)}
"""Model → its ServeGen series, and its mean requests per second."""
NODES = 16
"""Of an offer, that can be held when all of it is there."""
SETTINGS: dict[str, dict[str, object]] = {
    "guarded": {},
    "calm": {"payback_share": 0.15},
    "obedient": {"payback_minutes": None},
    "on-demand": {"payback_minutes": None},
}
"""Strategy → what it sets of `reconcile`."""
STRATEGIES = ("guarded", "obedient", "on-demand")
"""That the bars compare."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--days", type=float, default=float(DAYS), help=f"{DAYS} at most")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--strategies", default=",".join(STRATEGIES))
    given = arguments.parse_args()
    if not 0 < given.days <= DAYS:
        arguments.error(f"--days: a world has {DAYS}")
    if not DATA.is_dir():
        print(f"{DATA} is not there: it holds the logs", file=sys.stderr)
        return 1
    names = given.strategies.split(",")
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        tallies = dict(
            zip(names, pool.map(_run, names, [given.days] * len(names), [given.seed] * len(names)), strict=True)
        )
    print(f"{'':10} {'$':>10} {'$/million served':>16} {'unmet':>8} {'moves':>6}", end="")
    print(f" {'launched':>8} {'refused':>7} {'taken':>5} {'plans':>5}")
    for name, tally in tallies.items():
        counts = [tally.events[k] for k in ("launched", "refused", "taken", "plans")]
        print(
            f"{name:10} {tally.usd:>10,.2f} {tally.usd_per_million:>16.2f} {100 * tally.unmet_share:>6.2f} % "
            f"{tally.moves:>6} {counts[0]:>8} {counts[1]:>7} {counts[2]:>5} {counts[3]:>5}"
        )
    return int(set(names) >= set(STRATEGIES) and not _holds(tallies))


def _holds(tallies: dict[str, Tally]) -> bool:
    guarded, obedient, steady = (tallies[name] for name in STRATEGIES)
    return (
        guarded.usd <= min(obedient.usd, steady.usd)
        and 2 * guarded.moves <= obedient.moves
        and guarded.unmet_share <= obedient.unmet_share
    )


def _run(strategy: str, days: float, seed: int) -> Tally:
    """In a process, with a database, of its own."""
    start, began = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC), time.monotonic()
    rates = read_rate_series(DATA / "traces" / "servegen_model_rates.csv", 600.0)
    demand = LogDemand({app: rates[name].scaled_to(mean) for app, (name, mean) in APPS.items()}, start)
    rented = {Market.ON_DEMAND} if strategy == "on-demand" else {Market.ON_DEMAND, Market.SPOT}
    settings = SETTINGS[strategy]
    logs = tuple(log for log in _logs(seed) if log.offer.market in rented)
    with tempfile.TemporaryDirectory(prefix="medley-") as home, spec_with(SPEC, **settings) as spec:
        os.environ["MEDLEY_HOME"] = home
        with open_database(None) as database:
            plane, shown_s = LogPlane(database, spec, logs, demand, seed), 0.0
            for now_s in plane.run(days * DAY_S):
                if now_s >= shown_s + DAY_S / 4:
                    shown_s = now_s
                    took_s = time.monotonic() - began
                    tally = plane.tally(now_s)
                    so_far = (
                        f"${tally.usd:,.0f}, {100 * tally.unmet_share:.2f} % unmet, {tally.moves} moves, {took_s:.0f} s"
                    )
                    print(f"{strategy}: day {now_s / DAY_S:.2f}: {so_far}", file=sys.stderr, flush=True)
    return plane.tally(days * DAY_S)


def _logs(seed: int) -> list[OfferLog]:
    sold = read_world(SPEC).quotes
    configs = {offer.instance_type: offer.node_config for offer in sold.offers}
    nodes = dict.fromkeys(configs, NODES)
    prices = DATA / "prices" / "aws_gpu_spot_daily_2023-02_2024-08.csv.gz"
    rows = [row for row in read_daily_prices(prices, FIRST, DAYS + 1) if row.region in REGIONS]
    traces = read_availability_traces(DATA / "availability" / "spot_traces_rle.csv.gz", DAYS * DAY_S)
    return joined_logs(rows, traces, configs, nodes, DAYS, seed)


if __name__ == "__main__":
    sys.exit(main())

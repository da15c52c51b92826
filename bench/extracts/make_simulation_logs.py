"""Write the logs of examples/simulate: the first ten minutes of two traces, and a day of a spot market.

    python -m bench.extracts.make_simulation_logs

Prices are those of AWS, by region and day, of 2024-08-02. Availability is that of other spot nodes of AWS at another
time, joined to the offers by `bench.joined_logs`, as in `bench.spot_week`.
"""

import csv
import gzip
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from pathlib import Path

from bench.joined_logs import joined_logs
from bench.log_files import read_availability_traces, read_daily_prices
from bench.spot_week import DATA, DAY_S
from control.planning.world import read_world
from control.simulator.offer_log import OfferLog
from control.simulator.step_log import StepLog
from templates_lib.load.traces import iterate_rows
from templates_lib.values.offer import Market

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "simulate"
FIRST = date(2024, 8, 2)
SEED = 20240802
NODES = 6
"""Of an offer, that can be held when all of it is there."""
TRACE_S = 600.0
COLUMNS = ("time", "zone", "machine", "market")


def main() -> None:
    for trace, name in (("code", "azure-code"), ("conv", "azure-conversation")):
        _cut(DATA / "traces" / f"azure_llm_2023_{trace}.csv.gz", FOLDER / f"{name}-2023-11-16.csv.gz")
    sold = read_world(FOLDER / "chat-fleet.yaml").quotes
    configs = {offer.instance_type: offer.node_config for offer in sold.offers}
    regions = {offer.region for offer in sold.offers}
    prices = DATA / "prices" / "aws_gpu_spot_daily_2023-02_2024-08.csv.gz"
    rows = [row for row in read_daily_prices(prices, FIRST, 2) if row.region in regions]
    traces = read_availability_traces(DATA / "availability" / "spot_traces_rle.csv.gz", DAY_S)
    logs = [log for log in joined_logs(rows, traces, configs, dict.fromkeys(configs, NODES), 1, SEED)
            if log.offer.market is Market.SPOT]  # fmt: skip
    _write(FOLDER / "spot-prices-2024-08-02.csv", "usd_per_hour", ((log, log.usd_per_hour) for log in logs))
    _write(FOLDER / "spot-stock-2024-08-02.csv", "available", ((log, log.nodes) for log in logs))


def _cut(source: Path, target: Path) -> None:
    """The requests of the first minutes, to the millisecond."""
    first: datetime | None = None
    # Without a time in its header the same rows are the same bytes.
    with target.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed:
        packed.write(b"arrival_s,input_tokens,output_tokens\n")
        for _, row in iterate_rows(source):
            at = datetime.fromisoformat(row["TIMESTAMP"])
            first = first or at
            arrival_s = (at - first).total_seconds()
            if arrival_s >= TRACE_S:
                return
            packed.write(f"{arrival_s:.3f},{row['ContextTokens']},{row['GeneratedTokens']}\n".encode())


def _write(path: Path, column: str, logs: Iterable[tuple[OfferLog, StepLog]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*COLUMNS, column))
        for log, steps in logs:
            writer.writerows(_rows(log, steps))


def _rows(log: OfferLog, steps: StepLog) -> Iterator[tuple[str, ...]]:
    offer = log.offer
    for at_s, value in zip(steps.times_s, steps.values, strict=True):
        if at_s < DAY_S:
            yield f"{at_s:.0f}", offer.zone_id, offer.instance_type, offer.market.value, f"{value:g}"


if __name__ == "__main__":
    main()

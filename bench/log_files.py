"""Logs of prices and of availability in CSV files (gzipped or not), as public data sets have them."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from control.simulator.step_log import StepLog, step_log
from templates_lib.load.traces import TraceError, iterate_rows

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class DailyPrices:
    """Of one machine in one region, $/h, by day from the first of the log's days on."""

    region: str
    instance_type: str
    on_demand_usd_per_hour: float
    """The least of the days: a dearer kind of tenancy slips into some."""
    spot_usd_per_hour: dict[int, float]


@dataclass(frozen=True, slots=True)
class AvailabilityTrace:
    """How many of the nodes that somebody tried to hold a market gave, as a share, over seconds from its start."""

    id: str
    share: StepLog
    duration_s: float

    def losses_per_hour(self) -> float:
        """How often a node that is there is taken: steps down, each by its share, over the hours in which any were."""
        losses = there_s = 0.0
        edges = (*self.share.times_s, self.duration_s)
        for n, value in enumerate(self.share.values):
            there_s += (edges[n + 1] - edges[n]) if value > 0 else 0.0
            before = self.share.values[n - 1] if n else value
            losses += max(before - value, 0.0) / before if before > 0 else 0.0
        return losses / (there_s / 3600) if there_s else 0.0


def read_daily_prices(path: Path, first: date, days: int) -> list[DailyPrices]:
    """Rows `date, region, instance_type, on_demand_usd_h, spot_usd_h`; machines without a spot price in that time are
    left out. Raises TraceError with the line."""
    on_demand: dict[tuple[str, str], float] = {}
    spot: defaultdict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for line, row in iterate_rows(path):
        try:
            day = (date.fromisoformat(row["date"]) - first).days
            key = row["region"], row["instance_type"]
            if row["on_demand_usd_h"]:
                on_demand[key] = min(on_demand.get(key, float("inf")), float(row["on_demand_usd_h"]))
            if 0 <= day < days and row["spot_usd_h"]:
                spot[key][day] = float(row["spot_usd_h"])
        except (KeyError, ValueError) as error:
            raise TraceError(f"{path}:{line}: no row of daily prices: {error}") from None
    return [DailyPrices(*key, on_demand[key], found) for key, found in sorted(spot.items()) if key in on_demand]


def read_availability_traces(path: Path, at_least_s: float) -> list[AvailabilityTrace]:
    """Rows `kind, nodes, cloud, start_date, zone, resource, count_per_node, gap_seconds, start_s, ticks,
    available_nodes`, run-length coded. Raises TraceError with the line."""
    steps: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    ends: defaultdict[str, float] = defaultdict(float)
    names = ("kind", "nodes", "start_date", "zone", "resource", "count_per_node")
    for line, row in iterate_rows(path):
        try:
            name = "/".join(row[part] for part in names)
            start_s = float(row["start_s"])
            steps[name].append((start_s, float(row["available_nodes"]) / float(row["nodes"])))
            ends[name] = max(ends[name], start_s + float(row["ticks"]) * float(row["gap_seconds"]))
        except (KeyError, ValueError, ZeroDivisionError) as error:
            raise TraceError(f"{path}:{line}: no row of an availability trace: {error}") from None
    return [
        AvailabilityTrace(name, step_log(found), ends[name])
        for name, found in sorted(steps.items())
        if ends[name] >= at_least_s
    ]

"""Logs of prices and of availability in CSV files, as scenarios name them: time, zone, machine, market, value.

    time,zone,machine,market,usd_per_hour            time,zone,machine,market,available
    2024-08-02T00:00:00Z,aws/us-east-1,L4:1,spot,0.31         0,aws/us-east-1,g6.xlarge,spot,12

`time` is a moment (ISO 8601, UTC) or seconds from the scenario's start. A zone may be a region: all its zones. A
machine is an instance type or a node configuration, with or without its network class. Rows hold until the next one of
the same (zone, machine, market), which must come later.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from control.fleet_file.problem import SpecError, SpecProblem
from control.simulator.step_log import StepLog, step_log
from templates_lib.load.traces import iterate_rows
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market, Offer

_MOST_PROBLEMS = 10
_SLACK_S = 1.0
"""A day may have a leap second."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a log is about."""

    zone: str
    machine: str
    market: Market

    def matches(self, offer: Offer) -> bool:
        config = offer.node_config
        return (
            self.zone in (offer.zone_id, f"{offer.cloud}/{offer.region}")
            and self.machine in (offer.instance_type, config, config.partition("/")[0])
            and self.market is offer.market
        )

    def __str__(self) -> str:
        return f"{self.market.value} {self.machine} in {self.zone}"


@dataclass(frozen=True, slots=True)
class LogTime:
    """A scenario's time, as its logs are read by."""

    start: datetime
    length_s: float
    hold_s: float = math.inf
    """How long a value holds at most; a longer silence is a gap."""


def read_log(path: Path, column: str, time: LogTime, check: Callable[[float], str]) -> Mapping[Place, StepLog]:
    """Seconds from the scenario's start → `column`, of each place in the file.

    `check` says what is wrong with a value (empty: nothing). Raises SpecError with file and line for rows that cannot
    be read, are out of order, or leave a gap within the scenario; TraceError for a file that is not there."""
    rows: dict[Place, list[tuple[int, float, float]]] = {}
    problems: list[SpecProblem] = []
    for line, row in iterate_rows(path):
        if line == 2 and (missing := _missing(row, column)):
            raise SpecError([SpecProblem(str(path), 1, f"has no column {missing}; {_columns(column)}")])
        try:
            place, at_s, value = _place(row), _seconds(row["time"], time.start), _value(row[column], column)
            if wrong := check(value):
                raise ValueError(wrong)
            own = rows.setdefault(place, [])
            if own and at_s <= own[-1][1]:
                raise ValueError(
                    f"{place} has a row of that time or a later one on line {own[-1][0]}: sort them by time"
                )
            own.append((line, at_s, value))
        except ValueError as error:
            problems.append(SpecProblem(str(path), line, str(error)))
            if len(problems) == _MOST_PROBLEMS:
                break
    if not rows and not problems:
        raise SpecError([SpecProblem(str(path), 0, f"holds no row; {_columns(column)}")])
    for place, own in rows.items():
        problems += _gaps(path, column, place, own, time)
    if problems:
        raise SpecError(problems[:_MOST_PROBLEMS])
    return {place: step_log((at, value) for _, at, value in own) for place, own in rows.items()}


def _gaps(
    path: Path, column: str, place: Place, rows: list[tuple[int, float, float]], time: LogTime
) -> Iterator[SpecProblem]:
    line, first_s, _ = rows[0]
    if first_s > _SLACK_S:
        yield SpecProblem(
            str(path),
            line,
            f"the first {column} of {place} is of {_moment(first_s, time)}, {first_s / 3600:.1f} h after the scenario "
            "begins: add one for its start, or set a later `start`",
        )
    ends = [*((line, at) for line, at, _ in rows[1:]), (rows[-1][0], math.inf)]
    for (line, at), (_, before, _) in zip(ends, rows, strict=True):
        until = min(at, time.length_s)
        if until > 0 and before < time.length_s and until - before > time.hold_s + _SLACK_S:
            over = ", when the scenario ends" if at > time.length_s else ""
            yield SpecProblem(
                str(path),
                line,
                f"no {column} of {place} between {_moment(before, time)} and {_moment(until, time)}{over}: "
                f"{(until - before) / 3600:.1f} h, while one holds for {time.hold_s / 3600:g} h. Fill the gap, or set "
                "`hold_hours` of the log (null: it has a row for every change)",
            )


def _place(row: Mapping[str, str]) -> Place:
    zone, machine, market = (row[name].strip() for name in ("zone", "machine", "market"))
    if "/" not in zone:
        raise ValueError(f"zone {zone!r} must name its cloud, such as aws/{zone or 'us-east-1'}")
    if not machine:
        raise ValueError("machine is empty: name an instance type or a node configuration such as L4:1")
    known = [m.value for m in Market]
    if market not in known:
        raise ValueError(f"unknown market {market!r}; {nearest_name(market, known)}")
    return Place(zone, machine, Market(market))


def _seconds(text: str, start: datetime) -> float:
    try:
        at_s = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(f"time {text!r} is neither seconds nor a moment such as 2024-08-02T00:00:00Z") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - start).total_seconds()
    if not math.isfinite(at_s):
        raise ValueError(f"time {text!r} is no time")
    return at_s


def _value(text: str, column: str) -> float:
    if not text.strip():
        raise ValueError(f"{column} is empty: fill the gap, or remove the row if the value before it still held")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}, not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{column} is {text!r}, not a finite number")
    return value


def _moment(at_s: float, time: LogTime) -> str:
    return (time.start + timedelta(seconds=at_s)).isoformat(timespec="minutes")


def _missing(row: Mapping[str, str], column: str) -> str:
    return ", ".join(name for name in ("time", "zone", "machine", "market", column) if name not in row)


def _columns(column: str) -> str:
    return f"the columns are time,zone,machine,market,{column}"

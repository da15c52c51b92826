"""The rows of result files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from control.simulator.report.fate import Fate, Judged
from control.simulator.result import InstanceSpan, NodeSpan, SimulationEvent, SimulationResult
from policies.priority import Priority


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """Words of which a column has few: millions of rows would not fit into memory written out."""

    words: tuple[str, ...]
    codes: NDArray[np.integer[Any]]
    """(n,) into `words`; negative ones from its end."""


Column = Coded | NDArray[Any] | Sequence[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RowFile:
    """One file: columns, all of one length."""

    name: str
    columns: Mapping[str, Column]

    def parts(self, rows: int) -> Iterator[Mapping[str, list[Any]]]:
        """The same in pieces of so many rows, as plain values; None where nothing is known."""
        length = max((_length(column) for column in self.columns.values()), default=0)
        for start in range(0, length, rows):
            yield {name: _plain(column, slice(start, start + rows)) for name, column in self.columns.items()}


def row_files(result: SimulationResult, judged: Judged) -> tuple[RowFile, ...]:
    return (
        _requests(result, judged),
        _epochs(result),
        _of_values("instances", InstanceSpan, result.instances),
        _of_values("nodes", NodeSpan, result.nodes),
        _of_values("events", SimulationEvent, result.events),
    )


def _requests(result: SimulationResult, judged: Judged) -> RowFile:
    requests, served = result.requests, result.served
    # The last of the ids is empty: -1 stands for nobody.
    ids = (*(instance.id for instance in result.fleet.instances), "")
    legs = {f"leg_{n + 1}": served.places[:, n] for n in range(served.places.shape[1])}
    if all(model.makes_text for model in result.models):
        legs = {"prefill": served.first_instance, "decode": served.last_instance}
    columns: dict[str, Column] = {
        "model": Coded(requests.apps, requests.app),
        "arrival_s": requests.arrival_s,
        "prompt_tokens": requests.prompt_tokens,
        "output_tokens": requests.output_tokens,
        "priority": Coded(tuple(Priority), requests.rank),
        "fate": Coded(tuple(fate.name.lower() for fate in Fate), judged.fate),
        "ttft_ms": judged.ttft_ms,
        "tpot_ms": judged.tpot_ms,
        "queued_ms": 1000 * served.queued_s,
        "hand_off_ms": 1000 * (served.handed_s - np.maximum(served.accepted_s, served.first_token_s)),
        "finish_s": served.finish_s,
        "made_tokens": served.made_tokens,
        **{f"{leg}_instance": Coded(ids, places) for leg, places in legs.items()},
        "restarts": served.restarts,
        "preemptions": served.preemptions,
    }
    return RowFile("requests", columns)


def _epochs(result: SimulationResult) -> RowFile:
    """One row for each epoch; what is by model or by work class has a column for each."""
    whole = ("from_s", "until_s", "plan_id", "spent_usd", "spent_usd_per_hour", "planned_usd_per_hour",
             "traffic_usd_per_hour", "init_usd_per_hour", "solve_s")  # fmt: skip
    columns: dict[str, Column] = {name: [getattr(epoch, name) for epoch in result.epochs] for name in whole}
    for field in ("offered_requests_per_s", "planned_requests_per_s", "unmet_requests_per_s"):
        for model in result.models:
            columns[f"{field}:{model.name}"] = [getattr(e, field).get(model.name, 0.0) for e in result.epochs]
    for field in ("demand_units_per_s", "capacity_units_per_s"):
        for name in (name for model in result.models for name in model.work_classes):
            columns[f"{field}:{name}"] = [getattr(e, field).get(name, 0.0) for e in result.epochs]
    return RowFile("epochs", columns)


def _of_values(name: str, kind: type, values: Sequence[Any]) -> RowFile:
    """A column for each field of the dataclass `kind`."""
    columns: dict[str, Column] = {f.name: [_cell(getattr(value, f.name)) for value in values] for f in fields(kind)}
    return RowFile(name, columns)


def _cell(value: Any) -> Any:
    return " + ".join(f"{count} x {of}" for of, count in sorted(value.items())) if isinstance(value, Mapping) else value


def _length(column: Column) -> int:
    return len(column.codes if isinstance(column, Coded) else column)


def _plain(column: Column, rows: slice) -> list[Any]:
    if isinstance(column, Coded):
        return [column.words[code] for code in column.codes[rows].tolist()]
    if not isinstance(column, np.ndarray):
        return list(column[rows])
    if column.dtype.kind != "f":
        found: list[Any] = column[rows].tolist()
        return found
    # A microsecond is finer than any figure here is true.
    return [None if isnan(value) else value for value in np.round(column[rows], 6).tolist()]

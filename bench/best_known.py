"""The lowest objective that any run found for a snapshot, by its hash, with the command that found it."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

FILE = Path(__file__).with_name("best_known.json")


@dataclass(frozen=True, slots=True)
class Plain:
    """HiGHS on the full model, all columns at once."""

    objective: float
    bound: float
    seconds: float
    command: str


@dataclass(frozen=True, slots=True)
class BestKnown:
    case: str
    objective: float
    command: str
    plain: Plain | None = None


def read() -> dict[str, BestKnown]:
    """By snapshot version."""
    raw = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {
        version: BestKnown(**{**row, "plain": row["plain"] and Plain(**row["plain"])}) for version, row in raw.items()
    }


def keep(version: str, case: str, objective: float, command: str, plain: Plain | None = None) -> BestKnown:
    """What is known after a run that found `objective`. Other snapshots of the case are forgotten."""
    known = {v: row for v, row in read().items() if v == version or row.case != case}
    best = known.get(version, BestKnown(case, objective, command))
    if objective < best.objective:
        best = replace(best, objective=objective, command=command)
    if plain is not None:
        best = replace(best, plain=plain)
    known[version] = best
    rows = {v: asdict(row) for v, row in sorted(known.items(), key=lambda item: item[1].case)}
    FILE.write_text(json.dumps(rows, indent=1) + "\n")
    return best

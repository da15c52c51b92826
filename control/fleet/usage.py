"""Dollars beside what was served for them: by model, and by the project of the keys."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.ledger import PostgresLedger
from control.db.series_step import SeriesOf, Steps
from control.db.traffic_series import Served, served_by_project, traffic_series
from control.fleet.series import utilisations
from control.fleet_file.model_section import architectures, if_readable
from control.ledger.charge import Charge
from control.ledger.period import Period

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelUse:
    """One model of a fleet, in a span."""

    fleet: str
    model: str
    """As clients name it; of what no client reached, as its instances do."""
    usd: float
    """Dollars of its instances."""
    requests: int
    """Served."""
    prompt_tokens: int
    output_tokens: int
    usd_per_million_tokens: float | None
    """Of prompts and answers together; None: none was served."""
    used: float | None
    """Mean share of its ready capacity that was used; None: it is not known."""
    idle_usd: float | None
    """Dollars for what was not."""


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """Everything that keys of one project used, in a span."""

    project: str
    """Empty: gateways that ask for no key."""
    usd: float
    """Its part of the dollars of each model: as many as its part of the tokens."""
    requests: int
    prompt_tokens: int
    output_tokens: int
    usd_per_million_tokens: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    models: tuple[ModelUse, ...]
    """The dearest first."""
    projects: tuple[ProjectUse, ...]
    """The dearest first."""
    unused_usd: float
    """Dollars of models that served nothing: of no project."""


@dataclass(frozen=True, slots=True)
class _Total:
    requests: int
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, parts: Iterable[Served]) -> "_Total":
        own = list(parts)
        return cls(sum(p.requests for p in own), sum(p.prompt_tokens for p in own), sum(p.output_tokens for p in own))

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def usd_per_million(self, usd: float) -> float | None:
        return usd / self.tokens * _MILLION if self.tokens else None


def usage(database: Database, steps: Steps) -> Usage:
    """Reckon a span. What leaked is no model's. Raises DatabaseUnavailableError."""
    served = served_by_project(database, steps.since, steps.until)
    charges = PostgresLedger(database).charges(Period(steps.since, steps.until))
    spent = _by_model(charges, served, _architectures(database))
    traffic = traffic_series(database, steps, SeriesOf())
    used = {key: _mean(values) for key, values in utilisations(database, steps, SeriesOf(), traffic).items()}
    by_model: defaultdict[tuple[str, str], list[Served]] = defaultdict(list)
    for part in served:
        by_model[part.fleet, part.model].append(part)
    models = [
        _model_use(*key, spent.get(key, 0.0), by_model.get(key, ()), used.get(key)) for key in {*spent, *by_model}
    ]
    return Usage(
        tuple(sorted(models, key=lambda each: (-each.usd, each.fleet, each.model))),
        _project_uses(served, spent, by_model),
        sum(each.usd for each in models if not each.prompt_tokens + each.output_tokens),
    )


def _architectures(database: Database) -> Mapping[tuple[str, str], str]:
    """Fleet and name → what instances call it."""
    return {
        (record.name, name): own
        for record in PostgresFleets(database).all()
        for name, own in (if_readable(architectures, record.spec) or {}).items()
    }


def _by_model(
    charges: Iterable[Charge], served: Iterable[Served], known: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], float]:
    """Return dollars by fleet and the name that clients use. Names of one architecture in one fleet share the dollars
    of its instances by tokens."""
    spent: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for charge in charges:
        if not charge.leaked:
            spent[charge.fleet, charge.model] += charge.usd
    tokens: defaultdict[tuple[str, str], int] = defaultdict(int)
    for part in served:
        tokens[part.fleet, part.model] += part.prompt_tokens + part.output_tokens
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (fleet, name), own in known.items():
        names[fleet, own].append(name)
    found: dict[tuple[str, str], float] = {}
    for (fleet, own), usd in spent.items():
        called = names.get((fleet, own), [own])
        whole = sum(tokens[fleet, name] for name in called)
        for name in called:
            share = Fraction(tokens[fleet, name], whole) if whole else Fraction(1, len(called))
            found[fleet, name] = float(usd * share)
    return found


def _model_use(fleet: str, model: str, usd: float, parts: Iterable[Served], used: float | None) -> ModelUse:
    total = _Total.of(parts)
    idle = None if used is None else usd * max(0.0, 1 - used)
    return ModelUse(
        fleet,
        model,
        usd,
        total.requests,
        total.prompt_tokens,
        total.output_tokens,
        total.usd_per_million(usd),
        used,
        idle,
    )


def _project_uses(
    served: Iterable[Served],
    spent: Mapping[tuple[str, str], float],
    by_model: Mapping[tuple[str, str], list[Served]],
) -> tuple[ProjectUse, ...]:
    whole = {key: _Total.of(parts).tokens for key, parts in by_model.items()}
    usd: defaultdict[str, float] = defaultdict(float)
    parts: defaultdict[str, list[Served]] = defaultdict(list)
    for part in served:
        key = part.fleet, part.model
        parts[part.project].append(part)
        if whole[key]:
            usd[part.project] += spent.get(key, 0.0) * (part.prompt_tokens + part.output_tokens) / whole[key]
    found = []
    for project, own in parts.items():
        total = _Total.of(own)
        counts = total.requests, total.prompt_tokens, total.output_tokens
        found.append(ProjectUse(project, usd[project], *counts, total.usd_per_million(usd[project])))
    return tuple(sorted(found, key=lambda each: (-each.usd, each.project)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) / len(known) if known else None

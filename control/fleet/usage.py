"""Dollars beside what was served for them: by model, and by the project of the keys."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from control.db.database import Database
from control.db.series_step import Steps
from control.fleet.model_rent import ModelRent, model_rents, paid_by
from control.ledger.key_work import KeyWork

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
    """Share of its ready capacity that was used, of all of the span; None: it is not known."""
    idle_usd: float | None
    """Dollars for what was not."""


@dataclass(frozen=True, slots=True)
class ProjectUse:
    """Everything that keys of one project used, in a span."""

    project: str
    """Empty: gateways that ask for no key."""
    usd: float
    """The parts of its keys (`control.ledger.rent_split`)."""
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
    """Dollars for what nobody used: of no project."""


@dataclass(frozen=True, slots=True)
class ServedCounts:
    requests: int
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, works: Iterable[KeyWork]) -> "ServedCounts":
        own = list(works)
        return cls(sum(w.requests for w in own), sum(w.prompt_tokens for w in own), sum(w.output_tokens for w in own))

    def usd_per_million_tokens(self, usd: Fraction) -> float | None:
        tokens = self.prompt_tokens + self.output_tokens
        return float(usd / tokens * _MILLION) if tokens else None


def usage(database: Database, steps: Steps) -> Usage:
    """Reckon a span. What leaked is no model's. Raises DatabaseUnavailableError."""
    rents = model_rents(database, steps)
    return Usage(
        tuple(sorted(map(_model_use, rents), key=lambda each: (-each.usd, each.fleet, each.model))),
        _project_uses(rents),
        float(sum((each.idle_usd for each in rents), Fraction(0))),
    )


def _model_use(of: ModelRent) -> ModelUse:
    served = ServedCounts.of(of.works)
    return ModelUse(
        of.fleet,
        of.model,
        float(of.rent.usd),
        served.requests,
        served.prompt_tokens,
        served.output_tokens,
        served.usd_per_million_tokens(of.rent.usd),
        of.used,
        None if of.used is None else float(of.idle_usd),
    )


def _project_uses(rents: Iterable[ModelRent]) -> tuple[ProjectUse, ...]:
    found = []
    for project, (spent, own) in paid_by(rents, lambda work: work.project).items():
        served = ServedCounts.of(own)
        counts = served.requests, served.prompt_tokens, served.output_tokens
        found.append(ProjectUse(project, float(spent), *counts, served.usd_per_million_tokens(spent)))
    return tuple(sorted(found, key=lambda each: (-each.usd, each.project)))

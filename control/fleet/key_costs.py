"""What each API key cost in a span: its part of the rent of what served it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.series_step import Steps
from control.fleet.model_rent import model_rents, paid_by
from control.fleet.usage import ServedCounts
from control.ledger.money import cents, cents_of_parts, dollars
from control.ledger.period import Period

MOST_SPAN = timedelta(days=92)
"""A quarter: its hours are read for every key."""
_STEPS = 200
"""Parts of the span at most, in each of which it is seen how much of the capacity was used."""


@dataclass(frozen=True, slots=True)
class KeyCost:
    key: str
    """Public part of the token; empty: use of the project that no gateway told by key."""
    name: str
    """Of its user, for people; empty where the token is not on record."""
    project: str
    """Empty: gateways that ask for no key."""
    usd: float
    """Whole cents of the rent of what served it; with `idle_usd` they add up to the rent."""
    requests: int
    """Served."""
    prompt_tokens: int
    output_tokens: int
    usd_per_million_tokens: float | None
    """Of prompts and answers together; None: it was served none."""


@dataclass(frozen=True, slots=True)
class KeyCosts:
    since: datetime
    """Begin of a step of the clock: up to six hours before what was asked for where that is a month."""
    until: datetime
    usd: float
    """Rent, in whole cents."""
    idle_usd: float
    """Of it, for what nobody used."""
    keys: tuple[KeyCost, ...]
    """The dearest first, equal ones by project and key."""


def key_costs(database: Database, span: Period, now: datetime, fleet: str | None = None) -> KeyCosts:
    """Split the rent of a span, of all fleets or one, over keys (`control.ledger.rent_split`). What leaked is no key's.
    Raises ValueError for a span longer than `MOST_SPAN`, DatabaseUnavailableError."""
    if span.until - span.since > MOST_SPAN:
        raise ValueError(f"costs of keys are of {MOST_SPAN.days} days at most: begin later, or ask for less at a time")
    steps = Steps.over(span.since, span.until, _STEPS, now)
    rents = model_rents(database, steps, fleet)
    rent = sum((each.rent.usd for each in rents), Fraction(0))
    idle = sum((each.idle_usd for each in rents), Fraction(0))
    paid = paid_by(rents, lambda work: (work.project, work.key))
    *parts, idle_cents = cents_of_parts([*(usd for usd, _ in paid.values()), idle])
    names = PostgresApiTokens(database).names({key for _, key in paid})
    keys = []
    for ((project, key), (usd, own)), whole_cents in zip(paid.items(), parts, strict=True):
        served = ServedCounts.of(own)
        keys.append(
            KeyCost(
                key,
                names.get(key, ""),
                project,
                dollars(whole_cents),
                served.requests,
                served.prompt_tokens,
                served.output_tokens,
                served.usd_per_million_tokens(usd),
            )
        )
    keys.sort(key=lambda each: (-each.usd, each.project, each.key))
    return KeyCosts(steps.since, steps.until.astimezone(UTC), dollars(cents(rent)), dollars(idle_cents), tuple(keys))

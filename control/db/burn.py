"""Spending between moments, in one pass over the ledger's rows: the burn rate over time.

Every held node begins to cost at one moment and ends at another; between two such moments, or a moment that somebody
asks about, what is spent a second stands still. So all parts of a span cost one sweep over its beginnings and ends,
however many parts there are; the sums are those of `PostgresLedger.charges`, to the last digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import DateTime, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from control.db.database import Database
from control.db.series_step import SeriesOf
from control.ledger.money import SECONDS_PER_HOUR

_BURN = text(
    """
    WITH held AS (
        SELECT node.name, node.requested_at AS since, node.usd_per_hour + node.disk_usd_per_hour AS usd_per_hour,
               node.disk_usd_per_hour, node.gone_at
        FROM node JOIN instance ON instance.id = node.instance_id
        WHERE node.charged AND node.requested_at <= :until AND (node.gone_at IS NULL OR node.gone_at > :since)
              AND coalesce(instance.fleet = CAST(:fleet AS text), true)
              AND coalesce(node.project = CAST(:project AS text), true)
              AND coalesce(node.model = ANY(CAST(:models AS text[])), true)
              AND coalesce(instance.zone = CAST(:zone AS text), true)
              AND coalesce(instance.id = CAST(:instance AS text), true)
    ), stated AS (
        SELECT name, since, usd_per_hour, gone_at FROM held
        UNION ALL
        SELECT held.name, node_price.since, node_price.usd_per_hour + held.disk_usd_per_hour, held.gone_at
        FROM node_price JOIN held ON held.name = node_price.node
        WHERE node_price.since > held.since AND node_price.since <= :until
    ), span AS (
        SELECT since, least(gone_at, lead(since) OVER (PARTITION BY name ORDER BY since)) AS until,
               usd_per_hour AS usd, 0 AS leaked_usd
        FROM stated
        UNION ALL
        SELECT since, gone_at, usd_per_hour, usd_per_hour
        FROM leak
        WHERE CAST(:is_of_all AS boolean)
              AND since <= :until AND (gone_at IS NULL OR gone_at > :since)
    ), cut AS (
        SELECT greatest(since, :since) AS begins, least(until, :until) AS ends, usd, leaked_usd
        FROM span
        WHERE usd IS NOT NULL
    ), step AS (
        SELECT begins AS at, usd, leaked_usd FROM cut WHERE begins < ends
        UNION ALL SELECT ends, -usd, -leaked_usd FROM cut WHERE begins < ends
        UNION ALL SELECT unnest(:bounds), 0, 0
    ), level AS (
        SELECT at, extract(epoch FROM lead(at) OVER (ORDER BY at) - at) AS s,
               sum(usd) OVER (ORDER BY at) AS usd, sum(leaked_usd) OVER (ORDER BY at) AS leaked_usd
        FROM step
    )
    SELECT width_bucket(at, :bounds) AS part, sum(s * usd) AS usd_s_per_hour,
           sum(s * leaked_usd) AS leaked_usd_s_per_hour
    FROM level
    WHERE s > 0
    GROUP BY part
    """
).bindparams(bindparam("bounds", type_=ARRAY(DateTime(timezone=True))))


@dataclass(frozen=True, slots=True)
class Spent:
    """Dollars between two moments, exactly."""

    usd: Fraction
    """Leaks included."""
    leaked_usd: Fraction


def spent_between(
    database: Database,
    bounds: Sequence[datetime],
    fleet: str | None = None,
    project: str | None = None,
    of: SeriesOf | None = None,
) -> tuple[Spent, ...]:
    """Return the spending from each of `bounds`, at least two that grow or stay, to the next one: of everybody, or of
    one fleet or project, or of what `of` names, which have no leaks. Raises DatabaseUnavailableError."""
    of = of or SeriesOf(fleet)
    models = None if of.models is None else list(of.models)
    own = {"fleet": of.fleet, "project": project, "models": models, "zone": of.zone, "instance": of.instance}
    span = {"bounds": list(bounds), "since": bounds[0], "until": bounds[-1]}
    asked = span | own | {"is_of_all": all(each is None for each in own.values())}
    rows = {row.part: row for row in database.read(_BURN, asked)}
    return tuple(
        Spent(_usd(rows[part].usd_s_per_hour), _usd(rows[part].leaked_usd_s_per_hour))
        if part in rows
        else Spent(Fraction(0), Fraction(0))
        for part in range(1, len(bounds))
    )


def _usd(usd_s_per_hour: Decimal) -> Fraction:
    return Fraction(usd_s_per_hour) / SECONDS_PER_HOUR

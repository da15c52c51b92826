"""The cost ledger: what every node has cost, or leaked, reckoned from rows whenever somebody asks.

Money is the integral of price over time. A node is charged from the moment its intent was recorded, when its cloud may
begin to bill, until it is known to be gone. Nothing is kept that could disagree with the rows: sums over any split of
a period are the same to the last digit, since PostgreSQL's `numeric` is exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlalchemy import Row, TextClause, text

from control.db.database import Database
from control.ledger.charge import Charge
from control.ledger.money import SECONDS_PER_HOUR
from control.ledger.period import Period

# Each node's price, its disk included, from when until when; `least` passes over what is null.
_CHARGES = text(
    """
    WITH held AS (
        SELECT name, instance_id, cloud, project, model, usd_per_hour + disk_usd_per_hour AS usd_per_hour,
               disk_usd_per_hour,
               requested_at AS begins, least(gone_at, :until) AS ends, gone_at IS NULL OR gone_at > :until AS living
        FROM node
        WHERE charged AND requested_at <= :until AND (gone_at IS NULL OR gone_at > :since)
    ), stated AS (
        SELECT name, begins AS since, usd_per_hour FROM held
        UNION ALL
        SELECT held.name, node_price.since, node_price.usd_per_hour + held.disk_usd_per_hour
        FROM node_price JOIN held ON held.name = node_price.node
        WHERE node_price.since > held.begins AND node_price.since <= :until
    ), priced AS (
        SELECT name, since, usd_per_hour, lead(since) OVER (PARTITION BY name ORDER BY since) AS until FROM stated
    ), charged AS (
        SELECT held.*, priced.usd_per_hour AS price, priced.until IS NULL AND held.living AS current,
               greatest(0, extract(epoch FROM least(held.ends, priced.until) - greatest(priced.since, :since))) AS s
        FROM held JOIN priced USING (name)
    )
    SELECT charged.instance_id, instance.fleet, charged.project, charged.model, charged.cloud, instance.market,
           coalesce(sum(s * price), 0) AS usd_s_per_hour,
           coalesce(sum(price) FILTER (WHERE current), 0) AS usd_per_hour,
           count(*) FILTER (WHERE current) AS nodes,
           coalesce(sum(s) FILTER (WHERE price IS NULL), 0) AS unpriced_s
    FROM charged JOIN instance ON instance.id = charged.instance_id
    GROUP BY charged.instance_id, instance.fleet, charged.project, charged.model, charged.cloud, instance.market
    ORDER BY 1, 3, 4, 5
    """
)

_LEAKS = text(
    """
    SELECT '' AS instance_id, '' AS fleet, '' AS project, '' AS model, cloud, '' AS market,
           coalesce(sum(s * usd_per_hour), 0) AS usd_s_per_hour,
           coalesce(sum(usd_per_hour) FILTER (WHERE living), 0) AS usd_per_hour,
           count(*) FILTER (WHERE living) AS nodes,
           coalesce(sum(s) FILTER (WHERE usd_per_hour IS NULL), 0) AS unpriced_s
    FROM (
        SELECT cloud, usd_per_hour, gone_at IS NULL OR gone_at > :until AS living,
               greatest(0, extract(epoch FROM least(gone_at, :until) - greatest(since, :since))) AS s
        FROM leak
        WHERE since <= :until AND (gone_at IS NULL OR gone_at > :since)
    ) AS leaked
    GROUP BY cloud
    ORDER BY cloud
    """
)


@dataclass(frozen=True, slots=True)
class PostgresLedger:
    database: Database

    def charges(self, period: Period) -> tuple[Charge, ...]:
        """Return the charges of every instance that had a node in the period, by instance, and of every cloud where
        something leaked.

        A period that ends in the future counts what is held now as held until then: it forecasts. Also raises
        DatabaseUnavailableError.
        """
        return self._read(period, _CHARGES, _LEAKS)

    def leaks(self, period: Period) -> tuple[Charge, ...]:
        """Return those of `charges` that leaked, by cloud."""
        return self._read(period, _LEAKS)

    def _read(self, period: Period, *queries: TextClause) -> tuple[Charge, ...]:
        bounds = {"since": period.since, "until": period.until}
        with self.database.transaction() as connection:
            return tuple(_charge(row) for query in queries for row in connection.execute(query, bounds))


def _charge(row: Row[Any]) -> Charge:
    return Charge(
        instance_id=row.instance_id,
        fleet=row.fleet,
        project=row.project,
        model=row.model,
        cloud=row.cloud,
        market=row.market,
        usd=Fraction(row.usd_s_per_hour) / SECONDS_PER_HOUR,
        usd_per_hour=Fraction(row.usd_per_hour),
        nodes=row.nodes,
        unpriced_node_s=float(row.unpriced_s),
    )

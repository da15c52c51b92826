"""Live offers in PostgreSQL: what each cloud sells now, what it cost before, and how asking went."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from control.db.database import Database
from control.db.market_tables import live_offer, market_memory, market_source, offer_price
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.offer import Offer, QuarantinedOffer
from templates_lib.values.supply import SupplyPool


@dataclass(frozen=True, slots=True)
class CloudMarket:
    """Offers of a cloud now, or when it last answered."""

    cloud: str
    source: str
    attempted_at: datetime
    succeeded_at: datetime | None
    """None: never."""
    left_out: str = ""
    """Why its offers are not to be planned with; empty: they are."""
    failure: str = ""
    """Failure of the last attempt; empty: there was none."""
    offers: tuple[Offer, ...] = ()
    configs: Mapping[str, NodeConfig] = field(default_factory=dict)
    pools: tuple[SupplyPool, ...] = ()
    quarantined: tuple[QuarantinedOffer, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PricePoint:
    usd_per_hour: float | None
    """None: not sold any more."""
    source: str
    observed_at: datetime
    """Time at which the price began, by its source."""
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class PostgresOffers:
    """Every method also raises DatabaseUnavailableError."""

    database: Database

    def markets(self) -> dict[str, CloudMarket]:
        """Return the markets by cloud, of all that were asked at least once."""
        with self.database.transaction() as connection:
            sources = connection.execute(select(market_source).order_by(market_source.c.cloud)).all()
            offers: dict[str, list[Offer]] = {}
            for cloud, offer in connection.execute(
                select(live_offer.c.cloud, live_offer.c.offer).order_by(live_offer.c.key)
            ):
                offers.setdefault(cloud, []).append(msgspec.json.decode(offer, type=Offer))
        return {row.cloud: _market(row, tuple(offers.get(row.cloud, ()))) for row in sources}

    def mark(self) -> tuple[object, ...]:
        """Return a mark that is another one whenever what clouds say, or answered, has changed."""
        query = select(
            select(func.max(market_source.c.attempted_at)).scalar_subquery(),
            select(func.max(offer_price.c.sequence)).scalar_subquery(),
            select(func.sum(market_memory.c.version)).scalar_subquery(),
            select(func.count()).select_from(market_source).scalar_subquery(),
        )
        return tuple(self.database.read(query)[0])

    def quarantined(self) -> dict[str, tuple[QuarantinedOffer, ...]]:
        """Return the quarantined offers by cloud, of all that were asked at least once."""
        query = select(market_source.c.cloud, market_source.c.quarantined).order_by(market_source.c.cloud)
        rows = self.database.read(query)
        return {row.cloud: msgspec.json.decode(row.quarantined, type=tuple[QuarantinedOffer, ...]) for row in rows}

    def prices(self, cloud: str) -> dict[str, float]:
        """Offer key → $/h, as stored last."""
        query = select(live_offer.c.offer).where(live_offer.c.cloud == cloud)
        found = [msgspec.json.decode(row, type=Offer) for row in self.database.read_column(query)]
        return {offer.key: offer.usd_per_hour for offer in found}

    def answered(self, market: CloudMarket, *, partly: bool) -> None:
        """A cloud's answer as of `market.attempted_at`. Each price that differs from the stored one joins the history.

        Offers that it does not name are not sold any more, unless it answered only `partly`.
        """
        named = {offer.key: offer for offer in market.offers}
        with self.database.transaction() as connection:
            _lock(connection, market)
            query = select(live_offer.c.key, live_offer.c.offer).where(live_offer.c.cloud == market.cloud)
            stored = {key: msgspec.json.decode(offer, type=Offer) for key, offer in connection.execute(query)}
            aside = {each.offer.key for each in market.quarantined}
            gone = [] if partly else [key for key in stored if key not in named and key not in aside]
            news = [_point(o, market.attempted_at) for key, o in named.items() if _price(stored.get(key)) != _price(o)]
            news += [_end(stored[key], market) for key in gone]
            changed = [o for key, o in named.items() if stored.get(key) != o]
            if news:
                connection.execute(insert(offer_price), news)
            if gone:
                connection.execute(delete(live_offer).where(live_offer.c.key.in_(gone)))
            if changed:
                new = upsert(live_offer)
                rows = [{"key": offer.key, "cloud": offer.cloud, "offer": offer} for offer in changed]
                connection.execute(
                    new.on_conflict_do_update(index_elements=["key"], set_={"offer": new.excluded.offer}), rows
                )
            said = {
                "source": market.source,
                "attempted_at": market.attempted_at,
                "succeeded_at": market.attempted_at,
                "left_out": market.left_out,
                "failure": market.failure,
                "configs": market.configs,
                "pools": market.pools,
                "quarantined": market.quarantined,
                "notes": market.notes,
            }
            connection.execute(update(market_source).where(market_source.c.cloud == market.cloud).values(said))

    def failed(self, cloud: str, source: str, failure: str, left_out: str | None, now: datetime) -> None:
        """A cloud gave no answer. What it said before stays; so does `left_out` when it is None."""
        with self.database.transaction() as connection:
            _lock(connection, CloudMarket(cloud, source, now, None))
            said: dict[str, Any] = {"attempted_at": now, "failure": failure}
            if left_out is not None:
                said["left_out"] = left_out
            connection.execute(update(market_source).where(market_source.c.cloud == cloud).values(said))

    def accept(self, key: str, now: datetime) -> Offer | None:
        """A person vouches for the quarantined price of an offer; None: there is none."""
        with self.database.transaction() as connection:
            for row in connection.execute(select(market_source).with_for_update()).all():
                aside = msgspec.json.decode(row.quarantined, type=tuple[QuarantinedOffer, ...])
                found = next((each.offer for each in aside if each.offer.key == key), None)
                if found is None:
                    continue
                rest = tuple(each for each in aside if each.offer.key != key)
                mine = market_source.c.cloud == row.cloud
                connection.execute(update(market_source).where(mine).values(quarantined=rest))
                new = upsert(live_offer).values(key=key, cloud=found.cloud, offer=found)
                connection.execute(
                    new.on_conflict_do_update(index_elements=["key"], set_={"offer": new.excluded.offer})
                )
                connection.execute(insert(offer_price), [_point(found, now)])
                return found
        return None

    def forget(self, cloud: str) -> bool:
        """Drop a cloud's live offers, so that the shipped ones count again; the history stays. False: it has none."""
        with self.database.transaction() as connection:
            connection.execute(delete(live_offer).where(live_offer.c.cloud == cloud))
            gone = delete(market_source).where(market_source.c.cloud == cloud).returning(market_source.c.cloud)
            return connection.execute(gone).scalar_one_or_none() is not None

    def history(self, key: str, since: datetime) -> tuple[PricePoint, ...]:
        """Prices of an offer, oldest first: the one that held at `since`, as far as it is known, and all after it."""
        mine = select(offer_price).where(offer_price.c.key == key)
        before = mine.where(offer_price.c.observed_at < since).order_by(offer_price.c.sequence.desc()).limit(1)
        after = mine.where(offer_price.c.observed_at >= since).order_by(offer_price.c.sequence)
        with self.database.transaction() as connection:
            rows = [*connection.execute(before).all(), *connection.execute(after).all()]
        return tuple(PricePoint(row.usd_per_hour, row.source, row.observed_at, row.recorded_at) for row in rows)


def _lock(connection: Connection, market: CloudMarket) -> None:
    """The cloud's row, made where there is none: whoever answers for a cloud takes turns."""
    nothing: dict[str, Any] = {"configs": {}, "pools": [], "quarantined": [], "notes": []}
    told = {"cloud": market.cloud, "source": market.source, "attempted_at": market.attempted_at}
    new = upsert(market_source).values(told | nothing | {"left_out": "", "failure": ""})
    connection.execute(new.on_conflict_do_nothing())
    connection.execute(select(market_source.c.cloud).where(market_source.c.cloud == market.cloud).with_for_update())


def _market(row: Any, offers: tuple[Offer, ...]) -> CloudMarket:
    return CloudMarket(
        row.cloud,
        row.source,
        row.attempted_at,
        row.succeeded_at,
        row.left_out,
        row.failure,
        offers,
        msgspec.json.decode(row.configs, type=dict[str, NodeConfig]),
        msgspec.json.decode(row.pools, type=tuple[SupplyPool, ...]),
        msgspec.json.decode(row.quarantined, type=tuple[QuarantinedOffer, ...]),
        msgspec.json.decode(row.notes, type=tuple[str, ...]),
    )


def _price(offer: Offer | None) -> tuple[float, str] | None:
    return None if offer is None else (offer.usd_per_hour, offer.source)


def _point(offer: Offer, now: datetime) -> dict[str, Any]:
    return {
        "key": offer.key,
        "usd_per_hour": offer.usd_per_hour,
        "source": offer.source,
        "observed_at": _time(offer.observed_at, now),
        "recorded_at": now,
    }


def _end(offer: Offer, market: CloudMarket) -> dict[str, Any]:
    now = market.attempted_at
    return _point(offer, now) | {"usd_per_hour": None, "source": market.source, "observed_at": now}


def _time(text: str, otherwise: datetime) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

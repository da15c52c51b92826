"""Keeps live offers fresh while a control plane runs: the clouds of all fleets on record, every few minutes."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.live_offers import CloudMarket, PostgresOffers
from control.fleet_file.document import parse
from control.fleet_file.problem import SpecError
from control.market.refresh import Refreshed, refresh
from control.market.sources import known_clouds, sources_of
from control.offers.live.source import LiveSource

_log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Between looks at whose offers are old."""
EVERY = timedelta(minutes=10)
"""Spot prices move in hours; quotas and price lists hold for days."""


class MarketWatch:
    """Watch of what clouds sell. Several processes may watch: whoever finds an answer that is young enough leaves the
    cloud alone."""

    def __init__(
        self,
        database: Database,
        environment: Mapping[str, str],
        sources: Callable[[Iterable[str], Mapping[str, str]], tuple[LiveSource, ...]] = sources_of,
        wake: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """`wake` is told the fleet, and why, when one of its clouds answers for the first time, is left out, or is so
        no more: until its next turn it would be planned with what is not so."""
        self._database = database
        self._environment = environment
        self._sources = sources
        self._wake = wake

    def step(self, now: datetime) -> tuple[Refreshed, ...]:
        """Ask the clouds that are due; blocking, for as long as a round takes. Raises DatabaseUnavailableError."""
        clouds = {record.name: _clouds(record.spec) for record in PostgresFleets(self._database).all()}
        named = sorted(set().union(*clouds.values()))
        markets = PostgresOffers(self._database).markets()
        due = [cloud for cloud in named if cloud not in markets or markets[cloud].attempted_at + EVERY <= now]
        done = refresh(self._database, self._sources(due, self._environment), now) if due else ()
        for each in done:
            before = markets.get(each.cloud)
            if each.failure and (before is None or before.failure != each.failure):
                _log.warning("%s: its offers are not to be had now: %s", each.cloud, each.failure)
            if why := _news(before, each):
                for fleet in (name for name, its in clouds.items() if each.cloud in its):
                    self._wake(fleet, why)
        return done


def _news(before: CloudMarket | None, now: Refreshed) -> str:
    """Return why fleets are to be planned again; empty when there is no reason."""
    if now.is_left_out:
        return "" if before is not None and before.left_out else f"{now.cloud} is left out"
    if not now.failure and (before is None or before.succeeded_at is None or before.left_out):
        return f"{now.cloud} says what it sells"
    return ""


def _clouds(spec: str) -> set[str]:
    """Return the clouds that a spec names and that can be asked; of a spec that cannot be read none."""
    try:
        value = parse(spec, "").value
    except SpecError:
        return set()
    sections = value.get("clouds") if isinstance(value, dict) else None
    names = {s.get("cloud") for s in sections if isinstance(s, dict)} if isinstance(sections, list) else set()
    return {name for name in known_clouds() if name in names}

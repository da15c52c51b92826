"""Keeps live offers fresh while a control plane runs: the clouds of all fleets on record, every few minutes."""

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.live_offers import PostgresOffers
from control.market.refresh import Refreshed, refresh
from control.market.sources import known_clouds, sources_of
from control.offers.live.source import LiveSource
from control.spec.document import parse
from control.spec.problem import SpecError

_log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Between looks at whose offers are old."""
EVERY = timedelta(minutes=10)
"""Spot prices move in hours; quotas and price lists hold for days."""


class MarketWatch:
    """Several processes may watch: whoever finds an answer that is young enough leaves the cloud alone."""

    def __init__(
        self,
        database: Database,
        environment: Mapping[str, str],
        sources: Callable[[Iterable[str], Mapping[str, str]], tuple[LiveSource, ...]] = sources_of,
    ) -> None:
        self._database = database
        self._environment = environment
        self._sources = sources

    def step(self, now: datetime) -> tuple[Refreshed, ...]:
        """Ask the clouds that are due; blocking, for as long as a round takes. Raises DatabaseUnavailableError."""
        named = {name for record in PostgresFleets(self._database).all() for name in _clouds(record.spec)}
        markets = PostgresOffers(self._database).markets()
        due = [cloud for cloud in sorted(named) if cloud not in markets or markets[cloud].attempted_at + EVERY <= now]
        done = refresh(self._database, self._sources(due, self._environment), now) if due else ()
        for each in done:
            before = markets.get(each.cloud)
            if each.failure and (before is None or before.failure != each.failure):
                _log.warning("%s: its offers are not to be had now: %s", each.cloud, each.failure)
        return done


def _clouds(spec: str) -> set[str]:
    """That a spec names and that can be asked; of one that cannot be read none."""
    try:
        value = parse(spec, "").value
    except SpecError:
        return set()
    sections = value.get("clouds") if isinstance(value, dict) else None
    names = {s.get("cloud") for s in sections if isinstance(s, dict)} if isinstance(sections, list) else set()
    return {name for name in known_clouds() if name in names}

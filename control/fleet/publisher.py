"""Writes the routing table whenever what it says has changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agents.channels.dialer import Address
from control.db.api_tokens import PostgresApiTokens
from control.db.errors import DatabaseUnavailableError
from control.diff.target import Target
from control.fleet.routing import Routing
from control.gateway.published import AccessKey, Published, PublishedError, read_published, write_published
from control.hub.gang import placed_gang


class RoutingSink(Protocol):
    """Who is told how fleets are reached, whatever is ready of them."""

    def serve(self, fleet: str, routing: Routing) -> None: ...

    def drop(self, fleet: str) -> None: ...


class Publisher:
    """Of one file, of which it is the only writer."""

    def __init__(self, path: Path, tokens: PostgresApiTokens, clock: Callable[[], datetime]) -> None:
        self._path = path
        self._routings: dict[str, Routing] = {}
        self._tokens = tokens
        self._clock = clock
        self._access: tuple[AccessKey, ...] = ()
        self._demand_desk: Address | None = None
        self._last: Published | None = None
        if path.exists():
            try:
                self._last = read_published(path)
            except PublishedError:
                self._last = None  # it is written anew
        if self._last is not None and self._last.access is not None:
            self._access = self._last.access

    @property
    def addresses(self) -> dict[str, Address]:
        """Where schedulers are, by the last table."""
        return {} if self._last is None else dict(self._last.addresses)

    def tell_demand_to(self, desk: Address) -> None:
        """From the next table on gateways report there what load they are offered."""
        self._demand_desk = desk

    def serve(self, fleet: str, routing: Routing) -> None:
        """From the next table on; models of other fleets stay."""
        self._routings[fleet] = routing

    def drop(self, fleet: str) -> None:
        """Its models are not served any more. Again: no harm."""
        self._routings.pop(fleet, None)

    def publish(self, ready: Iterable[tuple[str, Target, Mapping[str, Address]]]) -> None:
        """While the database does not answer, clients are known by the last table's keys."""
        try:
            clients = self._tokens.clients(self._clock())
            self._access = tuple(
                AccessKey(token.id, digest.hex(), token.project, token.requests_per_minute, token.tokens_per_minute)
                for token, digest in clients
            )
        except DatabaseUnavailableError:
            pass
        version = 0 if self._last is None else self._last.version
        there = list(ready)
        models = tuple(model for _, routing in sorted(self._routings.items()) for model in routing.served(there))
        routed = {member.id for model in models for member in model.routing.members}
        gangs = [(instance, placed_gang(what.template), at) for instance, what, at in there]
        found = {gang.member(instance, executor): at[executor] for instance, gang, at in gangs for executor in at}
        addresses = {member: address for member, address in found.items() if member in routed}
        table = Published(version, addresses, models, self._access, self._demand_desk)
        if table != self._last:
            self._last = replace(table, version=version + 1)
            write_published(self._path, self._last)

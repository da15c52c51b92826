"""Writes the routing table whenever what it says has changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agents.channels.address import Address
from control.access.use_limits import NO_LIMITS
from control.db.api_tokens import PostgresApiTokens
from control.db.errors import DatabaseUnavailableError
from control.db.projects import PostgresProjects
from control.diff.target import Target
from control.fleet.routing import Routing
from control.gateway.published import AccessKey, Published, PublishedError, read_published, write_published


class RoutingSink(Protocol):
    """Receiver of how fleets are reached, whatever is ready of them."""

    def serve(self, fleet: str, routing: Routing) -> None: ...

    def drop(self, fleet: str) -> None: ...

    def taken(self) -> Mapping[str, Mapping[str, str]]:
        """Fleet → the names of its models that clients know as another fleet's, and which."""
        ...


class Publisher:
    """Writer of the routing table's file, and the only one."""

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
        """Return the addresses of schedulers in the last table, by member."""
        return {} if self._last is None else dict(self._last.addresses)

    def tell_demand_to(self, desk: Address) -> None:
        """Have gateways report to `desk` what load they are offered, from the next table on."""
        self._demand_desk = desk

    def serve(self, fleet: str, routing: Routing) -> None:
        """Route requests for a fleet's models, from the next table on; models of other fleets stay."""
        self._routings[fleet] = routing

    def drop(self, fleet: str) -> None:
        """Leave a fleet's models out from the next table on. A second call changes nothing."""
        self._routings.pop(fleet, None)

    def taken(self) -> dict[str, dict[str, str]]:
        claims = self._claims()
        found = {
            fleet: {name: claims[name] for name in routing.models if claims[name] != fleet}
            for fleet, routing in self._routings.items()
        }
        return {fleet: names for fleet, names in found.items() if names}

    def _claims(self) -> dict[str, str]:
        """Return the fleet that each name of a model leads to: of those that have such a model, the one that is served
        for longest."""
        claims: dict[str, str] = {}
        for fleet, routing in self._routings.items():  # in the order in which they came
            for name in (*routing.models, *(app.name for app in routing.apps)):
                claims.setdefault(name, fleet)
        return claims

    def publish(self, ready: Iterable[tuple[str, Target, Mapping[str, Address]]]) -> None:
        """Write a table of what is ready, if it differs from the last. While the database does not answer, clients are
        known by the last table's keys."""
        try:
            clients = self._tokens.clients(self._clock())
            limits = PostgresProjects(self._tokens.database).limits()
            self._access = tuple(
                AccessKey(
                    token.id,
                    kept.digest.hex(),
                    token.project,
                    token.requests_per_minute,
                    token.tokens_per_minute,
                    token.priority,
                    token.concurrent_requests,
                    limits.get(token.project, NO_LIMITS),
                    kept.pepper,
                )
                for token, kept in clients
            )
        except DatabaseUnavailableError:
            pass
        version = 0 if self._last is None else self._last.version
        there, claims = list(ready), self._claims()
        models = tuple(
            model
            for fleet, routing in sorted(self._routings.items())
            for model in routing.served(there)
            if claims[model.routing.id] == fleet
        )
        members = sorted({member.id for model in models for member in model.routing.members})
        executors = {instance: at for instance, _, at in there}
        addresses = {member: _address(member, executors) for member in members}
        apps = tuple(
            app
            for fleet, routing in sorted(self._routings.items())
            for app in routing.apps
            if claims.get(app.name) == fleet and all(claims.get(name) == fleet for name in app.types.values())
        )
        table = Published(version, addresses, models, self._access, self._demand_desk, apps)
        if table != self._last:
            self._last = replace(table, version=version + 1)
            write_published(self._path, self._last)


def _address(member: str, executors: Mapping[str, Mapping[str, Address]]) -> Address:
    """Return where the scheduler of a member is. `executors`: by instance, the address of each of its executors."""
    instance, _, executor = member.partition("/")
    at = executors[instance]
    return at[executor] if executor else next(iter(at.values()))  # an executor that is alone has no name there


def unasked(taken: Mapping[str, str]) -> str:
    """Say which models of a fleet clients do not reach, as another has their names (see `taken`); empty: none."""
    return "; ".join(
        f"clients do not reach its {model}, which is the name of a model of fleet {fleet}: give one of them another"
        for model, fleet in sorted(taken.items())
    )

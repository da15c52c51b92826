"""Context that every action needs: who acts, when, and where it is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from control.db.database import Database
from control.db.events import PostgresEvents
from control.lifecycle.fleet_event import Detail, FleetEvent


@dataclass(frozen=True, slots=True)
class ActionContext:
    database: Database
    now: datetime
    actor: str
    """As events name it: `cli:USER`, `token:ID`."""
    label: str = ""
    """Precedes the text of events where `actor` tells people nothing, such as a token's name."""
    trace: str = ""
    """W3C trace id of the request; empty: there is none."""

    @contextmanager
    def as_one(self) -> Iterator["ActionContext"]:
        """The same in one transaction, so that an action and its event stand together or not at all."""
        with self.database.as_one() as database:
            yield replace(self, database=database)

    def record(self, kind: str, text: str, subject: str, fleet: str = "", detail: Detail | None = None) -> None:
        """Write the event of an action."""
        event = FleetEvent(self.actor, kind, self.signed(text), fleet, subject, detail or {}, self.trace)
        PostgresEvents(self.database).add([event], self.now)

    def signed(self, text: str) -> str:
        return f"{self.label}: {text}" if self.label else text

"""Keys with which calls of models are made: one a project, so that its use is counted and limited as its own."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.orchestrator.patient_journal import patiently

LIFE = timedelta(days=1)
_EARLY = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    secret: str
    until: datetime


class ProjectKeys:
    """Threads may ask at the same time. Keys are of this process: they end with it, or after `LIFE`."""

    def __init__(self, database: Database, holder: str, clock: Callable[[], datetime]) -> None:
        self._tokens, self._holder, self._clock = PostgresApiTokens(database), holder, clock
        self._create = patiently(self._tokens.create)
        self._keys: dict[str, _Key] = {}
        self._lock = threading.Lock()

    def key(self, project: str) -> str:
        """Raises DeposedError where one has to be made, and the database is away for as long as runs wait for it."""
        with self._lock:
            now, known = self._clock(), self._keys.get(project)
            if known is None or known.until - _EARLY < now:
                name = f"orchestrator {self._holder}"
                token, secret = self._create(name, Role.CLIENT, now, now + LIFE, project)
                known = self._keys[project] = _Key(token.id, secret.reveal(), now + LIFE)
            return known.secret

    def revoke(self) -> None:
        with self._lock:
            for key in self._keys.values():
                self._tokens.revoke(key.id, self._clock())
            self._keys.clear()

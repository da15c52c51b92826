"""What the resources of a provider process share."""

import threading
from dataclasses import dataclass, field

from medley_terraform.client import Client
from medley_terraform.failure import Failure


@dataclass(slots=True)
class Session:
    plan_timeout_s: float = 600.0
    """Seconds that a dry run of a fleet may take."""
    stopping: threading.Event = field(default_factory=threading.Event)
    connected: Client | None = None
    """None: the endpoint or the token is not known yet, as while the control plane is to be made by the same apply."""
    one_by_one: threading.Lock = field(default_factory=threading.Lock)
    """Held by whoever asks for what two threads must not ask for at the same time."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    @property
    def client(self) -> Client:
        if self.connected is None:
            raise Failure(
                "not-configured",
                "the endpoint or the token of the provider is not known before apply: apply what makes them first, "
                "for instance with -target",
            )
        return self.connected

    def first(self, kind: str, name: str) -> bool:
        """Return whether this is the first time that it is asked for in this process."""
        with self._lock:
            if (kind, name) in self._seen:
                return False
            self._seen.add((kind, name))
            return True

    def was(self, kind: str, name: str) -> bool:
        """Return whether `first` was asked for it."""
        with self._lock:
            return (kind, name) in self._seen

"""A store of KV caches that says how far they are computed, so that they can be sent meanwhile."""

from collections.abc import Callable
from typing import Protocol

from agents.engines.guarded_engine import Computed
from agents.engines.protocol import KvStore


class WatchedKv(KvStore, Protocol):
    """Its calls may come from any thread, and no request is freed while KV cache of it is copied."""

    watchers: set[Callable[[], None]]
    """Called whenever more is computed; they must not hold it up."""

    def computed(self, request_id: str) -> Computed:
        """Return what of a request there is to send."""

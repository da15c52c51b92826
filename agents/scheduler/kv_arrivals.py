"""KV cache that comes for a run: a peer that is a pipeline inside has all of it when each of its parts has."""

from agents.scheduler.flight import BadResultError
from agents.scheduler.workers import WorkerPlace


class KvArrivals:
    """Workers of each run and what came to them, from its reservation to its release."""

    def __init__(self) -> None:
        self._moved_bytes: dict[int, dict[WorkerPlace, int | None]] = {}
        """By run and worker; None: not there yet."""

    def expect(self, run: int, places: list[WorkerPlace]) -> None:
        self._moved_bytes[run] = dict.fromkeys(places)

    def arrive(self, run: int, place: WorkerPlace, moved_bytes: int) -> int | None:
        """Bytes over the links for the whole peer, once the last of its parts has its own; None: not yet, or the run is
        gone. Raises BadResultError."""
        known = self._moved_bytes.get(run)
        if known is None:
            return None
        if known.get(place, 0) is not None:
            raise BadResultError(f"the worker at {place} got KV cache of run {run}, of which it waits for none")
        known[place] = moved_bytes
        of_peer = [moved for at, moved in known.items() if (at.stage, at.node) == (place.stage, place.node)]
        there = [moved for moved in of_peer if moved is not None]
        return sum(there) if len(there) == len(of_peer) else None

    def forget(self, run: int) -> None:
        self._moved_bytes.pop(run, None)

"""What gateways said of the last seconds, in memory: the next report replaces it, and a control plane that begins to
lead hears all of it within seconds."""

from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from agents.messages.to_demand_desk import Recent, RecentLine
from control.db.demand import SILENT
from policies.pools.lateness import Answers


@dataclass(slots=True)
class HeardOf:
    """Of one model, all gateways together."""

    requests: int = 0
    """That came in the last seconds."""
    requests_per_s: float = 0.0
    units_per_s: dict[str, float] = field(default_factory=dict)
    """By work class."""
    answers: Answers = field(default_factory=Answers)

    def add(self, line: RecentLine, seconds: float) -> None:
        """Take in what one gateway says of that many seconds."""
        self.requests += line.requests
        self.requests_per_s += line.requests / seconds
        for each in line.work:
            self.units_per_s[each.work_class] = self.units_per_s.get(each.work_class, 0.0) + each.units / seconds
        # A gateway that counts wrongly hides nobody else's delays.
        self.answers += Answers(line.judged, min(line.in_time, line.judged))


class HeardLoad:
    """For any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._said: dict[bytes, tuple[datetime, Recent]] = {}
        """Connection of a gateway's process → when it said what. As many as there are connections."""

    def hear(self, connection: bytes, recent: Recent, now: datetime) -> None:
        with self._lock:
            self._said[connection] = now, recent

    def forget(self, connection: bytes) -> None:
        """Whoever it was has left."""
        with self._lock:
            self._said.pop(connection, None)

    def of(self, fleet: str, now: datetime) -> dict[str, HeardOf]:
        """Return what was asked of a fleet's models, of those that anybody was asked for."""
        with self._lock:
            said = [recent for at, recent in self._said.values() if now - at < SILENT]
        found: dict[str, HeardOf] = {}
        for recent in said:
            for line in recent.lines:
                if line.fleet == fleet:
                    found.setdefault(line.app, HeardOf()).add(line, recent.seconds)
        return found

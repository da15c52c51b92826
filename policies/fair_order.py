"""Fairness between the accounts whose requests wait in one queue: projects, and API keys within them.

Work is counted in seconds in which all members together compute it. A request goes to its place in the queue, and
behind that by what its account has waiting already: by what its project has, or its key times as many keys as the
project has waiting, whichever is less. So an account alone is served in the order of the queue; one that floods it
falls behind by its own flood, however many keys it has, and a request of somebody who has nothing waiting passes all of
it. A place is found once: what comes later goes behind it in the end, and nobody starves.
"""

from dataclasses import dataclass, field

Account = tuple[str, str]
"""Project and key."""


@dataclass(slots=True)
class _Waiting:
    requests: int = 0
    seconds: float = 0.0
    keys: set[str] = field(default_factory=set)
    """Of a project, those that have something waiting."""

    def count(self, requests: int, seconds: float) -> bool:
        """False once nothing waits any more: what is left in `seconds` is rounding."""
        self.requests += requests
        self.seconds += seconds
        return self.requests > 0


class Backlog:
    """Work of each account that waits in a queue."""

    def __init__(self) -> None:
        self._projects: dict[str, _Waiting] = {}
        self._keys: dict[Account, _Waiting] = {}

    @property
    def seconds(self) -> float:
        """Time in which all that waits is computed."""
        return sum(project.seconds for project in self._projects.values())

    def behind_s(self, account: Account) -> float:
        """Seconds by which the next request of the account falls behind."""
        project, key = self._projects.get(account[0]), self._keys.get(account)
        if project is None or key is None:
            return 0.0
        return min(project.seconds, key.seconds * len(project.keys))

    def add(self, account: Account, seconds: float) -> None:
        self._projects.setdefault(account[0], _Waiting()).count(1, seconds)
        self._projects[account[0]].keys.add(account[1])
        self._keys.setdefault(account, _Waiting()).count(1, seconds)

    def remove(self, account: Account, seconds: float) -> None:
        """Count out a request that was added with as many."""
        if not self._projects[account[0]].count(-1, -seconds):
            del self._projects[account[0]]
        if not self._keys[account].count(-1, -seconds):
            del self._keys[account]
            if account[0] in self._projects:
                self._projects[account[0]].keys.discard(account[1])

"""Size of a pool between two plans, at two speeds (ModServe, sections 4.2 and 4.3): members on nodes that are held
anyway wake (shift), and what these lack is rented (burst). The plan itself is the third speed: it says how many there
are at least.

A pool grows at once: when its load, or the time in which it could clear what waits, asks for more than it has, or when
fewer answers than the threshold are in time though all that it has serves. It shrinks when it could have served the
highest load of a while, and `band` more, with fewer, and was not late with so few; so a load that varies by less has it
stay as it is. What was rented goes first.
"""

from collections import deque
from dataclasses import dataclass, field
from math import inf

from policies.pools.lateness import ATTAINED_S, Answers, Lateness, may_help
from policies.pools.scaling_settings import ScalingSettings
from policies.pools.sizing import replicas


@dataclass(frozen=True, slots=True)
class Pulse:
    """What gateways say of a pool."""

    units_per_s: float
    """Work that came, over the last ten seconds."""
    pending_units: float
    answers: Answers = field(default_factory=Answers)
    """Requests that ended its stage in the last minute."""


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Members, whether they serve already or are starting."""

    planned: int
    """Of the accepted plan: the pool has no fewer."""
    awake: int
    """Of those on held nodes beyond the plan, that serve."""
    asleep: int
    """That could."""
    rented: int
    starting: int = 0
    """Of all of these."""

    @property
    def members(self) -> int:
        return self.planned + self.awake + self.rented


@dataclass(frozen=True, slots=True)
class Scaling:
    """What to change; nothing is above 0 where nothing is to be."""

    wake: int = 0
    sleep: int = 0
    rent: int = 0
    release: int = 0
    why: str = ""
    """For people and events; empty where nothing changes."""


@dataclass(slots=True)
class PoolScaler:
    """Decides for one pool, pulse by pulse."""

    capacity: float
    """Units/s that a member sustains within its objective (certified)."""
    settings: ScalingSettings = field(default_factory=ScalingSettings)
    _needed: deque[tuple[float, int]] = field(default_factory=deque)
    """(when, members that a pulse asked for, with the band on top)."""
    _late: Lateness = field(init=False)
    _changed_s: float = -inf
    """When it last was to grow, or had members that were starting: answers of before say nothing of what it is then."""

    def __post_init__(self) -> None:
        self._late = Lateness(self.settings)

    def decide(self, now_s: float, pulse: Pulse, size: PoolSize) -> Scaling:
        """Change of the pool after this pulse. Pulses come in order of time."""
        load = pulse.units_per_s + pulse.pending_units / self.settings.clear_s
        asked = replicas(load, self.capacity)
        self._late.take(now_s, load)
        if size.starting:
            self._changed_s = now_s
        is_steady = now_s - self._changed_s >= ATTAINED_S
        is_late = is_steady and pulse.answers.is_below(self.settings.threshold)
        if is_late and asked <= size.members and may_help(size.members, asked):
            self._late.note(now_s, size.members + 1)
        late = int(self._late.enough(now_s))
        needed = max(asked, late)
        self._note(now_s, max(needed, replicas((1 + self.settings.band) * load, self.capacity)))
        if needed <= size.members:
            return self._shrunk(max(each for _, each in self._needed), now_s, size)
        self._changed_s = now_s
        why = f"{load:,.0f} units/s" if asked >= late else f"delays at this load ({pulse.answers.share:.1%} in time)"
        return self._grown(needed, size, f"{why} ask for")

    def _note(self, now_s: float, needed: int) -> None:
        self._needed.append((now_s, needed))
        while len(self._needed) > 1 and self._needed[1][0] <= now_s - self.settings.calm_s:
            self._needed.popleft()  # the one before is known to have held until then

    def _grown(self, needed: int, size: PoolSize, why: str) -> Scaling:
        more = needed - size.members
        wake = min(more, size.asleep)
        rent = min(more - wake, max(self.settings.most_rented - size.rented, 0))
        return Scaling(wake=wake, rent=rent, why=f"{why} {needed}" if wake or rent else "")

    def _shrunk(self, needed: int, now_s: float, size: PoolSize) -> Scaling:
        if self._needed[0][0] > now_s - self.settings.calm_s:
            return Scaling()  # not known for long enough
        fewer = size.members - max(needed, size.planned)
        if fewer <= 0:
            return Scaling()
        release = min(fewer, size.rented)
        sleep = min(fewer - release, size.awake)
        return Scaling(sleep=sleep, release=release, why=f"{needed} are enough for {self.settings.calm_s:g} s")

"""Whether fewer answers are in time than a threshold asks for, and how much is enough from then on.

A load in tokens/s says how much work comes, not whether it is done in time: instances may be slower than certified, and
requests may come together. So a pool that is late with all that it has is given more (ModServe, section 4.2). What was
too little for a load is remembered for a while. Or less would be tried as soon as more has put an end to the delays,
which come back then: it would grow and shrink for ever under a load that is always the same.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt

from policies.pools.scaling_settings import ScalingSettings

ATTAINED_S = 60.0
"""How long an answer counts among those that were in time or not."""
FORGOTTEN_S = 3600.0
"""How long it is remembered what was too little: a plan corrects certified capacity by what was measured meanwhile."""
_Z = 3.0
"""Standard errors between a count and its bound: 1 in 740 by chance. A fleet is looked at several times a minute."""
_MOST = 64
"""Loads that are remembered."""
_SLOWER = 4
"""Members that are slower than certified by more than this are broken: more of them are no remedy."""
_SPARE = 2
"""Members more than a load asks for that a small pool may have for its delays."""


def may_help(members: float, asked: float) -> bool:
    """Tell whether one more member may put an end to delays. `asked`: members that the load asks for. Delays whose
    cause is another (a broken instance, a slow network) would have a pool grow for as long as they last."""
    return members < max(_SLOWER * asked, asked + _SPARE)


def certain_count(count: float) -> float:
    """Least mean of events that come at random (Poisson) of which so many are no chance: Byar's approximation of the
    exact bound (Breslow and Day, Statistical Methods in Cancer Research 2, 1987, section 2.3)."""
    if count <= 0:
        return 0.0
    return count * max(0.0, 1 - 1 / (9 * count) - _Z / (3 * sqrt(count))) ** 3


@dataclass(frozen=True, slots=True)
class Answers:
    """Of the last minute."""

    judged: float = 0.0
    in_time: float = 0.0
    """Of these."""

    @property
    def share(self) -> float:
        """In time; 1 where none was judged."""
        return self.in_time / self.judged if self.judged else 1.0

    def is_below(self, threshold: float) -> bool:
        """Tell whether fewer than this share were in time, by more than chance explains."""
        return certain_count(self.judged - self.in_time) > (1 - threshold) * self.judged

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(self.judged + other.judged, self.in_time + other.in_time)


@dataclass(slots=True)
class Lateness:
    """What was too little, in the units of its caller: members of a pool for units/s, or requests/s that an app was
    planned for, for those that came. Times come in order."""

    settings: ScalingSettings
    _loads: deque[tuple[float, float]] = field(default_factory=deque)
    """(when, load), of the time that less has to be enough for."""
    _known: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=_MOST))
    """(when, load, what is enough for it)."""

    def take(self, now_s: float, load: float) -> None:
        """Take a load into account, which is that of now."""
        self._loads.append((now_s, load))
        while self._loads[0][0] < now_s - self.settings.calm_s:
            self._loads.popleft()

    @property
    def peak(self) -> float:
        """The highest load of late."""
        return max((load for _, load in self._loads), default=0.0)

    def note(self, now_s: float, enough: float) -> None:
        """Note that answers are late, though all serves that there is. `enough`: what is to serve the load. That is
        the highest of late: what a burst has left is late when it is over, too."""
        load = self.peak
        for each in [known for known in self._known if load <= known[1] and enough >= known[2]]:
            self._known.remove(each)  # it says nothing more
        self._known.append((now_s, load, enough))

    def enough(self, now_s: float) -> float:
        """What the load of now needs by what was too little before; 0 where nothing is known of such a load."""
        return max(self._of(now_s, self._loads[-1][1] if self._loads else 0.0), default=0.0)

    def _of(self, now_s: float, load: float) -> Iterator[float]:
        # Both loads are off by up to the band: that of then, and that of now.
        reached = load * (1 + self.settings.band) ** 2
        return (enough for at_s, late, enough in self._known if reached >= late and now_s - at_s < FORGOTTEN_S)

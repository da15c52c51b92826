"""Where the limit of a work class's utilisation lies, narrowed down by plans that kept its promise and others that did
not."""

import math

from templates_lib.values.plan import Attained

MOST = 1.0
"""A cap that is never passed: beyond what templates are certified for, queues grow for as long as one looks."""
STEP = 0.8
"""Factor of a cap whose class has kept nothing yet."""
LEAST_LATE = 1e-4
"""Share that is late where none was seen to be."""
LEAST = 0.1
"""A cap below which more of the same instances help nobody: what is late there is late alone."""
CLOSE, ROUNDING = 0.03, 1e-9
"""Distance of the brackets of a cap that is found, and what sums of caps are off by."""
NEAR = 2 * CLOSE
"""How far from a cap that is begun from its limit is looked for first; where it is not found there, twice as far."""


class Bracket:
    """A cap under which a class has kept its promise, and a utilisation at which it has not."""

    def __init__(self, cap: float, reach: float) -> None:
        """`reach`: how far from `cap` the limit is supposed to be, at most."""
        self.cap = cap
        self._reach = reach
        self._good = 0.0
        self._seen = 0.0, 0.0
        """Highest utilisation at which it was kept, and the share that was late there."""
        self._missed = min(cap + reach, MOST)
        self._is_supposed = self._missed < MOST
        """No miss was seen yet: the bracket's upper end is where one is supposed."""

    @property
    def is_closed(self) -> bool:
        return self._good > 0 and self._missed - self._good <= CLOSE

    @property
    def most(self) -> float:
        """The highest cap that is worth a look: nearer to one that was seen to fail nothing is looked for."""
        return max(self.cap, self._missed - CLOSE) if not self._is_supposed else MOST

    def pass_over(self) -> bool:
        """Move the cap up, past what makes no better plan. Return whether it moved."""
        if self._missed - self.cap <= CLOSE + ROUNDING:
            if not self._is_supposed:
                return False
            self._good = max(self._good, self.cap)
            self._widen()
        self._good = max(self._good, self.cap)
        self.cap = self._missed - CLOSE  # under lower caps no plan is better either
        return True

    def note(self, used: float, attained: Attained) -> None:
        """Move the cap by what was seen of a plan under it. A miss below what was good before counts for more: plans
        of one utilisation are of unlike instances."""
        if attained.is_kept:
            self._good = max(self._good, min(self.cap, self._missed))
            if used > self._seen[0]:
                self._seen = used, attained.share
            if self._is_supposed and self._missed - self._good < 1.5 * CLOSE:  # all but one last step was good
                self._widen()
        else:
            self._missed, self._is_supposed = min(self._missed, (used + self._limit(used, attained)) / 2), False
            # A cap that did not bind says nothing of the utilisations below it. Where even one that was kept is not
            # below, it is looked for anew, in long steps.
            self._good = min(self._good, self._seen[0])
            if self._good > self._missed - CLOSE:
                self._good, self._seen = 0.0, (0.0, 0.0)
        if self._good <= 0:
            lower = min(self.cap, self._missed)
            self.cap = max(STEP * lower, lower - self._reach, LEAST)
            self._reach *= 2
        elif self.is_closed:
            self.cap = self._good
        else:
            self.cap = self._missed - CLOSE if self._is_supposed else (self._good + self._missed) / 2

    def _limit(self, used: float, attained: Attained) -> float:
        """Return the utilisation at which what is late is likely to be as much as may be, when at `used` it was more:
        the share that is late grows about exponentially with utilisation. `used` where nothing was kept below."""
        seen, share = self._seen
        allowed, late = 1 - attained.percentile / 100, 1 - attained.share
        if not 0 < seen < used or late <= allowed:
            return used
        little = min(max(1 - share, LEAST_LATE), allowed)
        return seen + (used - seen) * math.log(allowed / little) / math.log(late / little)

    def _widen(self) -> None:
        """Suppose the limit farther up."""
        self._reach *= 2
        self._missed = min(self._good + self._reach, MOST)
        self._is_supposed = self._missed < MOST

"""What runs call next, learned from runs that have ended (DyOrc, section 5.2)."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

END = ""
"""What follows the last call of a run."""
MOST_VISITS = 8
"""Visits of a call site that are told apart: a loop that has gone on for longer is like one that has."""
MOST_CALLS = 256
"""Calls of a sampled run: a table may have a loop that it left only once."""

Key = tuple[str | int, ...]
Keys = Callable[[Sequence[str]], Iterable[Key]]
"""What the next call of a run goes by, of the calls that it has made: the first key that the table knows counts."""


def last_service(made: Sequence[str]) -> Iterable[Key]:
    """Go by the service that was called last, as the paper does."""
    yield (made[-1] if made else END,)


def two_sites(made: Sequence[str]) -> Iterable[Key]:
    """Go by the two call sites before, with how often the run was at the last; where that was never seen, by less."""
    last = made[-1] if made else END
    before = made[-2] if len(made) > 1 else END
    visits = min(MOST_VISITS, sum(site == last for site in made))
    yield (before, last, visits)
    yield (last, visits)
    yield (last,)


class CallTable:
    """Frequencies of what follows, of one workflow. The names are of call sites or services, as its keys have them."""

    def __init__(self, keys: Keys = two_sites) -> None:
        self._keys = keys
        self._counts: defaultdict[Key, Counter[str]] = defaultdict(Counter)

    def learn(self, made: Sequence[str]) -> None:
        """Count the calls of a run that has ended, in the order in which they were made."""
        for place in range(len(made) + 1):
            following = made[place] if place < len(made) else END
            for key in self._keys(made[:place]):
                self._counts[key][following] += 1

    def forget(self, made: Sequence[str]) -> None:
        """Take back what was learned from a run: nothing of it is left, neither counts nor names."""
        for place in range(len(made) + 1):
            following = made[place] if place < len(made) else END
            for key in self._keys(made[:place]):
                counts = self._counts[key]
                counts[following] -= 1
                if not counts[following]:
                    del counts[following]
                if not counts:
                    del self._counts[key]

    def following(self, made: Sequence[str]) -> Mapping[str, float]:
        """Return the chance of each call that may follow; empty: no run was ever here."""
        for key in self._keys(made):
            if (counts := self._counts.get(key)) is not None:
                return {name: count / counts.total() for name, count in counts.items()}
        return {}

    def likeliest(self, made: Sequence[str]) -> str:
        """Return what follows most often; of those that do equally, the first by name. `END` where nothing is known."""
        chances = self.following(made)
        return min(chances, key=lambda name: (-chances[name], name), default=END)

    def sampled(self, made: Sequence[str], chance: random.Random) -> list[str]:
        """Return calls that may follow until the end of the run, drawn one after the other."""
        found: list[str] = []
        while len(found) < MOST_CALLS:
            chances = self.following([*made, *found])
            names = sorted(chances)
            following = chance.choices(names, [chances[name] for name in names])[0] if names else END
            if following == END:
                break
            found.append(following)
        return found

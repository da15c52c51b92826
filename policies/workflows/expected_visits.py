"""How often a run calls what, by the fundamental matrix of the chain of its calls."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from policies.workflows.call_table import END


def expected_visits(runs: Iterable[Sequence[str]], made: str = END) -> Mapping[str, float]:
    """Return how often each call is made in the mean, by a run that begins, or that has just made the call `made`,
    which does not count. `runs`: the calls of runs that have ended, in their order.

    The calls are a chain that ends: with Q, the chances that one call follows another, the visits that are to be
    expected are the rows of (I - Q)^-1. Of a run that begins they are the means over `runs`.
    """
    follows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for before, after in zip([END, *run], [*run, END], strict=True):
            follows[before][after] += 1
    if made not in follows:
        return {}
    calls = sorted(set(follows) - {END})
    chances = np.array([[follows[a][b] / follows[a].total() for b in calls] for a in calls]).reshape(len(calls), -1)
    first = np.array([follows[made][b] / follows[made].total() for b in calls])
    visits = np.linalg.solve((np.eye(len(calls)) - chances).T, first)
    return {name: float(count) for name, count in zip(calls, visits, strict=True)}

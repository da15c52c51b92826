"""The requests of a simulation, as arrays."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.priority import Priority

ANY_LENGTH = 2**31 - 1
"""Tokens of what has no bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """n requests in order of arrival. Raises ValueError for what can be none, naming the first of them."""

    apps: tuple[str, ...]
    """Names of models as clients ask for them; `app` indexes them."""
    app: NDArray[np.int32]
    """(n,)"""
    arrival_s: NDArray[np.float64]
    """(n,) ≥ 0, ascending; since the start of the simulation."""
    prompt_tokens: NDArray[np.int32]
    """(n,) ≥ 1"""
    output_tokens: NDArray[np.int32]
    """(n,) ≥ 1: where each output ends."""
    rank: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    """(n,) of each one's `Priority`; empty: all are standard."""
    most_tokens: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """(n,) ≥ 1: what each client allows its answer, as gateways know it before; empty: none says."""

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype))
        n = len(self.arrival_s)
        if not len(self.rank):
            object.__setattr__(self, "rank", np.full(n, Priority.STANDARD.rank, np.int8))
        if not len(self.most_tokens):
            object.__setattr__(self, "most_tokens", np.full(n, ANY_LENGTH, np.int32))
        if any(getattr(self, name).shape != (n,) for name in _DTYPES):
            raise ValueError("the columns of requests must be equally long and of one dimension")
        if n == 0:
            return
        _refuse(
            ~(np.isfinite(self.arrival_s) & (self.arrival_s >= 0)), self.arrival_s, "arrives at {} s, not at 0 or later"
        )
        before = np.concatenate(([False], np.diff(self.arrival_s) < 0))
        _refuse(before, self.arrival_s, "arrives at {} s, before the one ahead of it: sort them by arrival")
        _refuse(self.prompt_tokens < 1, self.prompt_tokens, "has a prompt of {} tokens; at least 1 is needed")
        _refuse(self.output_tokens < 1, self.output_tokens, "has an output of {} tokens; at least 1 is needed")
        _refuse((self.rank < 0) | (self.rank >= len(Priority)), self.rank, "is of priority {}, which there is not")
        over = self.output_tokens > self.most_tokens
        _refuse(over, self.output_tokens, "has an output of {} tokens, more than its client allows")
        out = (self.app < 0) | (self.app >= len(self.apps))
        _refuse(out, self.app, f"is of app {{}}, but there are {len(self.apps)} of them")

    def __len__(self) -> int:
        return len(self.arrival_s)


_DTYPES = {
    "app": np.int32,
    "arrival_s": np.float64,
    "prompt_tokens": np.int32,
    "output_tokens": np.int32,
    "rank": np.int8,
    "most_tokens": np.int32,
}


def _refuse(
    wrong: NDArray[np.bool_], values: NDArray[np.float64] | NDArray[np.int32] | NDArray[np.int8], text: str
) -> None:
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(f"request {first} {text.format(values[first])}")

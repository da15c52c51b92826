"""What several experiments share is planned once: set-ups stay open, epochs are kept."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from bench.evaluation.epochs import EPOCHS, Epoch, run
from bench.evaluation.methods import METHODS
from bench.scenarios import SetUp, set_up


class Campaign(AbstractContextManager["Campaign"]):
    def __init__(
        self, setups: tuple[str, ...], kinds: tuple[str, ...], methods: tuple[str, ...], seed: int | None = None
    ) -> None:
        """Names of the set-ups to evaluate, and of `epochs.KINDS` and METHODS for experiments that are about all of
        them; the first of the seeds of simulations that no certificate has seen, None: the experiment's own."""
        self.setups = setups
        self.kinds = kinds
        self.methods = methods
        self._seed = seed
        self._stack = ExitStack()
        self._open: dict[tuple[str, bool], SetUp] = {}
        self._epochs: dict[tuple[str, str, str], tuple[Epoch, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def seeds(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """Return as many as `own`, from the seed that was asked for on."""
        return own if self._seed is None else tuple(range(self._seed, self._seed + len(own)))

    def set_up(self, name: str) -> SetUp:
        return self._opened(name, keep=False)

    def promised(self, name: str) -> SetUp:
        """The same, whose models promise percentile 99."""
        return self._opened(name, keep=True)

    def _opened(self, name: str, *, keep: bool) -> SetUp:
        if (name, keep) not in self._open:
            self._open[name, keep] = self._stack.enter_context(set_up(name, keep=keep))
        return self._open[name, keep]

    def epochs(self, name: str, kind: str, method: str) -> tuple[Epoch, ...]:
        """Of set-up `name` under one of `epochs.KINDS`."""
        key = (name, kind, method)
        if key not in self._epochs:
            self._epochs[key] = tuple(_told(run(self.set_up(name), kind, method), " ".join(key)))
        return self._epochs[key]

    def all_methods(self, name: str, kind: str) -> dict[str, tuple[Epoch, ...]]:
        return {method: self.epochs(name, kind, method) for method in METHODS}


def _told(epochs: Iterator[Epoch], of: str) -> Iterator[Epoch]:
    """On standard error: where GPUs are scarce, one takes minutes."""
    began_s = time.monotonic()
    for epoch in epochs:
        took_s = time.monotonic() - began_s
        print(f"planned {of}, epoch {epoch.number} of {EPOCHS}, after {took_s:.0f} s", file=sys.stderr, flush=True)
        yield epoch

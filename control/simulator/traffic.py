"""All requests of a scenario, by what serves them, and the load that they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.simulator.request_trace import MAX_REQUESTS, Stream
from control.simulator.result import SimulatedModel
from control.simulator.serving.requests import Requests
from policies.demand_history import DemandHistory
from policies.metered_work import text_classes


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that came within some time, and their tokens."""

    requests: int
    prompt_tokens: int
    output_tokens: int


class Traffic:
    """Requests by what serves them: apps, and their long prompts, as gateways send them there."""

    def __init__(self, streams: Sequence[tuple[str, Stream]], apps: Mapping[str, Sequence[SimulatedModel]]) -> None:
        """`streams`: (app, its requests). `apps`: what serves each, shorter prompts first.

        Raises ValueError for more requests than are simulated."""
        if sum(len(stream.arrival_s) for _, stream in streams) > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS:,} requests in all: shorten the scenario or scale it down")
        served = tuple(dict.fromkeys(each.name for own in apps.values() for each in own))
        parts = [_serving(apps[name], stream, served) for name, stream in streams]
        arrival = np.concatenate([stream.arrival_s for _, stream in streams])
        order = np.argsort(arrival, kind="stable")
        self.requests = Requests(
            served,
            np.concatenate(parts)[order],
            arrival[order],
            np.concatenate([stream.prompt_tokens for _, stream in streams])[order],
            np.concatenate([stream.output_tokens for _, stream in streams])[order],
            np.concatenate([np.full(len(stream.arrival_s), stream.priority.rank) for _, stream in streams])[order],
            np.concatenate([np.full(len(stream.arrival_s), stream.most_tokens) for _, stream in streams])[order],
        )
        self._prompts = self._sums(self.requests.prompt_tokens)
        self._outputs = self._sums(self.requests.output_tokens)
        self._arrivals = [self.requests.arrival_s[self.requests.app == n] for n in range(len(served))]

    def load(self, from_s: float, until_s: float) -> Mapping[str, Load]:
        """Return the load by app that arrives in [from, until)."""
        found = {}
        for n, app in enumerate(self.requests.apps):
            first, last = np.searchsorted(self._arrivals[n], (from_s, until_s))
            tokens = (int(sums[n][last] - sums[n][first]) for sums in (self._prompts, self._outputs))
            found[app] = Load(int(last - first), *tokens)
        return found

    def history(self, app: str, from_s: float, until_s: float, step_s: float) -> DemandHistory:
        """Return rates of arrivals in [from, until), cut into steps from the start on; the last one may be shorter."""
        n = self.requests.apps.index(app)
        edges = np.minimum(np.arange(from_s, until_s + step_s, step_s), until_s)
        edges = edges[np.concatenate(([True], np.diff(edges) > 0))]
        at = np.searchsorted(self._arrivals[n], edges)
        lengths = np.diff(edges)
        sums = [np.diff(s[n][at]) / lengths for s in (self._prompts, self._outputs)]
        work = (each.key for each in text_classes(app))
        return DemandHistory(until_s, step_s, np.diff(at) / lengths, dict(zip(work, sums, strict=True)))

    def longest_output_tokens(self, app: str) -> int:
        """Return the longest output of its requests; 0 for an app that nobody asks."""
        own = self.requests.output_tokens[self.requests.app == self.requests.apps.index(app)]
        return int(own.max(initial=0))

    def _sums(self, tokens: NDArray[np.int32]) -> list[NDArray[np.int64]]:
        """Return sums over the first 0, 1, … n requests, by app."""
        return [
            np.concatenate(([0], np.cumsum(tokens[self.requests.app == n], dtype=np.int64)))
            for n in range(len(self.requests.apps))
        ]


def _serving(models: Sequence[SimulatedModel], stream: Stream, served: tuple[str, ...]) -> NDArray[np.int32]:
    """Return the number in `served` of what serves each request."""
    short, long = models[0], models[-1]
    is_long = stream.prompt_tokens > short.slo.max_prompt_tokens
    return np.where(is_long, served.index(long.name), served.index(short.name)).astype(np.int32)

"""All requests of a scenario, by what serves them, and the load that they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.simulator.request_trace import MAX_REQUESTS, Stream
from control.simulator.serving.requests import Requests
from policies.demand_history import DemandHistory
from templates_lib.apps.long_prompts import LONG_SUFFIX
from templates_lib.apps.served_model import ServedModel


@dataclass(frozen=True, slots=True)
class Load:
    """What came within some time."""

    requests: int
    prompt_tokens: int
    output_tokens: int


class Traffic:
    """Requests by app: models, and their parts for long prompts as gateways send them there."""

    def __init__(self, streams: Sequence[tuple[str, Stream]], served: Sequence[ServedModel]) -> None:
        """`streams`: (model's name in the fleet, its requests); `served`: what templates are built for.

        Raises ValueError for more requests than are simulated."""
        if sum(len(stream.arrival_s) for _, stream in streams) > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS:,} requests in all: shorten the scenario or scale it down")
        apps = tuple(model.name for model in served)
        limits = {model.name: model.slo.max_prompt_tokens for model in served}
        parts = [_apps(name, stream, apps, limits) for name, stream in streams]
        arrival = np.concatenate([stream.arrival_s for _, stream in streams])
        order = np.argsort(arrival, kind="stable")
        self.requests = Requests(
            apps,
            np.concatenate(parts)[order],
            arrival[order],
            np.concatenate([stream.prompt_tokens for _, stream in streams])[order],
            np.concatenate([stream.output_tokens for _, stream in streams])[order],
        )
        self._prompts = self._sums(self.requests.prompt_tokens)
        self._outputs = self._sums(self.requests.output_tokens)
        self._arrivals = [self.requests.arrival_s[self.requests.app == n] for n in range(len(apps))]

    def load(self, from_s: float, until_s: float) -> Mapping[str, Load]:
        """By app, of what arrives in [from, until)."""
        found = {}
        for n, app in enumerate(self.requests.apps):
            first, last = np.searchsorted(self._arrivals[n], (from_s, until_s))
            tokens = (int(sums[n][last] - sums[n][first]) for sums in (self._prompts, self._outputs))
            found[app] = Load(int(last - first), *tokens)
        return found

    def history(self, app: str, from_s: float, until_s: float, step_s: float) -> DemandHistory:
        """Of arrivals in [from, until), cut into steps from the start on; the last one may be shorter."""
        n = self.requests.apps.index(app)
        edges = np.minimum(np.arange(from_s, until_s + step_s, step_s), until_s)
        edges = edges[np.concatenate(([True], np.diff(edges) > 0))]
        at = np.searchsorted(self._arrivals[n], edges)
        lengths = np.diff(edges)
        sums = [np.diff(s[n][at]) / lengths for s in (self._prompts, self._outputs)]
        return DemandHistory(until_s, step_s, np.diff(at) / lengths, *sums)

    def longest_output_tokens(self, app: str) -> int:
        """0 for an app that nobody asks."""
        own = self.requests.output_tokens[self.requests.app == self.requests.apps.index(app)]
        return int(own.max(initial=0))

    def _sums(self, tokens: NDArray[np.int32]) -> list[NDArray[np.int64]]:
        """By app: of the first 0, 1, … n requests."""
        return [
            np.concatenate(([0], np.cumsum(tokens[self.requests.app == n], dtype=np.int64)))
            for n in range(len(self.requests.apps))
        ]


def _apps(name: str, stream: Stream, apps: tuple[str, ...], limits: Mapping[str, int]) -> NDArray[np.int32]:
    longer = name + LONG_SUFFIX
    if longer not in apps:
        return np.full(len(stream.arrival_s), apps.index(name), np.int32)
    if name not in apps:  # every prompt of its shape is long
        return np.full(len(stream.arrival_s), apps.index(longer), np.int32)
    is_long = stream.prompt_tokens > limits[name]
    return np.where(is_long, apps.index(longer), apps.index(name)).astype(np.int32)

"""A step under way, and what comes back of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.messages.to_gateway import TokenLogprobs
from agents.scheduler.orders import GroupStep


class BadResultError(Exception):
    """A stage reported what it was not asked for, or less: its cache can no longer be trusted."""


@dataclass(frozen=True, slots=True)
class Sampled:
    token: int
    logprobs: TokenLogprobs | None = None


@dataclass(slots=True)
class Flight:
    step: GroupStep
    awaited: set[int]
    """Nodes of the last stage that have not reported."""
    samples: dict[int, Sampled]

    def record(self, node: int, samples: Mapping[int, Sampled]) -> bool:
        """Take what a node sampled, by run; whether all nodes have reported. Raises BadResultError."""
        step = self.step.number
        if node not in self.awaited:
            raise BadResultError(f"node {node} of the last stage reported step {step}, which is not asked of it")
        asked = {e.run for e in self.step.entries if e.nodes[-1] == node and e.sampling is not None}
        if asked != set(samples):
            raise BadResultError(f"node {node} of the last stage sampled {sorted(samples)} and not {sorted(asked)}")
        self.awaited.remove(node)
        self.samples.update(samples)
        return not self.awaited

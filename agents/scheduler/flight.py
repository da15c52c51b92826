"""Steps under way, and what comes back of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from agents.messages.to_gateway import TokenLogprobs
from agents.scheduler.orders import GroupStep, StepEntry


class BadResultError(Exception):
    """A stage reported what it was not asked for, or less: its cache can no longer be trusted."""


@dataclass(frozen=True, slots=True)
class Sampled:
    tokens: tuple[int, ...]
    """Those of the draft that were right, and the one behind them."""
    logprobs: tuple[TokenLogprobs, ...] = ()
    """One for each where they were asked for."""

    def answers(self, entry: StepEntry) -> bool:
        """Tell whether it may be what was sampled for an entry."""
        right = self.tokens[:-1]
        return bool(self.tokens) and right == entry.draft[: len(right)]


@dataclass(frozen=True, slots=True)
class Pooled:
    """State of a prompt: fp32, little-endian."""

    state: bytes


@dataclass(slots=True)
class Flight:
    step: GroupStep
    awaited: set[int]
    """Nodes of the last stage that have not reported."""
    results: dict[int, Sampled | Pooled]
    """By run."""


class Flights:
    """Steps under way, at most one of each group and lane, and what has come back of them."""

    def __init__(self) -> None:
        self._of: dict[int, Flight] = {}
        """By number of the step."""

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def launched(self) -> dict[int, int]:
        """Return the number of the step that each group or lane has under way."""
        return {flight.step.group: number for number, flight in self._of.items()}

    def launch(self, step: GroupStep) -> None:
        """Await what the nodes of the last stage make of a step."""
        self._of[step.number] = Flight(step, {entry.nodes[-1] for entry in step.entries}, {})

    def land(self, step: int, node: int, results: Mapping[int, Sampled | Pooled]) -> Flight | None:
        """Record what a node of the last stage made, by run; return the flight once all of them have reported.

        Raises BadResultError."""
        flight = self._of.get(step)
        if flight is None or node not in flight.awaited:
            raise BadResultError(f"node {node} of the last stage reported step {step}, which is not asked of it")
        own = [entry for entry in flight.step.entries if entry.nodes[-1] == node]
        asked = {e.run: Pooled if e.gives_state else Sampled for e in own if e.gives_state or e.sampling is not None}
        if asked != {run: type(result) for run, result in results.items()}:
            raise BadResultError(f"node {node} of the last stage made {sorted(results)} and not {sorted(asked)}")
        for entry in own:
            result = results.get(entry.run)
            if isinstance(result, Sampled) and not result.answers(entry):
                raise BadResultError(f"node {node} sampled {result.tokens} for run {entry.run}, drafted {entry.draft}")
        flight.awaited.remove(node)
        flight.results.update(results)
        return None if flight.awaited else self._of.pop(step)

    def clear(self) -> None:
        """Forget all steps: nothing of them comes back."""
        self._of.clear()

"""A span for each request that a stage computes, from its first step there to its end."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.messages.to_stage import StageEntry
from agents.tracing.spans import Span, StartSpan
from agents.tracing.trace_parent import read_trace_parent


@dataclass(slots=True)
class _Run:
    span: Span
    steps: int = 0
    tokens: int = 0
    engine_s: float = 0.0
    """Of the steps that it took part in: others did as well."""


class RunSpans:
    """Spans of the runs of one stage, whose steps are counted on them. One thread owns it."""

    def __init__(self, start: StartSpan, name: str) -> None:
        """`name`: of the stage, as it is shown."""
        self._start = start
        self._name = name
        self._open: dict[int, _Run] = {}

    def begin(self, entries: Sequence[StageEntry]) -> None:
        """Begin spans of runs whose first step this is, and that somebody follows."""
        for entry in entries:
            parent = read_trace_parent(entry.trace) if entry.trace else None
            if parent is not None:
                self._open[entry.run] = _Run(self._start(self._name, parent))

    def count(self, entries: Sequence[StageEntry], engine_s: float) -> None:
        """Count a step that is over. `engine_s`: seconds that the engine spent in it."""
        for entry in entries if self._open else ():
            run = self._open.get(entry.run)
            if run is not None:
                run.steps += 1
                run.tokens += entry.tokens
                run.engine_s += engine_s

    def end(self, run: int) -> None:
        """Its KV cache is given back: finished, cancelled, preempted or handed over."""
        over = self._open.pop(run, None)
        if over is not None:
            over.span.end(run=run, steps=over.steps, tokens=over.tokens, engine_s=round(over.engine_s, 6))

"""The next step of a group, or of a lane: which tokens of which of its members."""

from collections.abc import Callable

from agents.scheduler.drafts import with_drafts
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import StepEntry
from agents.scheduler.runs import Runs
from agents.scheduler.sequence import ActiveRun, Sequence, SequencePhase
from templates_lib.values.speculation import Speculation

Grow = Callable[[Sequence, ActiveRun, int], bool]
"""Take blocks for so many tokens of a run; False where there are none."""


def step_entries(
    group: int, runs: Runs, layout: PipelineLayout, grow: Grow, speculation: Speculation | None = None
) -> tuple[StepEntry, ...]:
    """Return one token of each member that decodes, with a draft where there are some, and, within the nodes' chunks,
    prompt tokens of the others. Blocks that it fills are known to others from now on, but for those of drafts."""
    chunk_left = [[node.chunk_tokens for node in stage] for stage in layout.stages]
    entries = []
    for sequence, held in runs.of_group(group):
        if sequence.admission is not held or sequence.phase is not SequencePhase.COMPUTED:
            continue  # preempted for an older one a moment ago, handed off, or rows of it are on their way
        count = len(sequence.tokens) - held.position
        if not held.has_sampled:
            count = min(count, *(chunk_left[stage][node] for stage, node in enumerate(held.nodes)))
        if not count or not grow(sequence, held, held.position + count):
            continue
        if not held.has_sampled and group < layout.groups:  # prompts in a lane go together as they are
            for stage, node in enumerate(held.nodes):
                chunk_left[stage][node] -= count
        end = held.position + count
        pooled = sequence.pooled
        sampling = sequence.sampling if end == len(sequence.tokens) and pooled is None else None
        ruled = None if sampling is None else sequence.tell_rules(held)
        tokens = tuple(sequence.tokens[held.position : end])
        trace, shared = (sequence.request.trace, held.known) if held.is_new else ("", ())
        blocks = tuple(map(tuple, shared)) if any(shared) else ()
        runs.publish(sequence, held, end)
        entries.append(StepEntry(held.run, held.nodes, held.position, tokens, sampling, trace, ruled, blocks, pooled))
    return tuple(entries) if speculation is None else tuple(with_drafts(entries, runs, layout, speculation))

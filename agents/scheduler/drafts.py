"""Drafts in a step: tokens of answers that are verified together with those that are known."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agents.messages.bounds import MAX_RUNS
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import StepEntry
from agents.scheduler.runs import Runs
from templates_lib.values.speculation import Speculation


def with_drafts(
    entries: Sequence[StepEntry], runs: Runs, layout: PipelineLayout, speculation: Speculation
) -> Iterator[StepEntry]:
    """Yield the entries of a step, those of answers with drafts where there is room for some, in turn.

    A draft's tokens take places that members of the group leave free at their nodes: a step with drafts has no more
    rows than one of a full group, which plans reckon with, and a full group has none. They take KV blocks that nobody
    holds, and leave one for each request that runs, so that nobody is preempted for what may be wrong."""
    places = [[min(node.batch_cap, MAX_RUNS) for node in stage] for stage in layout.stages]
    for entry in entries:
        for stage, node in enumerate(entry.nodes):
            places[stage][node] -= 1
    for entry in entries:
        most = min(places[stage][node] for stage, node in enumerate(entry.nodes))
        draft = _draft(entry, runs, min(most, speculation.tokens), speculation.ngram)
        for stage, node in enumerate(entry.nodes):
            places[stage][node] -= len(draft)
        yield replace(entry, token_ids=entry.token_ids + draft, draft=draft) if draft else entry


def _draft(entry: StepEntry, runs: Runs, most: int, ngram: int) -> tuple[int, ...]:
    sequence = runs.get(entry.run)
    held = None if sequence is None else sequence.admission
    if sequence is None or held is None or not held.has_sampled:
        return ()  # of a prompt, all is known
    end = len(sequence.tokens)
    # The last token of an output is sampled, and never computed.
    room = min(runs.room(held), sequence.most_cached) - end
    draft = sequence.draft(ngram, min(most, room, held.trust.most_behind(end)))
    if draft:
        runs.grow(sequence, held, end + len(draft))
    return draft

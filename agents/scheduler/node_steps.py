"""What each node is told of a group's step."""

from collections.abc import Iterator

from agents.messages.to_stage import NOWHERE, StageEntry, StageStep
from agents.scheduler.orders import Entry, GroupStep


def node_steps(step: GroupStep, stages: int) -> Iterator[tuple[int, int, StageStep]]:
    """(stage, node, message) for every node that has a part in the step."""
    for stage in range(stages):
        by_node: dict[int, list[Entry]] = {}
        for entry in step.entries:
            by_node.setdefault(entry.nodes[stage], []).append(entry)
        for node, entries in by_node.items():
            told = tuple(_stage_entry(entry, stage, stages) for entry in entries)
            ids = tuple(token for entry in entries for token in entry.token_ids) if stage == 0 else ()
            yield stage, node, StageStep(step.number, told, ids)


def _stage_entry(entry: Entry, stage: int, stages: int) -> StageEntry:
    is_last = stage == stages - 1
    return StageEntry(
        entry.run,
        entry.position,
        len(entry.token_ids),
        entry.nodes[stage - 1] if stage else NOWHERE,
        NOWHERE if is_last else entry.nodes[stage + 1],
        entry.sampling if is_last else None,
        entry.trace,
    )

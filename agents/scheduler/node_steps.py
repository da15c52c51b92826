"""Steps of the workers: what each of them is told of a group's step."""

from collections.abc import Iterator

from agents.messages.to_stage import NOWHERE, StageEntry, StageStep
from agents.scheduler.orders import GroupStep, StepEntry
from agents.scheduler.workers import Workers


def node_steps(step: GroupStep, workers: Workers) -> Iterator[tuple[int, StageStep]]:
    """(worker, message) for every worker that has a part in the step, along the way."""
    told: dict[int, list[StageEntry]] = {}
    token_ids: dict[int, list[int]] = {}
    ways: dict[tuple[int, ...], tuple[int, ...]] = {}
    for entry in step.entries:
        way = ways.get(entry.nodes)
        if way is None:
            way = ways[entry.nodes] = workers.way(entry.nodes)
        for worker, one in zip(way, _stage_entries(entry, way), strict=True):
            told.setdefault(worker, []).append(one)
        token_ids.setdefault(way[0], []).extend(entry.token_ids)
    partners = {partner for worker in told for partner in workers.partners(worker)}
    for worker in sorted(told.keys() | partners):
        yield worker, StageStep(step.number, tuple(told.get(worker, ())), tuple(token_ids.get(worker, ())))


def _stage_entries(entry: StepEntry, way: tuple[int, ...]) -> Iterator[StageEntry]:
    """Yield the entry for each worker on the way."""
    tokens = len(entry.token_ids)
    for at, _ in enumerate(way):
        source = way[at - 1] if at else NOWHERE
        is_last = at == len(way) - 1
        target, sampling = (NOWHERE, entry.sampling) if is_last else (way[at + 1], None)
        yield StageEntry(entry.run, entry.position, tokens, source, target, sampling, entry.trace)

"""Where rows and KV cache go in a layout whose nodes are pipelines and replicas inside."""

import pytest

from agents.messages.kv_shape import KvShape, StageLayers
from agents.messages.to_stage import NOWHERE
from agents.scheduler.flight import BadResultError
from agents.scheduler.kv_overlap import mismatch, overlaps
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import GroupStep, StepEntry
from agents.scheduler.stage_gang import Arrivals, node_steps
from agents.scheduler.workers import WorkerPlace, Workers
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, GREEDY


def peer(name: str, parts: int = 1, replica: int = 0, joint: bool = False) -> NodeLimits:
    return NodeLimits(name, 0.5, 4, 8, 16, parts, replica, joint)


def made(*stages: tuple[NodeLimits, ...]) -> PipelineLayout:
    return PipelineLayout("m", stages, BLOCK_TOKENS, 200, 1000)


DEEP, PLAIN = peer("deep", parts=2), peer("plain")
ONE, OTHER = peer("wide", replica=0), peer("wide", replica=1)
LAYOUT = made((DEEP, PLAIN), (ONE, OTHER))
"""Workers 0 and 1, 2; then 3, 4."""


def told(layout: PipelineLayout, *nodes: tuple[int, ...]) -> dict[int, list[tuple[int, int, int]]]:
    """By worker: (run, source, target) of a step of such requests, runs numbered from 0."""
    entries = tuple(StepEntry(run, way, 0, (7, 8), GREEDY) for run, way in enumerate(nodes))
    steps = dict(node_steps(GroupStep(1, 0, entries), Workers(layout)))
    assert list(steps) == sorted(steps)
    begins = {worker for worker, step in steps.items() if step.token_ids}
    assert begins == {worker for worker, step in steps.items() for e in step.entries if e.source == NOWHERE}
    for step in steps.values():
        assert all((entry.sampling is None) == (entry.target != NOWHERE) for entry in step.entries)
    return {worker: [(e.run, e.source, e.target) for e in step.entries] for worker, step in steps.items()}


def test_a_stage_has_as_many_groups_as_its_deepest_peer_has_parts() -> None:
    assert LAYOUT.groups == 2 + 1
    assert made((peer("a", parts=3), peer("b", parts=2)), (peer("c", parts=4),)).groups == 3 + 4


def test_rows_pass_all_parts_of_one_peer_and_go_to_any_peer_of_the_next_stage() -> None:
    workers = Workers(LAYOUT)
    assert [(workers.sources(w), workers.targets(w)) for w in range(5)] == [
        ((), (1,)),
        ((0,), (3, 4)),
        ((), (3, 4)),
        ((1, 2), ()),
        ((1, 2), ()),
    ]
    assert told(LAYOUT, (0, 1), (1, 1), (0, 0)) == {
        0: [(0, NOWHERE, 1), (2, NOWHERE, 1)],
        1: [(0, 0, 4), (2, 0, 3)],
        2: [(1, NOWHERE, 4)],
        3: [(2, 1, NOWHERE)],
        4: [(0, 1, NOWHERE), (1, 2, NOWHERE)],
    }
    assert 3 not in told(LAYOUT, (0, 1)), "a replica with no request has nothing to do"


def test_replicas_that_share_experts_take_part_in_steps_of_the_same_part() -> None:
    layout = made((peer("n", 2, 0, True), peer("n", 2, 1, True), peer("other", 2)))
    assert told(layout, (0,)) == {0: [(0, NOWHERE, 1)], 1: [(0, 0, NOWHERE)], 2: [], 3: []}
    assert set(told(layout, (2,))) == {4, 5}


def test_a_node_counts_its_workers_replica_by_replica() -> None:
    workers = Workers(made((peer("n", 2, 0), peer("n", 2, 1))))
    assert [workers.find("n", number) for number in range(5)] == [0, 1, 2, 3, None]
    assert workers.nodes == {"n": [0, 1, 2, 3]}
    with pytest.raises(ValueError, match="equally many parts"):
        Workers(made((peer("n", 2, 0), peer("n", 1, 1))))


def test_every_layer_goes_once_from_the_part_that_has_it_to_the_part_that_wants_it() -> None:
    source = KvShape((StageLayers(0, 4, 2, ((3, 1), (4,))), StageLayers(4, 2, 1)), 2, 16, "torch.float32")
    target = KvShape((StageLayers(0, 6, 2, ((2, 2, 2), (6,))),), 2, 16, "torch.float32")
    found = [(o.source, o.target, o.first_layer, o.layers) for o in overlaps(source, (0, 0), target, (0,))]
    assert found == [
        (WorkerPlace(0, 0, 0), WorkerPlace(0, 0, 0), 0, 2),
        (WorkerPlace(0, 0, 0), WorkerPlace(0, 0, 1), 2, 1),
        (WorkerPlace(0, 0, 1), WorkerPlace(0, 0, 1), 3, 1),
        (WorkerPlace(1, 0, 0), WorkerPlace(0, 0, 2), 4, 2),
    ]
    assert [o.layers for o in overlaps(source, (1, 0), target, (1,))] == [4, 2]
    assert mismatch(source, target) == ""
    torn = KvShape((StageLayers(0, 6, 2, ((2, 2, 1), (6,))),), 2, 16, "torch.float32")
    assert "do not make its layers" in mismatch(source, torn)


def test_kv_cache_has_come_when_the_last_part_has_it() -> None:
    arrivals, parts = Arrivals(), [WorkerPlace(0, 1, 0), WorkerPlace(0, 1, 1), WorkerPlace(1, 0, 0)]
    arrivals.expect(7, parts)
    assert [arrivals.arrive(7, place, 10) for place in parts] == [None, 20, 10]
    with pytest.raises(BadResultError, match="of which it waits for none"):
        arrivals.arrive(7, parts[0], 10)
    arrivals.forget(7)
    assert arrivals.arrive(7, parts[0], 10) is None

"""What a stage takes of other components for its runs, out of a sidecar, and gives with each step."""

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import torch

from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.messages.component_work import PromptRows, TensorAt
from agents.messages.to_gateway import Failure
from agents.messages.to_stage import NOWHERE, GiveRows, GridAt, StageEntry
from agents.messages.to_stage_scheduler import RowsHere, RowsMissing
from agents.stage.given import GivenToRuns
from agents.tensors.node_tensors import NodeTensors
from tests.agents.tensors.nodes import PATIENCE_S, SETTINGS, Node, run_node

WIDTH, SOUND = 8, 5
ROWS = np.arange(10 * WIDTH, dtype=np.float32).reshape(10, WIDTH)


class Stage:
    def __init__(self, sidecar: str, *, first: bool = True, attends: bool = False) -> None:
        held = LayerRange(0 if first else 2, 2, first=first, last=not first)
        memory = 96, 256, torch.bfloat16, torch.device("cpu"), 0, 2, 4, 16, 8, (), 0, 0.0
        facts = StageFacts("torch", held, 4, WIDTH, *memory, 3, SOUND if attends else 0, WIDTH, takes_rows=True)
        self.told: SimpleQueue[Any] = SimpleQueue()
        tensors = NodeTensors(sidecar, "stage", writes=False) if sidecar else None
        self.given = GivenToRuns(facts, tensors, self.told.put)

    def give(self, run: int, *wanted: PromptRows, wait_s: float = 60.0) -> Any:
        """Give rows; return what is reported."""
        grids = tuple(GridAt(each.position, each.grid) for each in wanted if each.grid and each.position is not None)
        self.given.give(GiveRows(run, grids, wanted, 1, wait_s))
        return self.told.get(timeout=PATIENCE_S) if wanted else None


@pytest.fixture
def node() -> Iterator[Node]:
    with run_node(SETTINGS) as made:
        yield made


@pytest.fixture
def stage(node: Node) -> Iterator[Stage]:
    made = Stage(node.name)
    yield made
    made.given.close()


def step(run: int, position: int, tokens: int) -> tuple[StageEntry, ...]:
    return (StageEntry(run, position, tokens, NOWHERE, NOWHERE),)


def test_rows_are_cut_where_the_prompt_is_cut_and_given_once(node: Node, stage: Stage) -> None:
    client = node.client()
    client.put("image", ROWS)
    assert stage.give(7, PromptRows(TensorAt("image"), 10, 3, (1, 2, 5))) == RowsHere(7)
    assert [(grid.first_token, grid.rows, grid.columns) for grid in stage.given.grids(7)] == [(3, 2, 5)]
    found = []
    for position in range(0, 16, 4):
        for each in stage.given.of_step(step(7, position, 4)).embedded:
            assert position <= each.position
            assert each.position + len(each.rows) <= position + 4
            found += zip(range(each.position, each.position + len(each.rows)), each.rows, strict=True)
    assert [at for at, _ in found] == list(range(3, 13))
    torch.testing.assert_close(torch.stack([row for _, row in found]), torch.from_numpy(ROWS).to(torch.bfloat16))
    assert stage.given.of_step(step(7, 0, 16)).is_empty, "no later step needs them"
    assert stage.given.grids(7), "every step is told where images lie"
    stage.given.forget(7)
    assert not stage.given.grids(7)


def test_what_a_run_attends_to_comes_with_its_first_step(node: Node) -> None:
    stage = Stage(node.name, first=False, attends=True)
    node.client().put("sound", ROWS[:SOUND])
    assert stage.give(3, PromptRows(TensorAt("sound"), SOUND)) == RowsHere(3)
    (encoded,) = stage.given.of_step(step(3, 12, 1)).encoded
    assert encoded.rows.shape == (SOUND, WIDTH)
    assert stage.given.of_step(step(3, 13, 1)).is_empty
    stage.given.close()


@pytest.mark.parametrize(
    ("array", "failure"),
    [
        (None, Failure.HAND_OFF),
        (ROWS[:4], Failure.UNSUPPORTED),
        (ROWS[:, :4].copy(), Failure.UNSUPPORTED),
        (ROWS.astype(np.float64), Failure.UNSUPPORTED),
        (np.where(ROWS == 11, np.float32("nan"), ROWS), Failure.UNSUPPORTED),
    ],
)
def test_rows_that_are_gone_or_do_not_fit_are_reported_of_their_run(
    node: Node, stage: Stage, array: Any, failure: Failure
) -> None:
    client = node.client()
    if array is not None:
        client.put("image", array)
    client.put("sound", ROWS)
    answer = stage.give(1, PromptRows(TensorAt("image"), 10, 0), wait_s=0.05 if array is None else 60.0)
    assert isinstance(answer, RowsMissing)
    assert (answer.run, answer.failure) == (1, failure)
    assert stage.give(2, PromptRows(TensorAt("sound"), 10, 0)) == RowsHere(2)


def test_a_run_that_is_over_has_its_rows_dropped(node: Node, stage: Stage) -> None:
    client = node.client()
    with client.create("late", "float32", (10, WIDTH)) as writer:
        stage.given.give(GiveRows(1, (), (PromptRows(TensorAt("late"), 10, 0),), 1, 60.0))
        stage.given.forget(1)
        writer.fill(ROWS)
    client.put("image", ROWS)
    assert stage.give(2, PromptRows(TensorAt("image"), 10, 0)) == RowsHere(2)
    assert stage.given.of_step(step(1, 0, 10)).is_empty


def test_a_sidecar_that_was_started_again_is_found_by_its_name(node: Node) -> None:
    stage = Stage(node.name)
    node.client().put("image", ROWS)
    assert stage.give(1, PromptRows(TensorAt("image"), 10, 0)) == RowsHere(1)
    stage.given._tensors.use(lambda client: client.close())
    node.client().put("next", ROWS)
    assert stage.give(2, PromptRows(TensorAt("next"), 10, 0)) == RowsHere(2)
    stage.given.close()


@pytest.mark.parametrize(
    ("first", "attends", "sidecar", "can"),
    [(True, False, True, True), (True, False, False, False), (False, False, False, True), (False, True, False, False)],
)
def test_a_stage_that_needs_rows_takes_none_without_a_sidecar(
    node: Node, first: bool, attends: bool, sidecar: bool, can: bool
) -> None:
    stage = Stage(node.name if sidecar else "", first=first, attends=attends)
    assert stage.given.can_take is can
    stage.given.close()

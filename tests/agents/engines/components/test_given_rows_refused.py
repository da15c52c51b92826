"""Rows that do not fit a step are refused before anything is changed."""

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.errors import BadBatchError, OutOfKvBlocksError
from agents.engines.given_rows import EmbeddedRows, EncodedRows, GivenRows
from agents.engines.grid_positions import GridSpan
from agents.engines.protocol import StageEngine
from agents.engines.sampling import GREEDY
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.checkpoint import Checkpoint
from tests.agents.engines.components.tiny_graphs import LAYERS
from tests.agents.engines.pipelines import DEVICE, cut

Made = Callable[[str], tuple[Checkpoint, PreTrainedModel]]
IDS = torch.arange(4, 12)
ROWS = torch.zeros(3, 64)


def load(checkpoint: Checkpoint, layers: tuple[int, ...] = (LAYERS,), stage: int = 0, blocks: int = 16) -> StageEngine:
    return load_torch_engine(checkpoint, cut(layers)[stage], blocks, torch.float32, DEVICE)


def refused(engine: StageEngine, request: StepRequest, given: GivenRows, rows: torch.Tensor = IDS) -> None:
    free = engine.free_kv_blocks
    with pytest.raises(BadBatchError):
        engine.step(StepBatch((request,), given), rows)
    assert engine.free_kv_blocks == free


@pytest.mark.parametrize(
    "embedded",
    [
        EmbeddedRows("other", 0, ROWS),
        EmbeddedRows("r", 6, ROWS),
        EmbeddedRows("r", 0, torch.zeros(3, 63)),
        EmbeddedRows("r", 0, torch.zeros(0, 64)),
    ],
)
def test_rows_in_place_of_tokens(tiny_graph: Made, embedded: EmbeddedRows) -> None:
    refused(load(tiny_graph("qwen-vl")[0]), StepRequest("r", 0, 8, GREEDY), GivenRows((embedded,)))


def test_rows_are_embedded_on_the_first_stage_alone(tiny_graph: Made) -> None:
    stage = load(tiny_graph("qwen-vl")[0], (2, 4), 1)
    given = GivenRows((EmbeddedRows("r", 0, ROWS),))
    refused(stage, StepRequest("r", 0, 8, GREEDY), given, torch.zeros(8, 64))


def test_grids_are_for_models_with_three_positions(tiny_graph: Made) -> None:
    grids = (GridSpan(0, 1, 2, 2), GridSpan(3, 1, 1, 1))
    refused(load(tiny_graph("qwen-vl")[0]), StepRequest("r", 0, 8, GREEDY, grids=grids), GivenRows())
    refused(load(tiny_graph("internvl")[0]), StepRequest("r", 0, 8, GREEDY, grids=grids[:1]), GivenRows())


@pytest.mark.parametrize(
    "encoded",
    [
        (),
        (EncodedRows("r", torch.zeros(49, 64)),),
        (EncodedRows("other", torch.zeros(50, 64)),),
        (EncodedRows("r", torch.zeros(50, 64)), EncodedRows("r", torch.zeros(50, 64))),
    ],
)
def test_rows_of_an_encoder_come_once_with_the_first_step(tiny_graph: Made, encoded: tuple[EncodedRows, ...]) -> None:
    engine = load(tiny_graph("whisper")[0])
    request, rows = StepRequest("r", 0, 8, GREEDY), EncodedRows("r", torch.zeros(50, 64))
    refused(engine, request, GivenRows(encoded=encoded))
    engine.step(StepBatch((request,), GivenRows(encoded=(rows,))), IDS)
    refused(engine, StepRequest("r", 8, 8, GREEDY), GivenRows(encoded=(rows,)))


def test_a_model_without_an_encoder_takes_no_rows_of_one(tiny_graph: Made) -> None:
    given = GivenRows(encoded=(EncodedRows("r", torch.zeros(50, 64)),))
    refused(load(tiny_graph("qwen-vl")[0]), StepRequest("r", 0, 8, GREEDY), given)


def test_rows_of_an_encoder_take_room_beside_tokens(tiny_graph: Made) -> None:
    """50 of them and 8 tokens are 4 + 1 blocks of 16."""
    engine = load(tiny_graph("whisper")[0], blocks=9)
    first, second = (
        StepBatch((StepRequest(name, 0, 8, GREEDY),), GivenRows(encoded=(EncodedRows(name, torch.zeros(50, 64)),)))
        for name in "ab"
    )
    engine.step(first, IDS)
    assert engine.free_kv_blocks == 4
    assert engine.kv_blocks_short(second) == 1
    with pytest.raises(OutOfKvBlocksError):
        engine.step(second, IDS)
    with pytest.raises(OutOfKvBlocksError):
        engine.reserve("c", 8)
    engine.free("a")
    engine.reserve("c", 8)
    assert engine.free_kv_blocks == 4
    engine.free("c")
    assert engine.free_kv_blocks == 9

"""Encoders and generators are measured with units of the sizes that are asked for, whatever kind they take."""

from pathlib import Path

import pytest
import torch

from agents.engines.components.unit_kinds import Clips, Patches, Pixels, Samples, Tiles, UnitKind
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.word_pictures import load_word_pictures
from agents.profile.measure import BLOCKS
from agents.profile.unit_times import example_of, measured_answers, measured_units
from agents.weights.source import open_checkpoint
from tests.agents.engines.components.tiny_graphs import save_graph
from tests.agents.engines.components.tiny_pictures import save_pictures


@pytest.mark.parametrize(
    ("takes", "rows"),
    [
        (Samples(16_000, 480_000, 1500), 1500),
        (Clips(16_000, 480_000, 160), 100),
        (Patches(3, 2, 4, 2), 60),
        (Tiles(3, 8, 4, 2), 6),
        (Pixels(3, 4), 26),
    ],
)
def test_an_example_is_taken_and_becomes_about_as_many_rows(takes: UnitKind, rows: int) -> None:
    unit = example_of(takes, rows)
    assert takes.refusal(unit) is None
    assert takes.rows_out(unit) == rows


def test_each_size_is_measured_as_often(tmp_path: Path) -> None:
    save_graph("qwen-vl", tmp_path)
    engine = load_torch_encoder(open_checkpoint(tmp_path), "vision", torch.float32, torch.device("cpu"))
    found = list(measured_units(engine, (4, 16)))
    engine.close()
    assert [each.rows for each in found] == [4.0, 16.0] * BLOCKS
    assert all(min(each.seconds, each.cpu_s) > 0 for each in found)


def test_a_picture_counts_by_its_rows_and_steps(tmp_path: Path) -> None:
    engine = load_word_pictures(open_checkpoint(save_pictures(tmp_path)), torch.float32, torch.device("cpu"), Limits())
    found = list(measured_answers(engine, (1, 4), item_rows=9.0))
    engine.close()
    assert [each.rows for each in found] == [9.0, 36.0] * BLOCKS
    assert all(min(each.seconds, each.cpu_s) > 0 for each in found)

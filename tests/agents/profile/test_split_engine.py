"""A node with several devices measures the engine that is cut over them."""

from pathlib import Path

import msgspec
import pytest

from agents.profile import __main__ as program
from agents.profile import hand_off_cost, measure
from agents.profile.measure import BLOCKS
from templates_lib.cost.fit import fit_step_terms
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.values.profile_row import Header, ProfileBlock, rows_of
from tests.agents.engines.tiny_models import save_model


@pytest.mark.slow
def test_steps_and_hand_offs_of_an_engine_cut_over_two_devices_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model("llama", tmp_path / "weights")
    monkeypatch.setattr(measure, "BLOCK_S", 0.001)
    monkeypatch.setattr(hand_off_cost, "_MEASURE_S", 0.05)
    out = tmp_path / "rows.jsonl"
    what = ("engine", "--weights", f"path:{tmp_path / 'weights'}", "--tensor-parallel", "2")
    monkeypatch.setattr("sys.argv", ["profile", "--out", str(out), "--dtype", "fp32", *what])
    assert program._main() == 0
    header, *blocks, hand_off = out.read_bytes().splitlines()
    assert msgspec.json.decode(header, type=Header).lines == len(blocks) + 1
    rows = rows_of([msgspec.json.decode(each, type=ProfileBlock) for each in blocks], 2.0)
    assert len(rows) * BLOCKS == len(blocks)
    assert min(fit_step_terms(rows)[0].values()) >= 0
    assert msgspec.json.decode(hand_off, type=HandOffCost).cpu_s_per_byte > 0

"""What links take of a node's processor is measured on real links of a real engine, and none of them is left."""

import threading
from pathlib import Path

import pytest
import torch

from agents.engines.guarded_engine import GuardedEngine
from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import load_torch_engine
from agents.profile import hand_off_cost
from agents.profile.hand_off_cost import beside, measure_hand_off_cost
from agents.profile.measure import kv_blocks
from agents.weights.source import open_checkpoint
from tests.agents.engines.tiny_models import save_model


@pytest.mark.parametrize("context", [0, 64])
def test_an_engine_has_room_for_what_is_measured_on_it(context: int) -> None:
    point = beside(context)
    assert 0 < point.longest <= (context or point.longest)
    assert kv_blocks((point,), 16) * 16 >= point.cached_tokens


@pytest.mark.parametrize(("first", "is_first", "is_last"), [(0, True, False), (1, False, True)])
def test_both_directions_cost_something_and_no_thread_is_left(
    first: int, is_first: bool, is_last: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_off_cost, "_MEASURE_S", 0.05)
    model = save_model("qwen3", tmp_path)
    held = LayerRange(first, model.config.num_hidden_layers - 1, first=is_first, last=is_last)
    opened = open_checkpoint(tmp_path)
    point = beside(model.config.max_position_embeddings)
    loaded = load_torch_engine(opened, held, kv_blocks((point,), 16), torch.float32, torch.device("cpu"))
    engine, threads, before = GuardedEngine(loaded), torch.get_num_threads(), threading.active_count()
    room = engine.free_kv_blocks
    cost = measure_hand_off_cost(engine)
    assert 0 < cost.send_cpu_s_per_byte < 1e-5
    assert 0 < cost.take_cpu_s_per_byte < 1e-5
    assert cost.cpu_s_per_byte == max(cost.send_cpu_s_per_byte, cost.take_cpu_s_per_byte)
    assert (engine.free_kv_blocks, torch.get_num_threads()) == (room, threads)
    for thread in threading.enumerate():
        if thread.name == "profile":  # the link's, which ends once it has been hung up
            thread.join(120)
    assert threading.active_count() == before

"""The parts of T̂: splits, worst windows, what a request caches, what fits on a GPU."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates_lib.models.model_spec import ExpertSpec, ModelSpec
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.memory import node_memory, weights_bytes
from templates_lib.throughput.request_cache import request_cache
from templates_lib.throughput.splits import splits
from templates_lib.throughput.worst_window import worst_sums
from templates_lib.values.throughput_table import StageRole
from tests.templates_lib import throughput_worlds as worlds

LAYERS = np.arange(1, 9)
LENGTHS = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=6)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_worst_window_is_the_largest_of_all_windows(values: list[float]) -> None:
    worst = worst_sums(np.array(values))
    for j in range(1, len(values) + 1):
        expected = max(sum(values[a : a + j]) for a in range(len(values) - j + 1))
        assert worst[j - 1] == pytest.approx(expected, abs=1e-3)


@given(LENGTHS, st.sampled_from([0, 16, 100, 1000]))
def test_decoding_requests_hold_every_token_of_every_step_in_every_layer(
    pairs: list[tuple[int, int]], window: int
) -> None:
    shape = worlds.shape([p for p, _ in pairs], [o for _, o in pairs])
    served = worlds.served(worlds.model(2, windows=(window, 0)), lengths=shape)
    held = np.mean([p + i for p, o in pairs for i in range(o)]) + 8
    per_token = served.model.kv_bytes_per_token_per_layer
    np.testing.assert_allclose(request_cache(served).decoding / per_token, [held, 2 * held])


def test_windowed_layers_are_sent_up_to_their_window() -> None:
    served = worlds.served(worlds.model(4, windows=(100, 0, 100, 0)), lengths=worlds.shape([50, 450], [10, 10]))
    cache = request_cache(served)
    per_token = served.model.kv_bytes_per_token_per_layer
    np.testing.assert_allclose(cache.handed / per_token, [250, 250 + 75, 500 + 75, 500 + 150])
    assert cache.prompt[3] == pytest.approx(4 * (250 + 8) * per_token)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
def test_splits_use_every_gpu_once(count: int) -> None:
    spec = worlds.model(experts=ExpertSpec(count=8, active=2, intermediate_size=1536))
    found = splits(spec, count)
    assert len(set(found)) == len(found) > 0
    assert all(p.tp * p.dp * p.pp == count for p in found)
    assert all(p.ep in (1, p.tp * p.dp) for p in found)
    assert Parallel(1, count, 1, 1) in found


def test_tensor_parallel_must_divide_heads_and_fit_kv_heads() -> None:
    """Phi-4 has 40 heads and 10 KV heads: vLLM refuses tp = 4."""
    ten = worlds.model(kv_heads=10)
    assert {p.tp for p in splits(ten, 8)} == {1, 2}
    replicated = worlds.model(kv_heads=2)
    assert {p.tp for p in splits(replicated, 8)} == {1, 2, 4, 8}
    assert {p.ep for p in splits(worlds.model(), 8)} == {1}


def test_memory_charges_embedding_and_head_where_they_are_held() -> None:
    spec, gpu = worlds.model(8), worlds.gpu("G")
    body = 4 * (spec.attention_weight_bytes + spec.ffn_weight_bytes)
    weights = node_memory(spec, gpu, Parallel(), LAYERS).weights_bytes[:, 0, 3, 0]
    ends = spec.embedding_weight_bytes
    expected = {StageRole.FIRST: ends, StageRole.MIDDLE: 0.0, StageRole.LAST: ends, StageRole.ONLY: 2 * ends}
    assert {role: weights[role] - body for role in StageRole} == pytest.approx(expected)
    tied = node_memory(worlds.model(8, tied=True), gpu, Parallel(), LAYERS).weights_bytes[:, 0, 3, 0]
    assert tied[StageRole.ONLY] - body == pytest.approx(ends)


def test_memory_charges_both_ends_to_each_part_where_an_engine_keeps_them_there() -> None:
    """On a node of four parts of one layer: of `ends_in_each_part` each has embedding and head, else one of them."""
    spec, parts = worlds.model(4), Parallel(pp=4)
    body, ends = spec.attention_weight_bytes + spec.ffn_weight_bytes, spec.embedding_weight_bytes
    layers = np.array([4])

    def beside_a_layer(model: ModelSpec) -> float:
        return float(weights_bytes(model, parts, layers)[StageRole.ONLY, 0, 0, 0]) - body

    assert beside_a_layer(spec) == pytest.approx(ends)
    assert beside_a_layer(replace(spec, ends_in_each_part=True)) == pytest.approx(2 * ends)
    assert beside_a_layer(replace(spec, ends_in_each_part=True, tied_embeddings=True)) == pytest.approx(ends)


def test_memory_is_shared_by_tensor_and_pipeline_parts_but_not_by_replicas() -> None:
    spec, gpu = worlds.model(8, vocab=0), worlds.gpu("G")
    layer = spec.attention_weight_bytes + spec.ffn_weight_bytes
    held = {
        split: node_memory(spec, gpu, Parallel(*split), LAYERS).weights_bytes[StageRole.MIDDLE, 0, 6, 0] / layer
        for split in ((1, 1, 1), (4, 1, 1), (1, 1, 4), (1, 4, 1), (2, 1, 2))
    }
    assert held == pytest.approx({(1, 1, 1): 7, (4, 1, 1): 7 / 4, (1, 1, 4): 2, (1, 4, 1): 7, (2, 1, 2): 2})


def test_experts_are_shared_over_replicas_only_when_placed_whole() -> None:
    spec = worlds.model(8, vocab=0, experts=ExpertSpec(count=8, active=2, intermediate_size=1024))
    gpu = worlds.gpu("G")
    one, two = (
        node_memory(spec, gpu, Parallel(1, 4, 1, ep), LAYERS).weights_bytes[StageRole.MIDDLE, 0, 0, 0] for ep in (1, 4)
    )
    assert one == pytest.approx(spec.attention_weight_bytes + spec.ffn_weight_bytes)
    assert two == pytest.approx(spec.attention_weight_bytes + spec.ffn_weight_bytes / 4)


def test_kv_heads_are_copied_when_there_are_more_ranks() -> None:
    spec, gpu = worlds.model(8, kv_heads=2), worlds.gpu("G")
    free = np.full((4, 1, 8, 1), 1e9)
    blocks = {
        tp: node_memory(spec, gpu, Parallel(tp), LAYERS).kv_blocks(free, 16)[StageRole.MIDDLE, 0, 7, 0]
        for tp in (1, 2, 8)
    }
    assert blocks[2] == pytest.approx(2 * blocks[1], rel=1e-3)
    assert blocks[8] == blocks[2], "only two KV heads to share out"
    weights = {
        tp: weights_bytes(spec, Parallel(tp), LAYERS)[StageRole.MIDDLE, 0, 7, 0] / LAYERS[7] * tp for tp in (2, 4, 8)
    }
    of_a_kv_head = spec.attention_weight_bytes / (spec.attention_heads + spec.kv_heads)
    assert weights[4] - weights[2] == pytest.approx(2 * of_a_kv_head), "each of two is there twice"
    assert weights[8] - weights[2] == pytest.approx(6 * of_a_kv_head)


def test_larger_steps_and_sampled_rows_leave_less_for_kv() -> None:
    memory = node_memory(worlds.model(), worlds.gpu("G"), Parallel(), LAYERS)
    small, large = (memory.free_bytes(np.full((1, 1, 1, 1), n), np.full((1, 1, 1, 1), n)) for n in (1.0, 1000.0))
    assert (large < small).all()
    lost = (small - large)[:, 0, 0, 0]
    assert lost[StageRole.LAST] > lost[StageRole.MIDDLE], "logits only where the head is"

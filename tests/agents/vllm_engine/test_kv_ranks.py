"""What the ranks of a vLLM engine have of a KV cache is all of it, each number once."""

import pickle
from dataclasses import replace

import pytest
import torch

from agents.vllm_engine.exchange import KvFacts
from agents.vllm_engine.host_kv import HostKv, empty_kv
from agents.vllm_engine.kv_ranks import Heads, KvLayers, Rank, WholeKv, whole_kv

WINDOWS = (0, 5, 0, 5, 0)


def ranks_of(parts: tuple[int, ...], tensor_parallel: int, kv_heads: int) -> dict[Rank, KvLayers | str]:
    """Layers of each part, cut over devices by heads; layers with a window are a group of their own."""
    ranks: dict[Rank, KvLayers | str] = {}
    for part, layers in enumerate(parts):
        first = sum(parts[:part])
        windows = WINDOWS[first : first + layers]
        facts = KvFacts(max(1, kv_heads // tensor_parallel), 8, "torch.float32", 16, windows)
        names = tuple(f"model.layers.{layer}.attn" for layer in range(first, first + layers))
        groups = tuple(int(window > 0) for window in windows)
        for device in range(tensor_parallel):
            heads = Heads(device, tensor_parallel, kv_heads)
            ranks[part, device] = KvLayers(names, groups, first, heads, facts)
    return ranks


@pytest.mark.parametrize(
    ("parts", "tensor_parallel", "kv_heads"), [((5,), 1, 2), ((5,), 2, 4), ((3, 2), 4, 2), ((2, 2, 1), 1, 3)]
)
def test_ranks_have_each_layer_and_head_once_besides_copies(
    parts: tuple[int, ...], tensor_parallel: int, kv_heads: int
) -> None:
    ranks = ranks_of(parts, tensor_parallel, kv_heads)
    whole = whole_kv(ranks)
    assert isinstance(whole, WholeKv)
    assert (whole.facts.kv_heads, whole.facts.windows, whole.windows_of_groups) == (kv_heads, WINDOWS, (0, 5))
    assert whole.facts.is_shared == (len(ranks) > 1)
    seen = torch.zeros(2, len(WINDOWS), 3, kv_heads, 8)
    for rank in ranks.values():
        assert isinstance(rank, KvLayers)
        share = rank.share(seen)
        assert share.shape == (2, len(rank.names), 3, rank.facts.kv_heads, 8)
        if not rank.heads.is_copy:
            share += 1
    assert torch.equal(seen, torch.ones_like(seen))


def test_an_engine_hands_nothing_over_where_one_rank_cannot_or_layers_are_missing() -> None:
    ranks = ranks_of((3, 2), 1, 2)
    assert whole_kv({**ranks, (1, 0): "latent"}) == "latent"
    assert isinstance(whole_kv({(1, 0): ranks[1, 0]}), str)
    other = ranks[1, 0]
    assert isinstance(other, KvLayers)
    halved = replace(other, facts=replace(other.facts, block_tokens=8))
    assert isinstance(whole_kv({**ranks, (1, 0): halved}), str)


def test_a_kv_cache_in_shared_memory_is_one_memory_wherever_it_is_opened() -> None:
    facts = KvFacts(2, 8, "torch.bfloat16", 16, (0, 5), is_shared=True)
    kv = empty_kv(facts, 7)
    opened = pickle.loads(pickle.dumps(kv))  # noqa: S301
    opened.tensor.fill_(3)
    assert torch.equal(kv.tensor, torch.full((2, 2, 7, 2, 8), 3, dtype=torch.bfloat16))
    sent = pickle.dumps(kv)
    del kv, opened
    with pytest.raises(OSError, match="No such file"):
        pickle.loads(sent)  # noqa: S301
    with pytest.raises(TypeError):
        pickle.dumps(HostKv(torch.zeros(1)))

"""Grouped-query attention over the paged KV cache."""

from dataclasses import dataclass

import torch

from agents.engines.torch_engine.attention_plan import AttentionPlan
from agents.engines.torch_engine.kv_cache import KvCache
from agents.engines.torch_engine.linear import Projection
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.rope import rotate
from agents.engines.torch_engine.triton_support import runs_triton


@dataclass(frozen=True, slots=True, eq=False)
class StepPositions:
    """Rotations of the step's tokens, each (tokens, 1, rotated / 2) in the activation type."""

    cosine: torch.Tensor
    sine: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """One layer's attention block, for the heads held here."""

    query_key_value: Projection
    """Rows of all queries, then keys, then values: one product instead of three."""
    output: Projection
    heads: int
    kv_heads: int
    head_dim: int
    query_norm: RmsNorm | None
    key_norm: RmsNorm | None
    sinks: torch.Tensor | None
    """(heads,) logits that take part in the softmax and bring no value."""

    def __call__(
        self, rows: torch.Tensor, positions: StepPositions, cache: KvCache, plan: AttentionPlan, place: int
    ) -> torch.Tensor:
        """(tokens, hidden) → (tokens, hidden); writes keys and values of the layer at `place` of the plan's group."""
        every = self.query_key_value(rows).view(len(rows), -1, self.head_dim)
        slots = plan.slots[place]
        if runs_triton(rows.device):
            queries = self._rotated_by_kernel(every, positions, cache, slots)
        else:
            queries = self._rotated(every, positions, cache, slots)
        return self.output(plan.attend(queries, cache, place, self.sinks).flatten(1))

    def _rotated(
        self, every: torch.Tensor, positions: StepPositions, cache: KvCache, slots: torch.Tensor
    ) -> torch.Tensor:
        """Return the queries; keys and values are in the cache then."""
        queries, keys, values = torch.split_with_sizes(every, (self.heads, self.kv_heads, self.kv_heads), dim=1)
        if self.query_norm and self.key_norm:
            queries, keys = self.query_norm(queries), self.key_norm(keys)
        queries = rotate(queries, positions.cosine, positions.sine)
        cache.keep(slots, rotate(keys, positions.cosine, positions.sine), values)
        return queries

    def _rotated_by_kernel(
        self, every: torch.Tensor, positions: StepPositions, cache: KvCache, slots: torch.Tensor
    ) -> torch.Tensor:
        """The same in one operation."""
        from agents.engines.torch_engine.kernels.row_operations import rotate_and_keep

        query_norm, key_norm = self.query_norm, self.key_norm
        return rotate_and_keep(
            every,
            self.heads,
            positions.cosine,
            positions.sine,
            slots,
            cache.keys,
            cache.values,
            None if query_norm is None else query_norm.weight,
            None if key_norm is None else key_norm.weight,
            0.0 if query_norm is None else query_norm.epsilon,
        )

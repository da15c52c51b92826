"""Which layers and heads of a model's KV cache each rank of a vLLM engine has, and what they are together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from agents.vllm_engine.exchange import KvFacts

Rank = tuple[int, int]
"""Which part of the layers, and which of the devices that the part is cut over."""


@dataclass(frozen=True, slots=True)
class Heads:
    """KV heads of one of `ranks` that share those of a model."""

    rank: int
    ranks: int
    of_model: int

    @property
    def first(self) -> int:
        """Return the first head of this rank. Several ranks have the same one where there are more ranks than heads."""
        return self.rank * self.of_model // self.ranks

    @property
    def is_copy(self) -> bool:
        """Tell whether the rank before this one has the same heads."""
        return self.rank > 0 and (self.rank - 1) * self.of_model // self.ranks == self.first


@dataclass(frozen=True, slots=True)
class KvLayers:
    """Of one rank."""

    names: tuple[str, ...]
    """As vLLM calls them, in the order of the model."""
    groups: tuple[int, ...]
    """Of each layer: which of vLLM's groups, whose layers have their blocks in common."""
    first_layer: int
    heads: Heads
    facts: KvFacts
    """Of its layers and heads alone."""

    def share(self, kv: Any) -> Any:
        """Return what of a whole KV cache, (2, layers, tokens, KV heads, head_dim), is this rank's."""
        layers = slice(self.first_layer, self.first_layer + len(self.names))
        return kv[:, layers, :, self.heads.first : self.heads.first + self.facts.kv_heads]


@dataclass(frozen=True, slots=True)
class WholeKv:
    """Of all ranks together."""

    facts: KvFacts
    windows_of_groups: tuple[int, ...]
    """The shortest window of each group's layers; 0 where each of them keeps all tokens."""


def whole_kv(ranks: Mapping[Rank, KvLayers | str]) -> WholeKv | str:
    """Put together what an engine keeps, or return why it hands nothing over: what its ranks say of it."""
    known: dict[Rank, KvLayers] = {}
    for rank, said in ranks.items():
        if isinstance(said, str):
            return said
        known[rank] = said
    parts = [list(part) for _, part in groupby((known[rank] for rank in sorted(known)), lambda one: one.first_layer)]
    layers = [
        (window, group) for part in parts for window, group in zip(part[0].facts.windows, part[0].groups, strict=True)
    ]
    ends = [part[0].first_layer + len(part[0].names) for part in parts]
    if [part[0].first_layer for part in parts] != [0, *ends[:-1]]:
        return "some layers of the model keep no KV cache of their own, so none is handed over"
    first = parts[0][0]
    alike = {replace(one.facts, windows=()) for one in known.values()}
    if len(alike) > 1 or first.facts.kv_heads != max(1, first.heads.of_model // first.heads.ranks):
        return f"KV cache that ranks keep in different ways is not handed over: {sorted(map(str, alike))}"
    of_group: dict[int, list[int]] = {}
    for window, group in layers:
        of_group.setdefault(group, []).append(window)
    windows = tuple(min(filter(None, of_group[group]), default=0) for group in sorted(of_group))
    is_shared = len(known) > 1
    facts = replace(
        first.facts,
        kv_heads=first.heads.of_model,
        windows=tuple(window for window, _ in layers),
        is_pinned=first.facts.is_pinned and not is_shared,
        is_shared=is_shared,
    )
    return WholeKv(facts, windows)

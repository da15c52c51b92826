"""KV caches on their way between links and an engine, each in host memory of its own."""

from collections.abc import Callable

import torch

from agents.engines.checks import check_new, check_part, check_part_shape
from agents.engines.errors import OutOfMemoryError, UnknownRequestError
from agents.engines.guarded_engine import Computed
from agents.engines.kv_part import KvPart
from agents.engines.layer_range import LayerRange
from agents.engines.stage_facts import StageFacts
from agents.transfer.errors import StoreFullError
from agents.vllm_engine.exchange import KvFacts, first_kept_token
from agents.vllm_engine.host_kv import HostKv, empty_kv


class StagedKv:
    """A `WatchedKv`. Memory of a request that is freed lives on under a copy that has begun."""

    lent_kv = None

    def __init__(self, kv: KvFacts) -> None:
        self._kv = kv
        self.facts = _stage_facts(kv)
        self.watchers: set[Callable[[], None]] = set()
        self._staged: dict[str, HostKv] = {}

    def reserve(self, request_id: str, tokens: int) -> None:
        """Raises OutOfMemoryError where the host has no memory for it."""
        check_new(request_id, tokens, self.computed(request_id).tokens)
        try:
            self._staged[request_id] = empty_kv(self._kv, tokens)
        except (RuntimeError, OSError, StoreFullError) as error:
            raise OutOfMemoryError(f"no host memory for the KV cache of {tokens} tokens: {error}") from error

    def put(self, request_id: str, kv: HostKv) -> None:
        """Keep KV cache that leaves."""
        self._staged[request_id] = kv

    def take(self, request_id: str) -> HostKv:
        """Return KV cache that has come, and forget it. Raises UnknownRequestError."""
        kv = self._of(request_id)
        self.free(request_id)
        return kv

    def free(self, request_id: str) -> None:
        self._staged.pop(request_id, None)

    def computed(self, request_id: str) -> Computed:
        kv = self._staged.get(request_id)
        tokens = 0 if kv is None else kv.tokens
        return Computed(tokens, self.facts.held.end, tokens)

    def export_kv(self, request_id: str, part: KvPart, out: torch.Tensor) -> None:
        out.copy_(self._part(request_id, part, out))

    def import_kv(self, request_id: str, part: KvPart, tensor: torch.Tensor) -> None:
        self._part(request_id, part, tensor).copy_(tensor)

    def first_kept_token(self, layer: int, tokens: int) -> int:
        return first_kept_token(self._kv.windows[layer], tokens)

    def _of(self, request_id: str) -> HostKv:
        if (kv := self._staged.get(request_id)) is None:
            raise UnknownRequestError(f"request {request_id!r} has no KV cache on its way")
        return kv

    def _part(self, request_id: str, part: KvPart, like: torch.Tensor) -> torch.Tensor:
        kv = self._of(request_id)
        check_part(self.facts, part, request_id, kv.tokens, self.first_kept_token)
        check_part_shape(part, like, self.facts.head_dim)
        layers = slice(part.first_layer, part.first_layer + part.layers)
        tokens = slice(part.first_token, part.first_token + part.tokens)
        return kv.tensor[:, layers, tokens, part.first_head : part.first_head + part.heads]


def _stage_facts(kv: KvFacts) -> StageFacts:
    """Return the facts that a hand-off asks for; what else a stage has is not in host memory, and 0 here."""
    layers = len(kv.windows)
    return StageFacts(
        engine="vllm",
        held=LayerRange.whole(layers),
        model_layers=layers,
        hidden_size=0,
        vocab_size=0,
        max_context_tokens=0,
        dtype=getattr(torch, kv.dtype.removeprefix("torch.")),
        device=torch.device("cpu"),
        first_kv_head=0,
        kv_heads=kv.kv_heads,
        head_dim=kv.head_dim,
        block_tokens=kv.block_tokens,
        kv_blocks=0,
        stop_token_ids=(),
        loaded_bytes=0,
        load_s=0.0,
    )

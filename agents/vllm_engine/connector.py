"""Our KV connector on vLLM's public connector interface: the KV cache of a request that another instance prefilled, or
will decode.

vLLM makes one for its scheduler and one for each worker, which is in this process or, where there are several, in
another. Workers say at their start which layers and heads they have; the orders of a step go to all of them as the
connector's metadata. Links to other instances are not its matter (`agents.hand_off`): what leaves and comes is host
memory, where each rank has its own layers and heads of the whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed import get_tensor_model_parallel_rank
from vllm.distributed.kv_transfer import get_kv_transfer_group
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.v1.request import RequestStatus

from agents.messages.to_scheduler import Leg
from agents.vllm_engine.exchange import KvFacts
from agents.vllm_engine.host_kv import HostKv
from agents.vllm_engine.kv_book import Blocks, KvBook, StepOrders
from agents.vllm_engine.kv_copies import KvCopies
from agents.vllm_engine.kv_layers import kv_layers
from agents.vllm_engine.kv_ranks import Heads, KvLayers, Rank, WholeKv, whole_kv

PARAMETERS = "kv_transfer_params"
"""Key in `SamplingParams.extra_args` that vLLM reads for connectors: of a leg, `request_parameters`."""


def request_parameters(name: str, leg: Leg) -> dict[str, str]:
    """Return what the connector is told with a request."""
    return {"name": name, "leg": leg.value}


def read_kept(_worker: Any, blocks: Blocks, kv: HostKv) -> None:
    """Called in each worker: copy what this rank has of a request that keeps its blocks."""
    get_kv_transfer_group().read(blocks, kv)


@dataclass
class _Metadata(KVConnectorMetadata):  # type: ignore[misc]  # vLLM is not where types are checked
    orders: StepOrders


@dataclass
class _Held(KVConnectorHandshakeMetadata):  # type: ignore[misc]
    """What a worker has."""

    layers: KvLayers | str


class HandOverConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self.book = KvBook(vllm_config.cache_config.block_size, ())
        """Of the scheduler's connector."""
        self._whole: WholeKv | str = "no worker of vLLM has said what KV cache it keeps"
        self._layers: KvLayers | str = ""
        """Of a worker's."""
        if role is KVConnectorRole.WORKER:
            ranks, heads = (
                vllm_config.parallel_config.tensor_parallel_size,
                vllm_config.model_config.get_total_num_kv_heads(),
            )
            self._layers = kv_layers(kv_cache_config, Heads(get_tensor_model_parallel_rank(), ranks, heads))
        self._modules = vllm_config.compilation_config.static_forward_context
        self._made: KvCopies | None = None

    # A worker's side, between steps and in them.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        if isinstance(self._layers, KvLayers):
            self._made = KvCopies(self._layers, kv_caches, self._modules)

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata:
        return _Held(self._layers)

    @property
    def _copies(self) -> tuple[KvLayers, KvCopies]:
        if self._made is None or isinstance(self._layers, str):
            raise RuntimeError("vLLM has shown no KV cache that is handed over")
        return self._layers, self._made

    def read(self, blocks: Blocks, kv: HostKv) -> None:
        """Copy this rank's layers and heads out, unless another rank has the same."""
        layers, copies = self._copies
        if not layers.heads.is_copy:
            copies.read(blocks, layers.share(kv.tensor))

    def start_load_kv(self, _forward_context: Any, **_kwargs: Any) -> None:
        for load in self._orders.loads:
            layers, copies = self._copies
            copies.write(load.blocks, layers.share(load.kv.tensor), load.first)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Wait for nothing: a request takes part in steps after the one that loaded its KV cache."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Save nothing: blocks that are handed over stay, and are read between steps."""

    def wait_for_save(self) -> None:
        """Wait for nothing, as nothing is saved."""

    def get_finished(self, _finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        return set(self._orders.sent), set(self._orders.received)

    @property
    def _orders(self) -> StepOrders:
        orders: StepOrders = self._get_connector_metadata().orders
        return orders

    # The scheduler's side.

    @property
    def facts(self) -> KvFacts | str:
        """Return how the KV cache lies, or why none is handed over."""
        return self._whole if isinstance(self._whole, str) else self._whole.facts

    def set_xfer_handshake_metadata_pp_aware(self, metadata: Mapping[Rank, _Held]) -> None:
        self._whole = whole_kv({rank: held.layers for rank, held in metadata.items()})
        if isinstance(self._whole, WholeKv):
            self.book.windows = self._whole.windows_of_groups

    def on_new_request(self, request: Any) -> None:
        told = request.kv_transfer_params
        if told:
            self.book.begin(told["name"], request.request_id, Leg(told["leg"]), request.num_tokens)

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        coming = self.book.coming(request.request_id, num_computed_tokens)
        return coming, coming > 0

    def get_loaded_kv_cache_group_ids(self, _request: Any) -> tuple[int, ...]:
        return tuple(range(len(self._kv_cache_config.kv_cache_groups)))

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        self.book.allocated(request.request_id, blocks.get_block_ids(), num_external_tokens)
        self._uncache(request)  # again here once what it waited for is loaded, and in the prefix cache

    def build_connector_meta(self, _scheduler_output: Any) -> KVConnectorMetadata:
        return _Metadata(self.book.take_orders())

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        return self.request_finished_all_groups(request, (block_ids,))

    def request_finished_all_groups(self, request: Any, block_ids: tuple[list[int], ...]) -> tuple[bool, None]:
        self._uncache(request)
        by_length = request.status == RequestStatus.FINISHED_LENGTH_CAPPED
        return self.book.finished(request.request_id, block_ids, by_length), None

    def _uncache(self, request: Any) -> None:
        blocks = self.book.take_half_written(request.request_id)
        if blocks and self._kv_cache_manager is not None:
            self._kv_cache_manager.evict_blocks(set(blocks))

"""Producers that wait for memory, in the order in which they came."""

from collections.abc import Iterator
from dataclasses import dataclass

from agents.tensors.entry import Entry
from agents.tensors.kept_rows import KeptRows
from agents.tensors.slab import Extent, Slab, padded
from agents.transfer.errors import StoreFullError, TransferError


@dataclass(frozen=True, slots=True)
class Claim:
    client: int
    call: int
    tensor: Entry
    size: int


class Claims:
    """Who has used up its quota, or whose consumers are too far behind, waits by itself. Who finds no room in the slab
    keeps those behind it waiting: a large tensor is not starved by small ones."""

    def __init__(self, slab: Slab, kept: KeptRows, quota_bytes: int) -> None:
        self._slab = slab
        self._kept = kept
        self._quota_bytes = min(quota_bytes, slab.size)
        self._waiting: list[Claim] = []

    def check(self, size: int) -> None:
        """Raises StoreFullError for what no waiting helps."""
        if padded(size) > self._quota_bytes:
            raise StoreFullError(f"{size} bytes are more than the {self._quota_bytes} that a producer may have")

    def add(self, claim: Claim) -> None:
        """`claim`: of a size that was checked."""
        self._waiting.append(claim)

    def has(self, tensor: Entry) -> bool:
        return any(claim.tensor is tensor for claim in self._waiting)

    def forget(self, client: int) -> None:
        self._waiting = [claim for claim in self._waiting if claim.client != client]

    def settled(self) -> Iterator[tuple[Claim, tuple[Extent, ...] | TransferError]]:
        """Claims that need not wait any more, each with its memory, which the caller holds, or why there is none."""
        is_full = False
        for claim in list(self._waiting):
            try:
                extents, is_full = self._try(claim, is_full)
            except TransferError as error:
                self._waiting.remove(claim)
                yield claim, error
                continue
            if extents is not None:
                self._waiting.remove(claim)
                yield claim, extents

    def _try(self, claim: Claim, is_full: bool) -> tuple[tuple[Extent, ...] | None, bool]:
        """Memory for a claim if it may have it now, and whether somebody waits for the slab. Raises BlobGoneError where
        nobody wants the tensor any more."""
        tensor = claim.tensor
        if not tensor.blob.has_room or is_full:
            return None, is_full
        if self._slab.charged(tensor.account) + padded(claim.size) > self._quota_bytes:
            return None, is_full
        part = padded(claim.size) if tensor.spec.is_stream else tensor.part
        extents = self._slab.allocate(claim.size, part, tensor.account)
        while extents is None and self._kept.give_up_one():
            extents = self._slab.allocate(claim.size, part, tensor.account)
        return extents, extents is None

"""A client of a sidecar, and the memory that comes back when it is dead."""

from collections import Counter

from agents.tensors.slab import Extent, Slab
from agents.transfer.errors import BadPieceError


class Holder:
    def __init__(self, account: str, slab: Slab) -> None:
        self.account = account
        self._slab = slab
        self._times: Counter[Extent] = Counter()
        """How often it holds each extent, written or read."""

    def hold(self, extent: Extent, *, is_granted: bool = False) -> None:
        """`is_granted`: the extent was allocated for it, and counts it already."""
        if not is_granted:
            self._slab.hold(extent)
        self._times[extent] += 1

    @property
    def holds_nothing(self) -> bool:
        return not self._times

    def holds(self, extent: Extent) -> bool:
        return self._times[extent] > 0

    def release(self, extent: Extent, *, to_tensor: bool = False) -> None:
        """`to_tensor`: its hold goes over to the tensor. Raises BadPieceError for what it does not hold."""
        if not self.holds(extent):
            raise BadPieceError(f"who releases {extent.offset} does not hold it")
        self._times[extent] -= 1
        if not self._times[extent]:
            del self._times[extent]
        if not to_tensor:
            self._slab.drop(extent)

    def release_all(self) -> None:
        for extent in self._times.elements():
            self._slab.drop(extent)
        self._times.clear()

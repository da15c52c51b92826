"""Tensors as those who take them see them: arrays over the slab, which stays as it is for as long as they are held."""

import warnings
import weakref
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agents.messages.tensor_spec import TensorSpec
from agents.tensors.calls import Calls
from agents.transfer.errors import BadPieceError

if TYPE_CHECKING:
    import torch


def numpy_dtype(name: str) -> "np.dtype[Any]":
    """numpy has no bfloat16: such a tensor is an array of its bits."""
    return np.dtype("uint16" if name == "bfloat16" else name)


class SlabView:
    """Bytes of the slab that are not used for anything else while this is alive; arrays over it keep it so."""

    def __init__(self, calls: Calls, offset: int, size: int, parts: tuple["SlabView", ...] = ()) -> None:
        """`parts`: views that make up this one; without them it is one chunk, which it releases."""
        self.offset, self.size = offset, size
        self._parts = parts
        self._slab = calls.slab
        self.__array_interface__ = {
            "version": 3, "shape": (size,), "typestr": "|u1", "data": (calls.base + offset, True),
        }  # fmt: skip
        if not parts:
            token = object()
            calls.lease(token)
            weakref.finalize(self, calls.release, token, offset).atexit = False

    @classmethod
    def joined(cls, calls: Calls, parts: list["SlabView"]) -> "SlabView":
        """One view over chunks that follow each other. Raises BadPieceError where they do not."""
        if len(parts) == 1:
            return parts[0]
        for before, after in pairwise(parts):
            if before.offset + before.size != after.offset:
                raise BadPieceError(f"a chunk lies at {after.offset}, not at {before.offset + before.size}")
        return cls(calls, parts[0].offset, sum(part.size for part in parts), tuple(parts))


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor, or some rows of a stream, to be read. Whoever wants it for long copies it."""

    spec: TensorSpec
    array: npt.NDArray[Any]
    """Over the slab, without a copy; of bfloat16 the bits, as uint16."""

    def part(self, rank: int, ranks: int, axis: int = 0) -> "TensorView":
        """The slice of one rank of a group, without a copy. Raises BadPieceError where it cannot be cut evenly."""
        if not self.array.ndim or self.array.shape[axis] % ranks:
            raise BadPieceError(f"{self.array.shape} is not cut into {ranks} along axis {axis}")
        size = self.array.shape[axis] // ranks
        where = [slice(None)] * self.array.ndim
        where[axis] = slice(rank * size, (rank + 1) * size)
        return TensorView(self.spec, self.array[tuple(where)])

    def torch(self) -> "torch.Tensor":
        """The same as a tensor of torch, on the CPU and over the slab. It must not be written to."""
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch has no tensors that can only be read
            tensor = torch.from_numpy(self.array)
        return tensor.view(torch.bfloat16) if self.spec.dtype == "bfloat16" else tensor


def viewed(spec: TensorSpec, view: SlabView | None) -> TensorView:
    """The tensor, or rows of a stream, that lies there; None: it has no bytes."""
    dtype = numpy_dtype(spec.dtype)
    flat = np.empty(0, dtype) if view is None else np.asarray(view).view(dtype)
    return TensorView(spec, flat.reshape((-1, *spec.shape) if spec.is_stream else spec.shape))

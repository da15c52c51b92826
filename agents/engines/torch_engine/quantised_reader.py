"""Reads quantised matrices of a checkpoint in the layouts that are published."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from agents.engines.torch_engine.quantised_matrix import E2M1, E4M3, INT4, INT8, Code, QuantisedMatrix
from agents.engines.torch_engine.scale_grid import ScaleGrid, narrow
from agents.engines.torch_engine.weight_layout import WeightLayout
from agents.weights.checkpoint import Checkpoint
from agents.weights.errors import MissingWeightsError, WeightsError

_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which four bits of 32 are an output's (AutoAWQ, `packing_utils.py`: made for how a GPU's threads unpack them)."""


@dataclass(frozen=True, slots=True, eq=False)
class LooseMatrix:
    """A matrix while it is read: a byte for each code."""

    code: Code
    codes: torch.Tensor
    """(outputs, inputs)"""
    scales: tuple[ScaleGrid, ...]
    zeros: ScaleGrid | None = None

    def part(self, outputs: slice, inputs: slice) -> QuantisedMatrix:
        """Return some outputs and inputs, packed."""
        scales = tuple(grid.part(outputs, inputs) for grid in self.scales)
        zeros = None
        if self.zeros is not None:
            zeros = replace(self.zeros.part(outputs, inputs), column_of=scales[0].column_of)  # kept once
        return QuantisedMatrix.of(self.code, self.codes[outputs, inputs].clone(), scales, zeros)


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tensors of one matrix."""

    checkpoint: Checkpoint
    name: str
    """Of the matrix, without `.weight`."""
    layout: WeightLayout
    rows: int
    columns: int

    @property
    def groups(self) -> int:
        return -(-self.columns // self.layout.group) if self.layout.group else 1

    @property
    def width(self) -> int:
        """Inputs that share a scale."""
        return self.layout.group or self.columns

    def has(self, piece: str) -> bool:
        return f"{self.name}.{piece}" in self.checkpoint.names

    def read(self, piece: str, *shapes: tuple[int, ...], dtypes: tuple[torch.dtype, ...] = ()) -> torch.Tensor:
        """Read one as it is stored. Raises WeightsError where it is missing, or of none of `shapes` and `dtypes`."""
        name, layout = f"{self.name}.{piece}", self.layout
        if not self.has(piece):
            raise MissingWeightsError(
                f"matrix {self.name!r} is quantised ({layout.reader}), and its tensor {name!r} is missing: the files "
                "are not whole; fetch them again, or name a checkpoint in bf16"
            )
        tensor = self.checkpoint.read(name)
        if shapes and tuple(tensor.shape) not in shapes:
            grouped = f" with a scale for each {layout.group} inputs" if layout.group else ""
            raise WeightsError(
                f"tensor {name!r} has shape {tuple(tensor.shape)}; a matrix of {self.rows} × {self.columns} in "
                f"{layout.bits} bits{grouped} has {' or '.join(map(str, shapes))}: quantization_config and the files "
                "are not of one model; fetch both again from where they are published"
            )
        if dtypes and tensor.dtype not in dtypes:
            wanted = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
            raise WeightsError(
                f"tensor {name!r} is stored as {str(tensor.dtype).removeprefix('torch.')}, quantization_config "
                f"({layout.reader}) says {wanted}: fetch a checkpoint whose files belong together"
            )
        return tensor


def read_quantised(checkpoint: Checkpoint, name: str, layout: WeightLayout, rows: int, columns: int) -> LooseMatrix:
    """Read a matrix of `rows` outputs and `columns` inputs. Raises WeightsError that names the tensor which is missing
    or not what `layout` says."""
    return READERS[layout.reader](Pieces(checkpoint, name, layout, rows, columns))


def unpacked(words: torch.Tensor, bits: int) -> torch.Tensor:
    """(…, words) int32 → (…, codes) uint8, the low bits first."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    return ((words[..., None] >> shifts) & ((1 << bits) - 1)).to(torch.uint8).flatten(-2)


def _gptq(pieces: Pieces) -> LooseMatrix:
    layout, rows, columns = pieces.layout, pieces.rows, pieces.columns
    many, most = 32 // layout.bits, (1 << layout.bits) - 1
    codes = unpacked(pieces.read("qweight", (columns // many, rows), dtypes=(torch.int32,)).T, layout.bits)
    zeros = unpacked(pieces.read("qzeros", (pieces.groups, -(-rows // many)), dtypes=(torch.int32,)), layout.bits)
    scales = pieces.read("scales", (pieces.groups, rows), dtypes=_FLOATS)
    column_of = _order(pieces, "g_idx")
    return _integers(pieces, codes, scales.T, ((zeros[:, :rows] + layout.zero_offset) & most).T, column_of)


def _awq(pieces: Pieces) -> LooseMatrix:
    rows, columns = pieces.rows, pieces.columns
    words = pieces.read("qweight", (columns, rows // 8), dtypes=(torch.int32,))
    zeros = pieces.read("qzeros", (pieces.groups, rows // 8), dtypes=(torch.int32,))
    scales = pieces.read("scales", (pieces.groups, rows), dtypes=_FLOATS)
    codes, zeros = (
        unpacked(each, 4).view(len(each), -1, 8)[..., list(_AWQ_ORDER)].flatten(1) for each in (words, zeros)
    )
    return _integers(pieces, codes.T, scales.T, zeros.T, None)


def _int_packed(pieces: Pieces) -> LooseMatrix:
    """compressed-tensors, `pack-quantized`: signed numbers, moved up by half their range before they are packed."""
    layout, rows, columns = pieces.layout, pieces.rows, pieces.columns
    many = 32 // layout.bits
    codes = unpacked(pieces.read("weight_packed", (rows, -(-columns // many)), dtypes=(torch.int32,)), layout.bits)
    scales = pieces.read("weight_scale", (rows, pieces.groups), (1,), (), dtypes=_FLOATS)
    zeros = None
    if not layout.symmetric:
        words = pieces.read("weight_zero_point", (-(-rows // many), pieces.groups), dtypes=(torch.int32,))
        zeros = unpacked(words.T, layout.bits)[:, :rows].T
    return _integers(pieces, codes[:, :columns], scales, zeros, _order(pieces, "weight_g_idx"))


def _int8(pieces: Pieces) -> LooseMatrix:
    """compressed-tensors, `int-quantized`."""
    signed = pieces.read("weight", (pieces.rows, pieces.columns), dtypes=(torch.int8,))
    scales = pieces.read("weight_scale", (pieces.rows, 1), (pieces.rows,), (1,), (), dtypes=_FLOATS)
    return LooseMatrix(INT8, signed.view(torch.uint8) ^ 0x80, (_scaled_by(pieces, scales),))


def _fp8(pieces: Pieces) -> LooseMatrix:
    rows, columns = pieces.rows, pieces.columns
    codes = pieces.read("weight", (rows, columns), dtypes=(torch.float8_e4m3fn,)).view(torch.uint8)
    piece = "weight_scale_inv" if pieces.has("weight_scale_inv") else "weight_scale"
    height, width = pieces.layout.block
    if not height:
        scales = pieces.read(piece, (rows, 1), (rows,), (1,), (), dtypes=_FLOATS)
        return LooseMatrix(E4M3, codes, (_scaled_by(pieces, scales),))
    values = pieces.read(piece, (-(-rows // height), -(-columns // width)), dtypes=_FLOATS).to(torch.float32)
    row_of = narrow(torch.arange(rows) // height, len(values))
    return LooseMatrix(E4M3, codes, (ScaleGrid(values, width, row_of),))


def _nvfp4(pieces: Pieces) -> LooseMatrix:
    """modelopt: both scales multiply."""
    return _two_scales(pieces, "weight", pieces.read("weight_scale_2", (), (1,), dtypes=_FLOATS).to(torch.float32))


def _nvfp4_packed(pieces: Pieces) -> LooseMatrix:
    """compressed-tensors: what all scales of the matrix were multiplied with is stored."""
    whole = pieces.read("weight_global_scale", (1,), (), dtypes=_FLOATS).to(torch.float32)
    return _two_scales(pieces, "weight_packed", 1 / whole)


def _two_scales(pieces: Pieces, piece: str, whole: torch.Tensor) -> LooseMatrix:
    rows, columns = pieces.rows, pieces.columns
    packed = pieces.read(piece, (rows, columns // 2), dtypes=(torch.uint8,))
    scales = pieces.read("weight_scale", (rows, pieces.groups), dtypes=(torch.float8_e4m3fn,))
    codes = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    return LooseMatrix(E2M1, codes, (ScaleGrid(scales, pieces.width), _scaled_by(pieces, whole)))


READERS: dict[str, Callable[[Pieces], LooseMatrix]] = {
    "gptq": _gptq,
    "awq": _awq,
    "int-packed": _int_packed,
    "int8": _int8,
    "fp8": _fp8,
    "nvfp4": _nvfp4,
    "nvfp4-packed": _nvfp4_packed,
}
"""Layout → reads a matrix."""
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _integers(
    pieces: Pieces,
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    column_of: torch.Tensor | None,
) -> LooseMatrix:
    """Codes without sign. `scales`, `zeros`: (outputs, groups)."""
    middle = 1 << (pieces.layout.bits - 1)
    grid = None
    if zeros is not None and not bool((zeros == middle).all()):
        moved = (zeros.to(torch.int16) - middle).to(torch.int8)
        grid = ScaleGrid(moved, pieces.width, column_of=column_of)
    scale = ScaleGrid(scales, pieces.width, column_of=column_of) if scales.dim() == 2 else _scaled_by(pieces, scales)
    return LooseMatrix(INT4 if middle == 8 else INT8, codes, (scale,), grid)


def _scaled_by(pieces: Pieces, scales: torch.Tensor) -> ScaleGrid:
    """A scale for each output, or one for all of them."""
    if scales.numel() == pieces.rows and pieces.rows > 1:
        return ScaleGrid(scales.reshape(-1, 1))
    return ScaleGrid(scales.reshape(1, 1), row_of=torch.zeros(pieces.rows, dtype=torch.uint8))


def _order(pieces: Pieces, piece: str) -> torch.Tensor | None:
    """Groups of the inputs where they were quantised in another order (`desc_act`, `actorder`); None: in theirs."""
    if not pieces.has(piece):
        return None
    groups = pieces.read(piece, (pieces.columns,)).long()
    if torch.equal(groups, torch.arange(pieces.columns) // pieces.width):
        return None
    if int(groups.min()) < 0 or int(groups.max()) >= pieces.groups:
        raise WeightsError(
            f"tensor '{pieces.name}.{piece}' names group {int(groups.max())} of {pieces.groups}: its group_size is not "
            f"{pieces.layout.group}; fetch config.json and the files again"
        )
    return narrow(groups, pieces.groups)

"""Products with packed weights: they are read as they are published, and widened in registers."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

FORMATS = ("e2m1", "e4m3", "int4", "int8")
"""How a weight is coded; those of four bits lie two in a byte, the first in its low bits."""
SCALES = ("none", "float", "e4m3", "e8m0")
"""How the scales of groups are coded."""
_SUMS = torch.float32


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the tiles of a product."""

    rows: int
    outputs: int
    codes: int
    """Bytes of each output."""
    warps: int
    stages: int
    splits: int = 1
    """Parts of the inputs: what programs of their own make of them is added up after."""


_WIDENED = Shape(0, 32, 128, 4, 1)
_FEW_ROWS, _MOST_ROWS, _MOST_WIDE_ROWS = 16, 128, 32
"""Of a tile: the fewest that tensor cores multiply, and the most; of rows in fp32."""


def shape_of(rows: int, row_bytes: int, bytes_each: int, in_byte: int, is_of_experts: bool) -> Shape:
    """Return what was fastest on an H100 of 531 shapes for thirteen products of models (FP8, NVFP4 and INT4 of Llama 3
    8B, MXFP4 of gpt-oss-20b). `rows`: of an expert, in the mean, of numbers of `row_bytes`; `bytes_each`: of an output,
    of `in_byte` weights. Rows of fp32 have smaller tiles: others have 99 KiB of shared memory and less."""
    most = _MOST_ROWS if row_bytes <= 2 else _MOST_WIDE_ROWS
    tile = min(most, max(_FEW_ROWS, triton.next_power_of_2(rows)))
    if tile == _FEW_ROWS:
        codes = 128 // in_byte
        return Shape(tile, 64, codes, 4, 4, 1 if is_of_experts or bytes_each < 16 * codes else 4)
    if tile < _MOST_ROWS:
        return Shape(tile, 128 if is_of_experts else 64, 64 // in_byte, 4, 3)
    return Shape(tile, 256, 64 // in_byte, 8, 3)


@triton.jit
def _e4m3(codes):
    """Bytes → fp32: their bits stand where those of fp32 do, and 2¹²⁰ makes up for how its exponent is biased; numbers
    too small for a leading one come out right too. Not for NaN."""
    wide = codes.to(tl.int32)
    return (((wide & 0x80) << 24) | ((wide & 0x7F) << 20)).to(tl.float32, bitcast=True) * 1.329227995784916e36


@triton.jit
def _e2m1(codes):
    """Four bits (sign, two of exponent, one of mantissa) → fp32, in the same way, by 2¹²⁶."""
    return (((codes & 8) << 28) | ((codes & 7) << 22)).to(tl.float32, bitcast=True) * 8.507059173023462e37


@triton.jit
def _number(codes, FORMAT: tl.constexpr):
    """Codes in int32 → fp32."""
    if FORMAT == "e2m1":
        value = _e2m1(codes)
    elif FORMAT == "e4m3":
        value = _e4m3(codes)
    elif FORMAT == "int4":
        value = (codes - 8).to(tl.float32)
    else:
        value = (codes - 128).to(tl.float32)
    return value


@triton.jit
def _scale(stored, SCALE: tl.constexpr):
    if SCALE == "e4m3":
        value = _e4m3(stored)
    elif SCALE == "e8m0":
        value = (stored.to(tl.int32) << 23).to(tl.float32, bitcast=True)
    else:
        value = stored.to(tl.float32)
    return value


@triton.jit
def _of_groups(
    stored,
    place,
    is_output,
    is_weight,
    at,
    columns,
    width,
    first_input,
    IN_BYTE: tl.constexpr,
    CODED: tl.constexpr,
    GROUPS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CODES: tl.constexpr,
):
    """What a tile's weights are multiplied by, or less by, as (OUTPUTS, CODES); as (OUTPUTS, 1) where GROUPS is 1.

    `place`: of each output's numbers in `stored`. GROUPS: of the tile; 0: groups begin and end within tiles, and each
    weight looks its own number up."""
    if GROUPS == 1:
        numbers = tl.load(stored + place + (first_input + at * IN_BYTE) // width, mask=is_output, other=0)
        made = _scale(numbers, CODED)[:, None]
    elif GROUPS > 1:
        column = (first_input + at * IN_BYTE) // width + tl.arange(0, GROUPS)
        is_number = is_output[:, None] & (column < columns)[None, :]
        numbers = _scale(tl.load(stored + place[:, None] + column[None, :], mask=is_number, other=0), CODED)
        each = tl.broadcast_to(numbers[:, :, None], (OUTPUTS, GROUPS, CODES // GROUPS))
        made = tl.reshape(each, (OUTPUTS, CODES))
    else:
        column = (first_input + (at + tl.arange(0, CODES)) * IN_BYTE) // width
        made = _scale(tl.load(stored + place[:, None] + column[None, :], mask=is_weight, other=0), CODED)
    return made


@triton.jit
def _tile_rows(ends, tile, count, experts, EXPERTS: tl.constexpr, ROWS: tl.constexpr):
    """The expert of a tile of rows, its first row, and where the rows of that expert end. A tile beyond the last
    expert's has no rows: first and end are both 0 then."""
    expert = 0
    first_row = tile * ROWS
    end_row = count
    if EXPERTS > 0:
        each = tl.arange(0, EXPERTS)
        is_expert = each < experts
        end = tl.load(ends + each, mask=is_expert, other=0)
        begin = tl.load(ends + each - 1, mask=is_expert & (each > 0), other=0)
        tiles = tl.where(is_expert, (end - begin + ROWS - 1) // ROWS, 0)
        through = tl.cumsum(tiles, 0)
        expert = tl.sum((through <= tile).to(tl.int32), 0)
        is_it = each == expert
        first_row = tl.sum(tl.where(is_it, begin + (tile - through + tiles) * ROWS, 0), 0)
        end_row = tl.sum(tl.where(is_it, end, 0), 0)
    return expert, first_row, end_row


@triton.jit
def _multiply(
    rows,
    codes,
    scales,
    zeros,
    row_of,
    output_scales,
    bias,
    ends,
    out,
    count,
    experts,
    outputs,
    inputs,
    held,
    rows_stride,
    codes_stride,
    out_stride,
    scale_columns,
    scale_width,
    first_input,
    EXPERTS: tl.constexpr,
    FORMAT: tl.constexpr,
    SCALE: tl.constexpr,
    GROUPS: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
    HAS_ROW_OF: tl.constexpr,
    HAS_OUTPUT_SCALES: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CODES: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """OUTPUTS outputs of one expert, of ROWS of its rows, over one of SPLITS parts of the inputs: weights stand on the
    left of the product, where they stay in registers once they are widened.

    Which expert is found here, from where the rows of each end, so that nothing waits for the router's choice."""
    IN_BYTE: tl.constexpr = 2 if (FORMAT == "e2m1" or FORMAT == "int4") else 1
    split = tl.program_id(2)
    expert, first_row, end_row = _tile_rows(ends, tl.program_id(1), count, experts, EXPERTS, ROWS)
    if first_row < end_row:
        row = first_row + tl.arange(0, ROWS)
        is_row = row < end_row
        output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
        is_output = output < outputs
        matrix_row = expert * outputs + output
        scale_row = matrix_row
        if HAS_ROW_OF:
            scale_row = tl.load(row_of + matrix_row, mask=is_output, other=0).to(tl.int32)
        code_place = matrix_row.to(tl.int64) * codes_stride
        scale_place = scale_row.to(tl.int64) * scale_columns
        row_place = row.to(tl.int64) * rows_stride
        sums = tl.zeros((OUTPUTS, ROWS), tl.float32)
        for at in range(split * CODES, held, SPLITS * CODES):
            byte = at + tl.arange(0, CODES)
            is_weight = is_output[:, None] & (byte < held)[None, :]
            packed = tl.load(codes + code_place[:, None] + byte[None, :], mask=is_weight, other=0).to(tl.int32)
            where = (is_output, is_weight, at, scale_columns, scale_width, first_input)
            if SCALE != "none":
                scale = _of_groups(scales, scale_place, *where, IN_BYTE, SCALE, GROUPS, OUTPUTS, CODES)
            if HAS_ZEROS:
                zero = _of_groups(zeros, scale_place, *where, IN_BYTE, "float", GROUPS, OUTPUTS, CODES)
            # Where a tile has one scale for each output, that is multiplied after.
            part = tl.zeros((OUTPUTS, ROWS), tl.float32) if GROUPS == 1 else sums
            for i in tl.static_range(IN_BYTE):
                weight = _number((packed >> (4 * i)) & 0xF if IN_BYTE == 2 else packed, FORMAT)
                if HAS_ZEROS:
                    weight = weight - zero
                if GROUPS != 1 and SCALE != "none":
                    weight = weight * scale
                column = byte * IN_BYTE + i
                is_input = (column < inputs)[:, None] & is_row[None, :]
                given = tl.load(rows + column[:, None] + row_place[None, :], mask=is_input, other=0.0)
                part = tl.dot(weight.to(given.dtype), given, part, input_precision="ieee")
            sums = sums + part * scale if GROUPS == 1 else part
        if HAS_OUTPUT_SCALES:
            sums *= tl.load(output_scales + matrix_row, mask=is_output, other=0.0)[:, None]
        if HAS_BIAS:
            added = tl.load(bias + matrix_row, mask=is_output, other=0.0).to(tl.float32)
            sums += tl.where(split == 0, added, 0.0)[:, None]
        place = split.to(tl.int64) * out_stride + row.to(tl.int64)[None, :] * outputs + output[:, None]
        tl.store(out + place, sums.to(out.dtype.element_ty), mask=is_row[None, :] & is_output[:, None])


@triton.jit
def _widen(
    codes,
    scales,
    zeros,
    row_of,
    output_scales,
    out,
    outputs,
    inputs,
    held,
    codes_stride,
    scale_columns,
    scale_width,
    first_input,
    FORMAT: tl.constexpr,
    SCALE: tl.constexpr,
    GROUPS: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
    HAS_ROW_OF: tl.constexpr,
    HAS_OUTPUT_SCALES: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CODES: tl.constexpr,
):
    """OUTPUTS outputs of a tile of CODES bytes each, as numbers."""
    IN_BYTE: tl.constexpr = 2 if (FORMAT == "e2m1" or FORMAT == "int4") else 1
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    at = tl.program_id(1) * CODES
    is_output = output < outputs
    byte = at + tl.arange(0, CODES)
    is_weight = is_output[:, None] & (byte < held)[None, :]
    place = output.to(tl.int64)[:, None] * codes_stride + byte[None, :]
    packed = tl.load(codes + place, mask=is_weight, other=0).to(tl.int32)
    scale_row = output
    if HAS_ROW_OF:
        scale_row = tl.load(row_of + output, mask=is_output, other=0).to(tl.int32)
    scale_place = scale_row.to(tl.int64) * scale_columns
    weight = _number(packed & 0xF if IN_BYTE == 2 else packed, FORMAT)
    if IN_BYTE == 2:
        other = _number((packed >> 4) & 0xF, FORMAT)
    where = (is_output, is_weight, at, scale_columns, scale_width, first_input)
    if HAS_ZEROS:
        zero = _of_groups(zeros, scale_place, *where, IN_BYTE, "float", GROUPS, OUTPUTS, CODES)
        weight -= zero
        if IN_BYTE == 2:
            other -= zero
    factor = tl.full((OUTPUTS, 1), 1.0, tl.float32)
    if HAS_OUTPUT_SCALES:
        factor = tl.load(output_scales + output, mask=is_output, other=0.0)[:, None]
    if SCALE != "none":
        factor = factor * _of_groups(scales, scale_place, *where, IN_BYTE, SCALE, GROUPS, OUTPUTS, CODES)
    weight = (weight * factor).to(out.dtype.element_ty)
    if IN_BYTE == 2:
        weight = tl.interleave(weight, (other * factor).to(out.dtype.element_ty))
    column = at * IN_BYTE + tl.arange(0, CODES * IN_BYTE)
    is_number = is_output[:, None] & (column < inputs)[None, :]
    tl.store(out + output.to(tl.int64)[:, None] * inputs + column[None, :], weight, mask=is_number)


def multiply(
    rows: torch.Tensor,
    codes: torch.Tensor,
    code: str,
    scales: torch.Tensor | None,
    scale: str,
    scale_width: int,
    first_input: int,
    zeros: torch.Tensor | None,
    row_of: torch.Tensor | None,
    output_scales: torch.Tensor | None,
    bias: torch.Tensor | None,
    outputs: int,
    inputs: int,
    ends: torch.Tensor | None,
    shape: "Shape | None" = None,
) -> torch.Tensor:
    """(rows, inputs) → (rows, outputs), in the type of the rows.

    `codes`: (experts × outputs, bytes) uint8, of the experts below each other, coded as one of FORMATS. `scales`:
    (numbers, columns), coded as one of SCALES: input i of an output is multiplied by column
    (first_input + i) // scale_width of number `row_of[output]`, or of its own; `zeros`, of the same shape, are
    subtracted before. `scale_width` and `first_input` are even where two codes lie in a byte. `output_scales`: (experts
    × outputs,) fp32, multiply too. `bias`: (experts × outputs,). `ends`: (experts,) int32: where the rows of each
    expert end; None: there is one. What comes for rows behind the last end means nothing. `shape`: of the tiles, where
    `shape_of` is not to choose it."""
    rows = rows.contiguous()
    count = len(rows)
    experts = 1 if ends is None else len(ends)
    if not count:
        return rows.new_empty(count, outputs)
    in_byte = 2 if code in ("e2m1", "int4") else 1
    held = -(-inputs // in_byte)
    shape = shape or shape_of(count // experts, rows.element_size(), held, in_byte, ends is not None)
    # Of each expert one tile is not full, and none has a tile without rows.
    tiles = triton.cdiv(count, shape.rows) if ends is None else min(count, count // shape.rows + experts)
    splits = shape.splits
    made = rows.new_empty(count, outputs) if splits == 1 else rows.new_empty(splits, count, outputs, dtype=_SUMS)
    nothing = rows
    _multiply[(triton.cdiv(outputs, shape.outputs), tiles, splits)](
        rows,
        codes,
        nothing if scales is None else scales,
        nothing if zeros is None else zeros,
        nothing if row_of is None else row_of,
        nothing if output_scales is None else output_scales,
        nothing if bias is None else bias,
        nothing if ends is None else ends,
        made,
        count,
        experts,
        outputs,
        inputs,
        held,
        rows.stride(0),
        codes.stride(0),
        count * outputs,
        1 if scales is None else scales.shape[1],
        scale_width,
        first_input,
        EXPERTS=0 if ends is None else triton.next_power_of_2(experts),
        FORMAT=code,
        SCALE=scale,
        GROUPS=0 if scales is None else _groups(shape.codes * in_byte, scale_width, first_input),
        HAS_ZEROS=zeros is not None,
        HAS_ROW_OF=row_of is not None,
        HAS_OUTPUT_SCALES=output_scales is not None,
        HAS_BIAS=bias is not None,
        ROWS=shape.rows,
        OUTPUTS=shape.outputs,
        CODES=shape.codes,
        SPLITS=splits,
        num_warps=shape.warps,
        num_stages=shape.stages,
    )
    return made if splits == 1 else made.sum(0).to(rows.dtype)


def _groups(tile_inputs: int, width: int, first_input: int) -> int:
    """Return how many groups of `width` inputs a tile has; 0 where they do not begin and end with tiles."""
    if width >= tile_inputs:
        return 1 if width % tile_inputs == 0 and first_input % tile_inputs == 0 else 0
    return tile_inputs // width if tile_inputs % width == 0 and first_input % width == 0 else 0


def widened(
    codes: torch.Tensor,
    code: str,
    scales: torch.Tensor | None,
    scale: str,
    scale_width: int,
    first_input: int,
    zeros: torch.Tensor | None,
    row_of: torch.Tensor | None,
    output_scales: torch.Tensor | None,
    inputs: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return (outputs, inputs) numbers of a matrix. Arguments as `multiply` says, of the outputs that are wanted, but
    for `scales` and `zeros` where there is `row_of`."""
    outputs, in_byte = len(codes), 2 if code in ("e2m1", "int4") else 1
    held = -(-inputs // in_byte)
    made = torch.empty(outputs, inputs, dtype=dtype, device=codes.device)
    _widen[(triton.cdiv(outputs, _WIDENED.outputs), triton.cdiv(held, _WIDENED.codes))](
        codes,
        made if scales is None else scales,
        made if zeros is None else zeros,
        made if row_of is None else row_of,
        made if output_scales is None else output_scales,
        made,
        outputs,
        inputs,
        held,
        codes.stride(0),
        1 if scales is None else scales.shape[1],
        scale_width,
        first_input,
        FORMAT=code,
        SCALE=scale,
        GROUPS=0 if scales is None else _groups(_WIDENED.codes * in_byte, scale_width, first_input),
        HAS_ZEROS=zeros is not None,
        HAS_ROW_OF=row_of is not None,
        HAS_OUTPUT_SCALES=output_scales is not None,
        OUTPUTS=_WIDENED.outputs,
        CODES=_WIDENED.codes,
        num_warps=_WIDENED.warps,
    )
    return made

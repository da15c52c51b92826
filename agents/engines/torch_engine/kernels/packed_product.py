"""Products with packed weights: they are read as they are published, and widened in registers."""

import torch
import triton
import triton.language as tl

FORMATS = ("e2m1", "e4m3", "int4", "int8")
"""How a weight is coded; those of four bits lie two in a byte, the first in its low bits."""
SCALES = ("none", "float", "e4m3", "e8m0")
"""How the scales of groups are coded."""
_OUTPUTS, _CODES = 64, 64
"""Of a tile of weights: outputs, and bytes of each."""
_MOST_ROWS = 128


@triton.jit
def _e4m3(codes):
    """Bytes → fp32, by way of fp16, whose exponent is one bit longer and biased by 8 more. Not for NaN."""
    wide = codes.to(tl.int16)
    halves = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    return halves.to(tl.float16, bitcast=True).to(tl.float32) * 256.0


@triton.jit
def _e2m1(codes):
    """Four bits (sign, two of exponent, one of mantissa) → fp32."""
    exponent = (codes >> 1) & 3
    mantissa = codes & 1
    normal = (((exponent + 126) << 23) | (mantissa << 22)).to(tl.float32, bitcast=True)
    size = tl.where(exponent == 0, mantissa.to(tl.float32) * 0.5, normal)
    return tl.where((codes & 8) == 0, size, -size)


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
    rows_stride,
    codes_stride,
    scale_columns,
    scale_width,
    first_input,
    EXPERTS: tl.constexpr,
    FORMAT: tl.constexpr,
    SCALE: tl.constexpr,
    HAS_ZEROS: tl.constexpr,
    HAS_ROW_OF: tl.constexpr,
    HAS_OUTPUT_SCALES: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CODES: tl.constexpr,
):
    """ROWS rows of one expert times OUTPUTS of its outputs.

    Which expert is found here, from where the rows of each end, so that nothing waits for the router's choice."""
    IN_BYTE: tl.constexpr = 2 if (FORMAT == "e2m1" or FORMAT == "int4") else 1
    tile = tl.program_id(0)
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
    # A tile beyond the last expert's has no rows: first and end are both 0 then.
    if first_row < end_row:
        row = first_row + tl.arange(0, ROWS)
        is_row = row < end_row
        output = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
        is_output = output < outputs
        matrix_row = expert * outputs + output
        scale_row = matrix_row
        if HAS_ROW_OF:
            scale_row = tl.load(row_of + matrix_row, mask=is_output, other=0).to(tl.int32)
        code_place = matrix_row.to(tl.int64) * codes_stride
        scale_place = scale_row.to(tl.int64) * scale_columns
        row_place = row.to(tl.int64) * rows_stride
        held = (inputs + IN_BYTE - 1) // IN_BYTE
        if HAS_OUTPUT_SCALES:
            by_output = tl.load(output_scales + matrix_row, mask=is_output, other=0.0)
        sums = tl.zeros((ROWS, OUTPUTS), tl.float32)
        for at in range(0, held, CODES):
            byte = at + tl.arange(0, CODES)
            is_byte = byte < held
            is_weight = is_output[:, None] & is_byte[None, :]
            packed = tl.load(codes + code_place[:, None] + byte[None, :], mask=is_weight, other=0).to(tl.int32)
            first = byte * IN_BYTE
            if SCALE != "none":
                column = (first_input + first) // scale_width
                place = scale_place[:, None] + column[None, :]
                scale = _scale(tl.load(scales + place, mask=is_weight, other=0), SCALE)
                if HAS_ZEROS:
                    zero = tl.load(zeros + place, mask=is_weight, other=0).to(tl.float32)
            for i in tl.static_range(IN_BYTE):
                weight = _number((packed >> (4 * i)) & 0xF if IN_BYTE == 2 else packed, FORMAT)
                if HAS_ZEROS:
                    weight = weight - zero
                if SCALE != "none":
                    weight = weight * scale
                if HAS_OUTPUT_SCALES:
                    weight = weight * by_output[:, None]
                column_of = first + i
                is_input = is_row[:, None] & (column_of < inputs)[None, :]
                given = tl.load(rows + row_place[:, None] + column_of[None, :], mask=is_input, other=0.0)
                sums = tl.dot(given, tl.trans(weight.to(given.dtype)), sums, input_precision="ieee")
        if HAS_BIAS:
            sums += tl.load(bias + matrix_row, mask=is_output, other=0.0).to(tl.float32)[None, :]
        place = row.to(tl.int64)[:, None] * outputs + output[None, :]
        tl.store(out + place, sums.to(out.dtype.element_ty), mask=is_row[:, None] & is_output[None, :])


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
) -> torch.Tensor:
    """(rows, inputs) → (rows, outputs), in the type of the rows.

    `codes`: (experts × outputs, bytes) uint8, of the experts below each other, coded as one of FORMATS. `scales`:
    (numbers, columns), coded as one of SCALES: input i of an output is multiplied by column
    (first_input + i) // scale_width of number `row_of[output]`, or of its own; `zeros`, of the same shape, are
    subtracted before. `scale_width` and `first_input` are even where two codes lie in a byte. `output_scales`: (experts
    × outputs,) fp32, multiply too. `bias`: (experts × outputs,). `ends`: (experts,) int32: where the rows of each
    expert end; None: there is one. What comes for rows behind the last end means nothing."""
    rows = rows.contiguous()
    count = len(rows)
    experts = 1 if ends is None else len(ends)
    made = rows.new_empty(count, outputs)
    if not count:
        return made
    tile = min(_MOST_ROWS, max(16, triton.next_power_of_2(count // experts)))
    # Of each expert one tile is not full, and none has a tile without rows.
    tiles = triton.cdiv(count, tile) if ends is None else min(count, count // tile + experts)
    nothing = rows
    _multiply[(tiles, triton.cdiv(outputs, _OUTPUTS))](
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
        rows.stride(0),
        codes.stride(0),
        1 if scales is None else scales.shape[1],
        scale_width,
        first_input,
        EXPERTS=0 if ends is None else triton.next_power_of_2(experts),
        FORMAT=code,
        SCALE=scale,
        HAS_ZEROS=zeros is not None,
        HAS_ROW_OF=row_of is not None,
        HAS_OUTPUT_SCALES=output_scales is not None,
        HAS_BIAS=bias is not None,
        ROWS=tile,
        OUTPUTS=_OUTPUTS,
        CODES=_CODES,
    )
    return made

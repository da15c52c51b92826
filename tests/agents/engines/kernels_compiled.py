"""A program for the environment that has Triton: compiles each kernel for GPUs, which need not be there.

    python -m tests.agents.engines.kernels_compiled CAPABILITY ...

Prints a line of JSON for each kernel and compute capability (80: A100): its name, and the shared memory it takes."""

import json
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from agents.engines.torch_engine.kernels import packed_product, paged_attention, row_operations

POINTERS = {
    **dict.fromkeys(("units", "first_block", "tiles", "ends"), "*i32"),
    **dict.fromkeys(("partial", "partial_sums", "output_scales"), "*fp32"),
    **dict.fromkeys(("codes", "row_of"), "*u8"),
    "zeros": "*i8",
    "slots": "*i64",
}
NUMBERS = {
    **dict.fromkeys(("scale", "epsilon"), "fp32"),
    **dict.fromkeys(("query_stride", "unit_stride", "token_stride", "units_stride", "heads", "half", "size"), "i32"),
    **dict.fromkeys(("row_stride", "count", "experts", "outputs", "inputs", "rows_stride", "codes_stride"), "i32"),
    **dict.fromkeys(("scale_columns", "scale_width", "first_input"), "i32"),
}
ATTEND = {"WINDOW": 128, "GROUP": 8, "HEAD": 128, "HEAD_PADDED": 128, "KEYS": 64, "HAS_SINKS": True}
PRODUCT = {"ROWS": 16, "OUTPUTS": 64, "CODES": 64, "HAS_BIAS": True, "HAS_ROW_OF": False, "HAS_OUTPUT_SCALES": False}
ROTATE = {"HEADS": 64, "KV_HEADS": 8, "HEAD": 128, "HEAD_PADDED": 128}
VARIANTS: list[tuple[str, Any, dict[str, Any], dict[str, str]]] = [
    ("attend, single tokens", paged_attention._attend, {**ATTEND, "ROWS": 16, "SPLITS": 8}, {}),
    ("attend, prompts", paged_attention._attend, {**ATTEND, "ROWS": 64, "SPLITS": 1}, {}),
    ("combine", paged_attention._combine, {"HEAD": 128, "HEAD_PADDED": 128, "SPLITS": 8, "HAS_SINKS": True}, {}),
    (
        "product, MXFP4 of experts",
        packed_product._multiply,
        {**PRODUCT, "EXPERTS": 128, "FORMAT": "e2m1", "SCALE": "e8m0", "HAS_ZEROS": False},
        {"scales": "*u8"},
    ),
    (
        "product, NVFP4, many rows",
        packed_product._multiply,
        {**PRODUCT, "ROWS": 128, "EXPERTS": 0, "FORMAT": "e2m1", "SCALE": "e4m3", "HAS_ZEROS": False}
        | {"HAS_OUTPUT_SCALES": True},
        {"scales": "*u8"},
    ),
    (
        "product, FP8 in blocks",
        packed_product._multiply,
        {**PRODUCT, "EXPERTS": 0, "FORMAT": "e4m3", "SCALE": "float", "HAS_ZEROS": False, "HAS_ROW_OF": True},
        {"scales": "*fp32"},
    ),
    (
        "product, integers with zero points",
        packed_product._multiply,
        {**PRODUCT, "EXPERTS": 128, "FORMAT": "int4", "SCALE": "float", "HAS_ZEROS": True},
        {"scales": "*fp16"},
    ),
    ("norm", row_operations._normalise, {"SIZE": 8192, "LATE_CAST": False}, {}),
    ("rotation behind norms", row_operations._rotate_and_keep, {**ROTATE, "HAS_NORMS": True}, {}),
]


def main() -> None:
    for capability in map(int, sys.argv[1:]):
        for name, kernel, constants, types in VARIANTS:
            known = POINTERS | NUMBERS | types | dict.fromkeys(constants, "constexpr")
            signature = {argument: known.get(argument, "*bf16") for argument in kernel.arg_names}
            source = ASTSource(kernel, signature, constexprs=constants)
            made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
            print(json.dumps([name, capability, made.metadata.shared]), flush=True)


if __name__ == "__main__":
    main()

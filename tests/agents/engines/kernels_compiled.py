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

Variant = tuple[str, Any, dict[str, Any], dict[str, str], dict[str, int]]
"""Name, kernel, constants, types that are not as below, options of the compiler."""
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
    **dict.fromkeys(
        ("row_stride", "count", "experts", "outputs", "inputs", "rows_stride", "codes_stride", "held", "out_stride"),
        "i32",
    ),
    **dict.fromkeys(("held", "out_stride", "gate_stride", "up_stride"), "i32"),
    **dict.fromkeys(("scale_columns", "scale_width", "first_input"), "i32"),
}
ATTEND = {"WINDOW": 128, "GROUP": 8, "HEAD": 128, "HEAD_PADDED": 128, "KEYS": 64, "HAS_SINKS": True}
PRODUCT = {"HAS_BIAS": True, "HAS_ROW_OF": False, "HAS_OUTPUT_SCALES": False}
ROTATE = {"HEADS": 64, "KV_HEADS": 8, "HEAD": 128, "HEAD_PADDED": 128}


def product(
    rows: int, bytes_each: int, code: str, scale: str, width: int, experts: int, of: str = "bf16", **more: bool
) -> Variant:
    """As `multiply` asks for it. `of`: numbers of the rows."""
    in_byte = 2 if code in ("e2m1", "int4") else 1
    shape = packed_product.shape_of(rows, {"bf16": 2, "fp32": 4}[of], bytes_each, in_byte, experts > 0)
    given = {"FORMAT": code, "SCALE": scale, "EXPERTS": experts, "HAS_ZEROS": code == "int4"} | PRODUCT | more
    given["GROUPS"] = packed_product._groups(shape.codes * in_byte, width, 0)
    tile = {"ROWS": shape.rows, "OUTPUTS": shape.outputs, "CODES": shape.codes, "SPLITS": shape.splits}
    options = {"num_warps": shape.warps, "num_stages": shape.stages}
    types = {"scales": {"float": "*fp32"}.get(scale, "*u8"), "rows": f"*{of}", "out": f"*{of}"}
    return f"product of {rows} rows in {of}, {code}", packed_product._multiply, given | tile, types, options


def numbers(code: str, scale: str, width: int, **more: bool) -> Variant:
    """As `widened` asks for them."""
    shape, in_byte = packed_product._WIDENED, 2 if code in ("e2m1", "int4") else 1
    given = {"FORMAT": code, "SCALE": scale, "HAS_ZEROS": code == "int4"} | PRODUCT | more
    del given["HAS_BIAS"]
    given |= {"OUTPUTS": shape.outputs, "CODES": shape.codes}
    given["GROUPS"] = packed_product._groups(shape.codes * in_byte, width, 0)
    types = {"float": "*fp32"}.get(scale, "*u8")
    return f"numbers of {code}", packed_product._widen, given, {"scales": types}, {}


VARIANTS: list[Variant] = [
    ("attend, single tokens", paged_attention._attend, {**ATTEND, "ROWS": 16, "SPLITS": 8}, {}, {"num_stages": 4}),
    ("attend, prompts", paged_attention._attend, {**ATTEND, "ROWS": 64, "SPLITS": 1}, {}, {"num_stages": 4}),
    ("combine", paged_attention._combine, {"HEAD": 128, "HEAD_PADDED": 128, "SPLITS": 8, "HAS_SINKS": True}, {}, {}),
    product(1, 1440, "e2m1", "e8m0", 32, experts=128),
    product(64, 1440, "e2m1", "e8m0", 32, experts=32),
    product(128, 1440, "e2m1", "e8m0", 32, experts=32),
    product(16, 2048, "e2m1", "e4m3", 16, experts=0, HAS_OUTPUT_SCALES=True),
    product(16, 4096, "e4m3", "float", 128, experts=0, HAS_ROW_OF=True),
    product(128, 4096, "e4m3", "float", 128, experts=0, HAS_ROW_OF=True),
    product(64, 2048, "int4", "float", 128, experts=128),
    product(128, 4096, "int8", "none", 1, experts=0, HAS_OUTPUT_SCALES=True),
    product(128, 4096, "e4m3", "float", 128, experts=0, of="fp32"),
    product(128, 1440, "e2m1", "e8m0", 32, experts=32, of="fp32"),
    numbers("e4m3", "float", 128, HAS_ROW_OF=True),
    numbers("e2m1", "e4m3", 16, HAS_OUTPUT_SCALES=True),
    numbers("int4", "float", 128),
    ("gate", row_operations._gate, {"SIZE": 1024}, {}, {}),
    ("norm", row_operations._normalise, {"SIZE": 8192, "LATE_CAST": False}, {}, {}),
    ("rotation behind norms", row_operations._rotate_and_keep, {**ROTATE, "HAS_NORMS": True}, {}, {}),
]


def main() -> None:
    for capability in map(int, sys.argv[1:]):
        for name, kernel, constants, types, options in VARIANTS:
            known = POINTERS | NUMBERS | types | dict.fromkeys(constants, "constexpr")
            signature = {argument: known.get(argument, "*bf16") for argument in kernel.arg_names}
            source = ASTSource(kernel, signature, constexprs=constants)
            made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
            print(json.dumps([name, capability, made.metadata.shared]), flush=True)


if __name__ == "__main__":
    main()

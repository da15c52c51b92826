"""Number formats in which a GPU computes with given weights, and their speed by the GPU's data sheet."""

from templates_lib.values.gpu import Gpu

DEQUANTISED = "dequantised"
WEIGHT_BYTES = {
    "fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.516, "mxfp4": 17 / 32, "nvfp4": 9 / 16,
}  # fmt: skip
"""Bytes of one stored weight with the scales of the usual group."""


def compute_format(gpu: Gpu, weight_dtype: str, activation_dtype: str) -> str:
    """bf16, fp8, fp4, int8, or `dequantised`: weights stay small in memory but are widened to 16 bits for the product.

    Formats without native support save memory traffic only (Marlin-style kernels). Only processors without 16-bit units
    offer fp32 (`Gpu.dtypes`), and their peak is that of fp32.
    """
    if weight_dtype in ("bf16", "fp16", "fp32"):
        return "bf16"
    if activation_dtype == "fp8" and gpu.peak_fp8_tflops > 0:
        return "fp8"
    if weight_dtype in ("nvfp4", "mxfp4") and "fp4" in gpu.dtypes:
        return "fp4"  # engines narrow the activations as they go (vLLM and TensorRT-LLM on Blackwell)
    if activation_dtype == "int8" and "int8" in gpu.dtypes:
        return "int8"
    return DEQUANTISED


def peak_flops(gpu: Gpu, compute: str) -> float:
    """Dense FLOP/s of the data sheet; each halving of the width doubles the rate (NVIDIA data sheets)."""
    if compute == "fp8":
        return gpu.peak_fp8_tflops * 1e12
    if compute == "fp4":
        return gpu.peak_fp8_tflops * 2e12
    if compute == "int8":
        return gpu.peak_bf16_tflops * 2e12
    return gpu.peak_bf16_tflops * 1e12

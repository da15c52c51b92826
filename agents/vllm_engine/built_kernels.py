"""Keeps vLLM to kernels that come built, or that Triton and CuTe compile with what vLLM's wheels bring.

By itself vLLM 0.32 also takes kernels of FlashInfer and DeepGEMM: nvcc compiles them at their first use, for minutes,
or they are fetched then. A node installs locked wheels and nothing else, and an image may have nvcc or not: the same
template would start soon on one node, much later on the next, and fail at its first request on a third. Where vLLM
would take them (`platforms/cuda.py`, `fused_moe/oracle` and `kernels/linear` of it):

- every GPU: the sampler, which is all of it on Ampere and Ada;
- Hopper and B200: sums over GPUs and the norm behind them; products in FP8;
- Hopper: experts in FP8 that are placed whole;
- RTX PRO 6000: attention with sinks, products in FP8 and NVFP4, experts in 16 bits and NVFP4;
- B200: attention, products in NVFP4, experts in every format.

In their place come those of CUTLASS, Marlin and FlashAttention, which are part of vLLM's wheel, and Triton's. Latent
attention on a B200 is left as vLLM chooses: no model of the catalogue has it.
"""

import importlib.util
from typing import Any

B200 = 100
"""Capability of a B200, as vLLM writes it; its kin have up to 109, an RTX PRO 6000 has 120."""


def environment() -> dict[str, str]:
    """Return variables for vLLM's process, which its workers inherit."""
    chosen = {
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
        "VLLM_USE_DEEP_GEMM": "0",  # it compiles each shape of a product
    }
    # FlashInfer's other kernels are taken where vLLM finds nvcc, below this folder if it is named. An image that brings
    # them built keeps its own.
    if importlib.util.find_spec("flashinfer_cubin") is None:
        chosen["CUDA_HOME"] = "/dev/null"
    return chosen


def attention(dtype: str, capability: int) -> dict[str, Any]:
    """Return vLLM's `attention_config` for a data type, named as torch does, on a GPU of this capability (0: none)."""
    chosen: dict[str, Any] = {"use_trtllm_attention": False}  # FlashInfer's with sinks, which are fetched
    # There FlashInfer's comes first, whether it can be compiled or not. fp32 is for Triton's, which vLLM finds itself.
    if B200 <= capability < B200 + 10 and dtype != "float32":
        chosen["backend_per_kind"] = dict.fromkeys(("full_attention", "sliding_window"), "FLASH_ATTN")
    return chosen

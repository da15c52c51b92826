"""GPUs that can run a model in the data types that it is served in."""

from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.engine_support import ANYTHING, EngineSupport
from templates_lib.values.gpu import Gpu

SIXTEEN_BITS = ("bf16", "fp16")


def computes(gpu: Gpu, model: ModelSpec, engine: EngineSupport = ANYTHING) -> bool:
    """Tell whether `gpu` holds the model's weights and computes in the types of its activations and KV cache, as
    `engine` does.

    A card without bf16 uses fp16, of the same size. Weights in a type that the card lacks are widened inside the
    kernel (weight-only kernels such as Marlin), which needs a card with bf16 (NVIDIA: compute capability 8.0).
    """
    weights = model.dtype in (*gpu.dtypes, *SIXTEEN_BITS) or "bf16" in gpu.dtypes
    types = (runs_as(gpu, dtype) for dtype in (model.activation_dtype, model.kv_dtype))
    return weights and all(each is not None and engine.computed_in(each) == each for each in types)


def runs_as(gpu: Gpu, dtype: str) -> str | None:
    """The type in which `gpu` keeps and computes what is stated as `dtype`; None where it cannot."""
    if dtype in gpu.dtypes:
        return dtype
    return "fp16" if dtype in SIXTEEN_BITS and "fp16" in gpu.dtypes else None

"""Whether kernels in Triton are used on a device."""

import logging
import os
from functools import cache
from importlib.util import find_spec

import torch

_LOG = logging.getLogger(__name__)


def runs_triton(device: torch.device) -> bool:
    """Tell whether attention and products with packed weights go through Triton's kernels there: on GPUs, where torch's
    build for CUDA brings it and it says what plain operations say. On a CPU by its interpreter alone, for which
    TRITON_INTERPRET=1 asks, to look at what the kernels compute: it takes seconds for what takes microseconds."""
    return _runs(device.type)


@cache
def _runs(kind: str) -> bool:
    is_interpreted = kind == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if kind != "cuda" and not is_interpreted:
        return False
    if find_spec("triton") is None:
        _LOG.warning("Triton is not installed: attention gathers its keys on %s, and packed weights are unpacked", kind)
        return False
    from agents.engines.torch_engine.kernels.check import first_fault

    # Once a process: what this release, driver and compiler do is seen here, and not by who reads the tokens.
    fault = first_fault(torch.device(kind))
    if fault is not None:
        _LOG.warning("Triton's kernels are not used on %s: %s", kind, fault)
    return fault is None

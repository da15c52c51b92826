"""vLLM is imported in an environment that is prepared for it, and only there."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.engines.vllm_stage.engine import VllmStageEngine


def prepare_vllm() -> None:
    """Set vLLM up without network and usage reports, and with the log of this process instead of one of its own."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_CONFIGURE_LOGGING="0")


def load_vllm(*of: Any, **more: Any) -> "VllmStageEngine":
    """Load a stage as `load_vllm_stage` does. Raises ModuleNotFoundError where vLLM is not installed."""
    prepare_vllm()
    from agents.engines.vllm_stage.engine import load_vllm_stage

    return load_vllm_stage(*of, **more)

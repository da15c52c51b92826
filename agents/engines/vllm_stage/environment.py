"""What vLLM reads from the environment. To be called before it is imported."""

import os


def prepare_vllm() -> None:
    """No network, no usage reports, and the log of this process instead of one of its own."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_CONFIGURE_LOGGING="0")

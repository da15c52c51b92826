"""Where the engines that live in environments of their own are, on a control plane's machine and on nodes alike."""

VLLM_PYTHON = "MEDLEY_VLLM_PYTHON"
"""The variable that names the Python of vLLM's environment."""

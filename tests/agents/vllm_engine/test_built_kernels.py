"""vLLM takes no kernels that are compiled or fetched at their first use."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from agents.vllm_engine import built_kernels
from tests.conftest import VLLM_PYTHON

ASKS = """
import json, sys
import vllm.envs as envs
from vllm.config.attention import AttentionConfig
from vllm.utils.deep_gemm import is_deep_gemm_supported
from vllm.utils.flashinfer import has_flashinfer
found = [AttentionConfig(**json.loads(text)) for text in sys.argv[1:]]
json.dump({
    "flashinfer": has_flashinfer(),
    "sampler": envs.VLLM_USE_FLASHINFER_SAMPLER,
    "sums": envs.VLLM_ALLREDUCE_USE_FLASHINFER,
    "deep_gemm": envs.VLLM_USE_DEEP_GEMM,
    "attention": [{kind: backend.name for kind, backend in each.backend_per_kind.items()} for each in found],
    "trtllm": [each.use_trtllm_attention for each in found],
}, sys.stdout)
"""


def test_attention_is_chosen_where_vllm_would_take_what_is_not_built() -> None:
    b200, h100 = built_kernels.attention("bfloat16", 100), built_kernels.attention("bfloat16", 90)
    assert set(b200["backend_per_kind"].values()) == {"FLASH_ATTN"}
    for chosen in (h100, built_kernels.attention("float32", 100), built_kernels.attention("bfloat16", 120)):
        assert "backend_per_kind" not in chosen, "vLLM's own choice is built"
        assert chosen["use_trtllm_attention"] is False
    assert "backend_per_kind" in built_kernels.attention("float16", 103)


def test_an_image_that_brings_flashinfers_kernels_keeps_its_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "CUDA_HOME" in built_kernels.environment()
    (tmp_path / "flashinfer_cubin").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert "CUDA_HOME" not in built_kernels.environment()


@pytest.mark.slow
@pytest.mark.needs("vllm")
def test_vllm_finds_none_of_them_on_a_node_with_a_compiler(tmp_path: Path) -> None:
    """What vLLM itself says, with FlashInfer installed, a compiler and ninja, without and with our environment."""
    for program in ("nvcc", "ninja"):
        place = tmp_path / "bin" / program
        place.parent.mkdir(exist_ok=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer" / "__init__.py").touch()
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    node = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": path}
    node.pop("CUDA_HOME", None)
    configs = [json.dumps(built_kernels.attention("bfloat16", capability)) for capability in (90, 100)]

    def says(environment: dict[str, str]) -> dict[str, object]:
        command = [str(VLLM_PYTHON), "-c", ASKS, *configs]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
        found: dict[str, object] = json.loads(done.stdout[done.stdout.index("{") :])
        return found

    alone, ours = says(node), says(node | built_kernels.environment())
    names = ("flashinfer", "sampler", "sums", "deep_gemm")
    assert [alone[name] for name in names] == [True] * 4
    assert [ours[name] for name in names] == [False] * 4
    assert ours["attention"] == [{}, {"full_attention": "FLASH_ATTN", "sliding_window": "FLASH_ATTN"}]
    assert ours["trtllm"] == [False, False]

"""Kernels in Triton say what plain operations say, and can be compiled for the GPUs that nodes have.

No GPU is needed: Triton's interpreter runs them on a CPU, and its compiler makes code for GPUs that are not there."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.packed_weights import FP8_BLOCKS, awq, nvfp4, save_in
from tests.agents.engines.tiny_models import assert_same, prompt_of, reference, save_model
from tests.conftest import VLLM_PYTHON

pytestmark = pytest.mark.needs("vllm")

ROOT = Path(__file__).parents[3]
TOKENS = 4
PROMPTS = [prompt_of(37), prompt_of(36, 1)]


def run(cache: Path, *arguments: str, interpreted: bool) -> list:
    """Lines of JSON that a program of the environment with Triton prints."""
    environment = os.environ | {"TRITON_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    environment |= {"TRITON_INTERPRET": "1"} if interpreted else {}
    command = [str(VLLM_PYTHON), "-m", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_each_is_as_exact_as_what_it_stands_for(tmp_path: Path) -> None:
    said = run(tmp_path, "agents.engines.torch_engine.kernels.check", interpreted=True)
    assert len(said) > 10


@pytest.mark.slow
def test_an_engine_of_kernels_gives_the_tokens_of_transformers(tmp_path: Path) -> None:
    """Prompts in chunks, and single tokens whose keys are cut into parts; with windows, sinks, norms of heads, and
    weights that stay packed."""
    save_model("mistral", tmp_path / "plain", num_hidden_layers=3)
    saved = [(tmp_path / "plain", tmp_path / "plain"), save_packed(tmp_path / "gpt-oss")]
    for name, form in (("phi3", FP8_BLOCKS), ("qwen3-moe", nvfp4(compressed_tensors=True)), ("qwen3", awq(32))):
        saved.append(save_in(form, name, tmp_path / name, num_hidden_layers=3))
    program = "tests.agents.engines.kernels_by_interpreter"
    asked, packed = (str(TOKENS), json.dumps(PROMPTS)), [str(folder) for _, folder in saved]
    said = [json.loads(line) for line in run(tmp_path, program, *asked, *packed, interpreted=True)]
    assert [each["packed"] for each in said] == [False, True, True, True, True]
    dense, gpt_oss, phi3, qwen3_moe, qwen3 = (each["operations"] for each in said)
    assert max(dense, phi3, qwen3) <= 30
    assert max(gpt_oss, qwen3_moe) <= 50
    for (plain, _), each in zip(saved, said, strict=True):
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32).eval()
        for prompt, tokens in zip(PROMPTS, each["tokens"], strict=True):
            assert_same(tokens, reference(model, prompt, TOKENS))


@pytest.mark.slow
def test_they_compile_for_what_nodes_have_and_fit_its_shared_memory(tmp_path: Path) -> None:
    """A100, L40S and H100; the least has 99 KiB for a block."""
    said = [
        json.loads(line)
        for line in run(tmp_path, "tests.agents.engines.kernels_compiled", "80", "89", "90", interpreted=False)
    ]
    assert {capability for _, capability, _ in said} == {80, 89, 90}
    for name, capability, shared_bytes in said:
        assert shared_bytes <= 99 << 10, (name, capability)

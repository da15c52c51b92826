"""A model of one's own, whose weights every part of the product fetches from a hub by itself."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from openai import OpenAI
from transformers import LlamaConfig, LlamaForCausalLM

from tests.control.gateway.world import byte_tokenizer
from tests.e2e.test_up_command import running_in, start
from tests.hub_server import Hub, files_of, serving, use

LAYERS = 6
SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: own
models:
  - model: config.json
    name: tiny
    weights: hf:acme/tiny
    slo: {ttft_ms: 20000, tpot_ms: 2000, percentile: 80, keep: throughput}
    workload: lengths.csv
    demand: {requests_per_s: 0.05}
clouds:
  - cloud: local
    kinds:
      - {name: lesser, cpu_cores: 1.0, memory_mib: 360, stock: 2, usd_per_hour: 0.01}
solver: {n_max: 2, rho: 1000}
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A path short enough for a server's socket; whatever runs in it at the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="medley-hub-"))
    yield home
    for pid in running_in(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def save_repository(folder: Path) -> None:
    """A random model of bytes, in shards, with its tokenizer."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=257, hidden_size=96, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=6,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3, bos_token_id=None, eos_token_id=256,
        torch_dtype="float32",
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="100KB")
    byte_tokenizer(folder)


@pytest.mark.slow
def test_weights_and_tokenizer_of_a_fleet_come_from_the_hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_repository(home / "repository")
    (home / "config.json").write_bytes((home / "repository" / "config.json").read_bytes())
    (home / "lengths.csv").write_text("input_tokens,output_tokens\n" + "40,8\n60,12\n" * 20)
    (home / "spec.yaml").write_text(SPEC)
    files = files_of(home / "repository")
    with serving(Hub({"acme/tiny": {name: files[name] for name in files.keys() - {"tokenizer.json"}}})) as hub:
        use(hub, home / "hub", monkeypatch)
        up = start(home)
        up.until("trouble    fleet own cannot be asked: hf:acme/tiny has no tokenizer.json")
        hub.files = {"acme/tiny": files}
        url, key = up.until_ready()
        prompt = "what is fetched once"
        client = OpenAI(base_url=f"{url}/v1", api_key=key)
        answer = client.completions.create(model="tiny", prompt=prompt, max_tokens=12, temperature=0)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == len(prompt)
        assert answer.usage.completion_tokens > 0
        assert up.end(signal.SIGINT) == 0
        assert sorted(hub.sent) == sorted({*hub.sent}), "nothing is fetched twice"
        wanted = {file for file in files if file.endswith(".safetensors")}
        assert {*hub.sent} >= {*wanted, "config.json", "tokenizer.json"}

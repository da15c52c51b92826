"""`medley up` with a model of a spec file that reads pictures, as a user meets it."""

import base64
import io
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from openai import OpenAI
from PIL import Image
from transformers import Dinov2Config, Dinov2Model

from agents.weights.source import open_checkpoint
from bench.picture_reader.assembling import MARK, assembled, language_file, save, tokenizer_of
from bench.picture_reader.drawing import SIDE, Drawn, drawn
from bench.picture_reader.naming import names
from bench.picture_reader.training import QUESTION
from tests.control.db.processes import wait_until
from tests.e2e.test_up_command import PATIENCE_S, command, running_in, start
from tests.e2e.test_up_with_generators import executor

pytestmark = pytest.mark.slow

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: readers
apps:
  - name: reader
    graph: reader/config.json
    weights: path:reader
    request_types:
      - type: image-text-to-text
        share: 1
        lengths: {prompt_tokens: 30, output_tokens: 10, images: 1, image_size: 112x112}
        slo: {ttft_ms: 20000, tpot_ms: 2000}
    demand: {requests_per_s: 0.05}
clouds:
  - cloud: local
    kinds:
      - {name: writer, cpu_cores: 0.9, memory_mib: 760, stock: 1, usd_per_hour: 0.03}
      - {name: looker, cpu_cores: 0.4, memory_mib: 200, stock: 1, usd_per_hour: 0.01}
"""
EYES = Dinov2Config(
    hidden_size=384, num_hidden_layers=4, num_attention_heads=6, mlp_ratio=4, image_size=SIDE, patch_size=14
)
TOKENS = 10
"""Of an answer, as `names` has them."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A path short enough for a server's socket. Whatever runs in it at the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="medley-read-"))
    (home / "spec.yaml").write_text(SPEC)
    save_reader(home)
    yield home
    for pid in running_in(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def save_reader(home: Path) -> None:
    """`bench.picture_reader` with SmolLM2 as it is, and with an encoder and a connector that nobody trained: what it
    says of a picture is no name of it. Rows are as large as those of words, so that it says another thing of
    another picture."""
    torch.manual_seed(5)
    Dinov2Model(EYES).save_pretrained(home / "eyes")
    tokenizer = tokenizer_of(language_file())
    model = assembled(int(tokenizer.convert_tokens_to_ids(MARK)), open_checkpoint(home / "eyes"))
    with torch.no_grad():
        model.model.multi_modal_projector.linear_2.weight.mul_(10)
    save(model, tokenizer, home / "reader")


def own_memory_mib(home: Path) -> dict[int, int]:
    """Memory that a node may have (weights, KV cache and its processes) → what its processes have for themselves."""
    found = {}
    for pid, line in running_in(home).items():
        if "agents.node" in line:
            agent = psutil.Process(pid)
            memory = [each.memory_info() for each in (agent, *agent.children(recursive=True))]
            found[int(agent.environ()["MEDLEY_NODE_MEMORY_MIB"])] = sum(m.rss - m.shared for m in memory) >> 20
    return found


def asked(picture: Drawn) -> Any:
    file = io.BytesIO()
    Image.fromarray(picture.pixels).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    return [{"role": "user", "content": content}]


def test_a_spec_starts_what_reads_pictures_whoever_dies(home: Path) -> None:
    pictures = [drawn(seed) for seed in range(4)]
    up = start(home)
    wanted = names(home / "reader", pictures)
    url, key = up.until_ready()
    client = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE_S)

    def answer(picture: Drawn) -> str:
        done = client.chat.completions.create(model="reader", messages=asked(picture), max_tokens=TOKENS, temperature=0)
        return done.choices[0].message.content or ""

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(answer, each) for each in pictures]
        for component in ("vision", "language"):
            os.kill(executor(home, component), signal.SIGKILL)
        assert [each.result() for each in answers] == wanted
    assert len(set(wanted)) > 1, "pictures have no part in what it says"
    held = own_memory_mib(home)
    assert len(held) == 2
    assert all(taken <= memory for memory, taken in held.items()), held

    (status,) = command(home, "status")["fleets"]
    (model,) = status["models"]
    assert {leg["leg"] for leg in model["legs"]} == {"vision", "language"}
    assert up.end(signal.SIGINT) == 0
    assert "Traceback" not in up.said + (home / "up.log").read_text()
    wait_until(lambda: running_in(home) == {})

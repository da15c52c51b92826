"""`medley up` with a voice and a picture model of a spec file, as a user meets them."""

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

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from openai import BadRequestError, OpenAI
from PIL import Image

from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.word_pictures import load_word_pictures
from agents.media.sound import HEARD_PER_S, resampled
from agents.weights.source import open_checkpoint
from bench.speech.assembling import assemble
from bench.speech.hearing import Listener
from bench.speech.words import kept, words_of
from bench.word_pictures.__main__ import pictures_of
from tests.agents.engines.components.tiny_pictures import save_pictures
from tests.control.db.processes import wait_until
from tests.e2e.test_up_command import PATIENCE_S, command, running_in, start

pytestmark = [pytest.mark.slow, pytest.mark.needs("kokoro", "whisper")]

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: makers
apps:
  - name: voice
    graph: kokoro-82m
    weights: path:kokoro
    request_types:
      - {type: text-to-audio, share: 1, lengths: {speech_s: 2}, slo: {first_audio_ms: 20000, real_time_factor: 8}}
    demand: {requests_per_s: 0.02}
  - name: shapes
    graph: pictures/config.json
    weights: path:pictures
    request_types:
      - {type: text-to-image, share: 1, lengths: {image_pixels: 256, steps: 3}, slo: {image_s: 20}}
    demand: {requests_per_s: 0.05}
clouds:
  - cloud: local
    kinds:
      - {name: maker, cpu_cores: 0.9, memory_mib: 560, stock: 2, usd_per_hour: 0.03}
"""
SAID = "The boy was there when the sun rose. A rod is used to catch pink salmon."
DRAWN = "a red circle"
RATE = 24_000


@pytest.fixture
def home() -> Iterator[Path]:
    """A path short enough for a server's socket. Whatever runs in it at the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="medley-make-"))
    (home / "spec.yaml").write_text(SPEC)
    assemble(home / "kokoro", "en-us")
    save_pictures(home / "pictures")
    yield home
    for pid in running_in(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def executor(home: Path, component: str) -> int:
    """The process of a component's only executor."""
    lines = {pid: " ".join(line) for pid, line in running_in(home).items()}
    (pid,) = [pid for pid, line in lines.items() if "agents.executor" in line and f"--components {component} " in line]
    return pid


def reference(home: Path, count: int) -> list[NDArray[np.uint8]]:
    """Pictures of seeds 0, 1 and so on, by the same engine in this process."""
    engine = load_word_pictures(open_checkpoint(home / "pictures"), torch.float32, torch.device("cpu"), Limits())
    return [np.asarray(each) for each in pictures_of(engine, [DRAWN] * count)]


def test_a_spec_starts_what_speaks_and_what_draws_whoever_dies(home: Path) -> None:
    up = start(home)
    url, key = up.until_ready()
    up.until("/v1/images/generations")
    assert "/v1/audio/speech" in up.said
    client = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE_S)
    assert {model.id for model in client.models.list()} == {"voice", "shapes"}

    def spoken() -> NDArray[np.float32]:
        answer = client.audio.speech.create(model="voice", input=SAID, voice="jf_gongitsune", response_format="pcm")
        return np.frombuffer(answer.content, "<i2").astype(np.float32) / 2**15

    def drawn(seed: int) -> NDArray[np.uint8]:
        answer = client.images.generate(model="shapes", prompt=DRAWN, size="16x16", extra_body={"seed": seed})
        assert answer.data is not None
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(answer.data[0].b64_json or ""))).convert("RGB"))

    with ThreadPoolExecutor(5) as pool:
        sounds = [pool.submit(spoken) for _ in range(2)]
        pictures = [pool.submit(drawn, seed) for seed in range(3)]
        for component in ("voice", "picture"):
            os.kill(executor(home, component), signal.SIGKILL)
        listener = Listener()
        for sound in sounds:
            heard = listener.text(resampled(sound.result(), RATE, HEARD_PER_S))
            assert kept(SAID, heard) >= 0.8 * len(words_of(SAID)), heard
        for picture, wanted in zip(pictures, reference(home, 3), strict=True):
            assert np.abs(picture.result().astype(int) - wanted).max() <= 1
    with pytest.raises(BadRequestError, match="jf_"):
        client.audio.speech.create(model="voice", input=SAID, voice="nobody")
    with pytest.raises(BadRequestError, match="circle"):
        client.images.generate(model="shapes", prompt="nothing that is known")

    (status,) = command(home, "status")["fleets"]
    legs = {model["model"]: {leg["leg"] for leg in model["legs"]} for model in status["models"]}
    assert legs == {"voice": {"voice"}, "shapes": {"picture"}}
    assert up.end(signal.SIGINT) == 0
    assert "Traceback" not in up.said + (home / "up.log").read_text()
    wait_until(lambda: running_in(home) == {})

"""`medley up` with a text model and an any-to-any model of a spec file, as a user meets them."""

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from openai import BadRequestError, InternalServerError, OpenAI

from control.planning.local_market import local_config, local_gpu
from control.planning.local_profiles import profile_store
from control.planning.world import read_world
from control.profiles.store import FORMAT, StoredProfile
from control.profiles.subject import local_subject
from tests.control.db.processes import wait_until
from tests.e2e.conftest import EXAMPLES
from tests.e2e.test_up_command import MODEL, PATIENCE_S, QUESTION, command, running_in, start
from tests.media_files import wav
from tests.spoken import spoken
from tests.templates_lib.test_cost_measured import TRUE_S, profile

pytestmark = [pytest.mark.slow, pytest.mark.needs("whisper", "espeak")]

SAID = "Please open the window and close the door"
APP = "whisper"


@pytest.fixture
def home() -> Iterator[Path]:
    """A path short enough for a server's socket. Whatever runs in it at the end is killed."""
    home = Path(tempfile.mkdtemp(prefix="medley-any-"))
    shutil.copy(EXAMPLES / "any-to-any.yaml", home / "spec.yaml")
    know_text_models(home)
    yield home
    for pid in running_in(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(home, ignore_errors=True)


def know_text_models(home: Path) -> None:
    """Write profiles of its text models, which take a minute to be measured (`test_up_command`); those of encoders are
    measured here."""
    world = read_world(home / "spec.yaml")
    for served, machine in product(world.recipe.served, world.fleet.machines):
        subject = local_subject(machine, served.model, served.engine)
        known = replace(
            profile(TRUE_S, model=served.model.id, dtype=served.model.dtype, config=local_config(machine).id),
            subject=subject.fingerprint,
        )
        profile_store(home).put(StoredProfile(FORMAT, local_gpu(machine), local_config(machine), known, ()))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def executors(home: Path, component: str) -> list[int]:
    """Processes of a component's executors."""
    lines = {pid: " ".join(line) for pid, line in running_in(home).items()}
    return [pid for pid, line in lines.items() if "agents.executor" in line and f"--components {component} " in line]


def test_speech_and_chats_are_served_from_one_file_whoever_dies(home: Path) -> None:
    up = start(home)
    url, key = up.until_ready()
    up.until("/v1/audio/transcriptions")
    client, speech = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=PATIENCE_S), spoken(SAID)

    def transcribed() -> str:
        return client.audio.transcriptions.create(model=APP, file=("said.wav", speech)).text

    def chat() -> str:
        done = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, temperature=0)
        return done.choices[0].message.content or ""

    assert {model.id for model in client.models.list()} == {MODEL, APP}
    assert words(transcribed()) == words(SAID)
    assert "Paris" in chat()
    with pytest.raises(BadRequestError):
        client.audio.transcriptions.create(model=APP, file=("said.wav", b"RIFF" + bytes(40)))
    with pytest.raises(InternalServerError, match="text-to-text") as refused:
        client.with_options(max_retries=0).chat.completions.create(model=APP, messages=QUESTION)
    assert (refused.value.status_code, "retry-after" in refused.value.response.headers) == (503, True)

    silence = wav(bytes(2 * 16_000))
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(transcribed) for _ in range(6)]
        for component in ("hearing", "writing"):
            (pid,) = executors(home, component)
            os.kill(pid, signal.SIGKILL)
        assert [words(each.result()) for each in asked] == [words(SAID)] * 6
    assert client.audio.transcriptions.create(model=APP, file=("silence.wav", silence)).text == "you"

    (status,) = command(home, "status")["fleets"]
    found = {model["model"]: model for model in status["models"]}
    assert found.keys() == {MODEL, APP}
    assert {leg["leg"] for leg in found[APP]["legs"]} == {"hearing", "writing"}
    assert found[APP]["requests"] >= 8
    assert up.end(signal.SIGINT) == 0
    assert "down       nothing runs any more" in up.said
    assert "Traceback" not in up.said + (home / "up.log").read_text()
    wait_until(lambda: running_in(home) == {})
    assert list((home / "up" / "nodes").iterdir()) == []

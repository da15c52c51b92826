"""An app that speaks: a real voice behind a gateway, asked by OpenAI's client, and understood by a real listener."""

import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

from agents.media.sound import HEARD_PER_S, resampled
from bench.speech.assembling import assemble
from bench.speech.hearing import Listener
from bench.speech.words import kept, words_of
from policies.routing_table import RoutedLeg, RoutedRoute
from templates_lib.values.work import Unit
from tests.agents.tensors.nodes import SETTINGS, run_node
from tests.control.gateway.app_world import APP, AppWorld

pytestmark = [pytest.mark.slow, pytest.mark.needs("kokoro"), pytest.mark.needs("whisper")]

KIND = "text-to-audio"
SPOKEN = RoutedLeg(f"{APP}/voice", Unit.AUDIO_SECOND, 5.0)
RATE = 24_000
TASK = """
from medley_sdk.library.speech import speech

describe = speech("kokoro-82m")
"""
TEXT = "The boy was there when the sun rose. A rod is used to catch pink salmon."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppWorld]:
    folder: Path = tmp_path_factory.mktemp("speech")
    assemble(folder / "weights", "en-us")
    with run_node(SETTINGS) as node:
        world = AppWorld(
            folder,
            node=node,
            task=TASK,
            types=(KIND,),
            routes={KIND: RoutedRoute(f"{APP}/{KIND}/voice", (SPOKEN,))},
            roles={SPOKEN.work_class: ("voice",)},
            weights=folder / "weights",
            config=json.loads((folder / "weights" / "config.json").read_text()),
        )
        try:
            world.executor("voice-0", SPOKEN.work_class)
            world.publish_app()
            world.start_gateway()
            world.wait_ready()
            yield world
        finally:
            world.stop()


def seconds_made(world: AppWorld) -> float:
    name = f'medley_gateway_made_units_total{{model="{APP}-{KIND}",unit="audio_second"}}'
    return world.metrics().get(name, 0.0)


def test_what_is_spoken_is_understood_and_counted_by_seconds(world: AppWorld) -> None:
    before = seconds_made(world)
    with world.client() as client:
        answer = client.audio.speech.create(model=APP, input=TEXT, voice="jf_gongitsune", response_format="pcm")
    sound = np.frombuffer(answer.content, "<i2").astype(np.float32) / 2**15
    assert answer.response.headers["content-type"] == "audio/pcm"
    heard = Listener().text(resampled(sound, RATE, HEARD_PER_S))
    assert kept(TEXT, heard) >= 0.8 * len(words_of(TEXT)), heard
    assert seconds_made(world) - before == pytest.approx(len(sound) / RATE, abs=0.01)


def test_sound_comes_sentence_by_sentence_in_the_forms_that_are_asked_for(world: AppWorld) -> None:
    with world.client() as client:
        with client.audio.speech.with_streaming_response.create(
            model=APP, input=TEXT, voice="jf_gongitsune", response_format="wav"
        ) as streamed:
            chunks = [chunk for chunk in streamed.iter_bytes() if chunk]
        short = client.audio.speech.create(
            model=APP, input="Yes.", voice="jf_gongitsune", response_format="wav"
        ).content
        fast = client.audio.speech.create(
            model=APP, input=TEXT, voice="jf_gongitsune", response_format="pcm", speed=2.0
        ).content
    assert chunks[0][:4] == b"RIFF"
    assert len(chunks) >= 2
    with wave.open(io.BytesIO(short)) as read:  # of one piece its length is known
        assert (read.getnchannels(), read.getframerate(), read.getsampwidth()) == (1, RATE, 2)
        assert 0.2 < read.getnframes() / RATE < 3
        assert len(read.readframes(read.getnframes())) == len(short) - 44
    assert len(fast) < 0.7 * sum(map(len, chunks))
    with world.http() as http:
        body = {"model": APP, "input": TEXT, "stream_format": "sse", "response_format": "pcm"}
        events = http.post("/v1/audio/speech", json=body).text
    kinds = [
        json.loads(line.removeprefix("data: "))["type"] for line in events.splitlines() if line.startswith("data:")
    ]
    assert kinds == ["speech.audio.delta", "speech.audio.delta", "speech.audio.done"]


def test_a_voice_that_is_not_there_is_refused_with_those_that_are(world: AppWorld) -> None:
    with world.client() as client, pytest.raises(openai.BadRequestError) as error:
        client.audio.speech.create(model=APP, input=TEXT, voice="nobody")
    assert "jf_" in str(error.value)

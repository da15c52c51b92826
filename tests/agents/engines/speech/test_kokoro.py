"""The voice with what not every text or model has: an answer that it fails, slow speech, words of other languages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.engines.speech.espeak import Espeak
from agents.engines.speech.kokoro import KokoroEngine, load_kokoro
from agents.engines.speech.phonemes import language_of
from agents.executor.making import Makers
from agents.messages.bounds import MAX_PIECE_BYTES
from agents.messages.component_work import AskedSpeech, Make
from bench.speech.assembling import assemble

pytestmark = pytest.mark.needs("kokoro")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KokoroEngine]:
    """`z` stands for a token that the network does not have."""
    folder: Path = tmp_path_factory.mktemp("voice")
    assemble(folder, "en-us")
    config = json.loads((folder / "config.json").read_text())
    config["vocab"]["z"] = 4000
    (folder / "config.json").write_text(json.dumps(config))
    engine = load_kokoro(folder, "voice", 1)
    yield engine
    engine.close()


def test_an_answer_that_fails_is_refused_and_others_go_on(engine: KokoroEngine) -> None:
    makers = Makers(engine)
    bad, good = (
        {("gateway", number): Make(number, "r", "app", "voice", AskedSpeech(text), 60.0)}
        for number, text in enumerate(("Zoo.", "Yes."))
    )
    (failed,) = makers.step(bad)
    assert failed.is_done
    assert failed.refused
    assert failed.piece is None
    (spoken,) = makers.step(good)
    assert spoken.is_done
    assert spoken.piece is not None


def test_slow_speech_has_more_pieces_none_too_long(engine: KokoroEngine) -> None:
    text = "one and two and three and four and " * 8
    usual, slow = engine.begin(AskedSpeech(text)), engine.begin(AskedSpeech(text, speed=0.25))
    assert len(slow.pieces) > len(usual.pieces)
    (piece,) = engine.step([slow])
    assert piece is not None
    assert 0 < len(piece.data) <= MAX_PIECE_BYTES


@pytest.mark.parametrize("language", sorted({language_of(letter) for letter in "abefhijpz"}))
def test_a_language_is_spoken_without_the_names_of_those_that_words_are_of(language: str) -> None:
    phonemes = Espeak(language).phonemes("Il aime le software et le weekend.")
    assert phonemes
    assert "(" not in phonemes

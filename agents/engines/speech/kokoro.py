"""Kokoro-82M (hexgrad 2025, after StyleTTS 2, Li et al. 2023) in onnxruntime: a sentence a step."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.engines.components.stepped import Asked, Piece, SteppedAnswer, SteppedFacts
from agents.engines.errors import BadBatchError, EngineError, OutOfMemoryError, UnmadeAnswerError
from agents.engines.speech.espeak import Espeak
from agents.engines.speech.phonemes import kokoro_phonemes
from agents.engines.speech.sentences import cut, spoken_pieces
from agents.engines.speech.voice_files import VoiceFiles, model_file, read_voice_files
from agents.messages.component_work import AskedSpeech
from templates_lib.executors.memory_need import SPOKEN_TOKEN_BYTES, SPOKEN_TOKENS
from templates_lib.values.install_hint import install_hint

SAMPLES_PER_S = 24_000
_MOST_CHARACTERS = 300
"""Of a piece: more would exceed the tokens at once, as a rule."""
_LOUDEST = 32_767
_NUMBER_S = 0.5
"""Seconds in which a number up to ten is spoken, about, in any language."""


@dataclass(slots=True, eq=False)
class _Speech:
    pieces: list[list[int]]
    """Tokens of what is still to be spoken."""
    voice: str
    speed: float

    @property
    def is_done(self) -> bool:
        return not self.pieces


def load_kokoro(folder: Path, component: str, threads: int, memory_bytes: int | None = None) -> "KokoroEngine":
    """Raises EngineError where onnxruntime is not installed, WeightsError for files that are missing or damaged,
    OutOfMemoryError where it does not fit `memory_bytes`."""
    began_s = time.perf_counter()
    try:
        import onnxruntime
    except ImportError as error:
        raise EngineError(f"Kokoro runs in onnxruntime: {install_hint('speech')}") from error
    model = model_file(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own have no common base
        raise EngineError(f"{model} is not taken by onnxruntime: {error}") from error
    width = {each.name: each.shape for each in session.get_inputs()}["style"][-1]
    files = read_voice_files(folder, width)
    size = model.stat().st_size
    facts = SteppedFacts(
        engine="onnxruntime",
        family="kokoro",
        component=component,
        most_units=1,
        most_rows=SPOKEN_TOKENS,
        weight_bytes=size,
        row_bytes=SPOKEN_TOKEN_BYTES,
        dtype="as stored",
        device="cpu",
        loaded_bytes=size,
        load_s=time.perf_counter() - began_s,
        fingerprint=_digest(model),
        is_heard=True,
    )
    if memory_bytes is not None and facts.most_memory_bytes > memory_bytes:
        raise OutOfMemoryError(
            f"Kokoro takes {size / 2**20:.0f} MiB of weights and {(facts.most_memory_bytes - size) / 2**20:.0f} MiB "
            f"for a sentence of {SPOKEN_TOKENS} phonemes, of {memory_bytes / 2**20:.0f} MiB: give it more"
        )
    return KokoroEngine(facts, session, files)


class KokoroEngine:
    """A SteppedEngine on processors. A run has one text: answers take their steps in turn."""

    def __init__(self, facts: SteppedFacts, session: Any, files: VoiceFiles) -> None:
        self.facts = facts
        self._session: Any | None = session
        self._files = files
        self._speakers = {language: Espeak(language) for language in set(files.languages.values())}
        self._tokens, self._speed = (
            next(each for each in session.get_inputs() if each.name in names)
            for names in (("input_ids", "tokens"), ("speed",))
        )

    @property
    def voices(self) -> tuple[str, ...]:
        return tuple(self._files.styles)

    def example(self, units: float, item_rows: float = 0.0) -> Asked:
        del item_rows
        numbers = (at % 10 + 1 for at in range(max(1, round(units / _NUMBER_S))))
        return AskedSpeech(" ".join(f"{number}." if number == 10 else str(number) for number in numbers))

    def begin(self, asked: Asked, skip: int = 0) -> SteppedAnswer:
        if not isinstance(asked, AskedSpeech):
            raise BadBatchError(f"{self.facts.component} speaks: it makes no pictures")
        voice = asked.voice or self.voices[0]
        if voice not in self._files.styles:
            raise BadBatchError(f"there is no voice {voice!r}; there are {', '.join(self.voices)}")
        if "int" in self._speed.type and not asked.speed.is_integer():
            raise BadBatchError(f"this model speaks at whole speeds only, such as 1 and 2, not {asked.speed:g}")
        # Slow sound is long: it has no more bytes than a piece of a message may have.
        most = int(SPOKEN_TOKENS * min(1.0, asked.speed))
        pieces = [
            tokens for piece in spoken_pieces(asked.text, _MOST_CHARACTERS) for tokens in self._read(piece, voice, most)
        ]
        if not pieces:
            raise BadBatchError("the text has nothing that can be spoken")
        if skip >= len(pieces):
            raise BadBatchError(f"the answer has {len(pieces)} pieces, of which {skip} are there")
        return _Speech(pieces[skip:], voice, asked.speed)

    def step(self, answers: Sequence[SteppedAnswer]) -> list[Piece | None]:
        if self._session is None:
            raise BadBatchError("the engine is closed")
        answer = answers[0] if len(answers) == 1 else None
        if not isinstance(answer, _Speech) or answer.is_done:
            raise BadBatchError("a step is one answer's, which was begun here and is not done")
        return [self._spoken(answer.pieces.pop(0), answer)]

    def close(self) -> None:
        self._session = None

    def _read(self, text: str, voice: str, most: int) -> list[list[int]]:
        """Tokens of a piece; of more pieces of at most `most` tokens, where numbers and the like make it too long. None
        for what is silent."""
        language, symbols = self._files.languages[voice], self._files.symbols
        spoken = kokoro_phonemes(self._speakers[language].phonemes(text), language)
        tokens = [symbols[letter] for letter in spoken if letter in symbols]
        if len(tokens) <= most or len(text) == 1:
            return [tokens] if any(letter.isalpha() for letter in spoken) else []
        return [each for part in cut(text, (len(text) + 1) // 2) for each in self._read(part, voice, most)]

    def _spoken(self, tokens: list[int], answer: _Speech) -> Piece:
        assert self._session is not None  # noqa: S101 - `step` has looked
        styles = self._files.styles[answer.voice]
        speed = np.array([answer.speed], np.int32 if "int" in self._speed.type else np.float32)
        given = {
            self._tokens.name: np.array([[0, *tokens, 0]], np.int64),
            "style": styles[min(len(tokens), len(styles) - 1)][None],
            self._speed.name: speed,
        }
        try:
            sound = np.ravel(self._session.run(None, given)[0])
        except Exception as error:  # onnxruntime's own have no common base
            answer.pieces.clear()
            raise UnmadeAnswerError(f"onnxruntime does not get through a sentence of the text: {error}") from error
        return Piece(_pcm(sound), len(sound) / SAMPLES_PER_S, SAMPLES_PER_S)


def _pcm(sound: NDArray[np.float32]) -> bytes:
    return np.rint(np.clip(sound, -1, 1) * _LOUDEST).astype("<i2").tobytes()


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=32)).hexdigest()

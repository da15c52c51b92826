"""A folder with a Kokoro model, in the form in which it is published for onnxruntime: an ONNX file, a vocabulary of
phonemes, and a style for each voice."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.engines.speech.phonemes import language_of
from agents.weights.errors import CorruptWeightsError, MissingWeightsError
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.onnx_weights import onnx_files

CONFIG, TOKENIZER, VOICES = "config.json", "tokenizer.json", "voices"
_MOST_SYMBOLS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class VoiceFiles:
    symbols: dict[str, int]
    """Letter of the phonemes → its token."""
    styles: dict[str, NDArray[np.float32]]
    """Voice → (lengths, width): its style for a text of so many tokens."""
    languages: dict[str, str]
    """Voice → the language that it speaks."""


def read_voice_files(folder: Path, width: int) -> VoiceFiles:
    """`width`: of a style. Raises WeightsError and UnsupportedModelError, which name the file."""
    config = _object(folder / CONFIG)
    files = sorted((folder / VOICES).glob("*.bin"))
    if not files:
        raise MissingWeightsError(f"{folder / VOICES} has no voices (NAME.bin): fetch them with the model")
    styles = {file.stem: _style(file, width) for file in files}
    said = Fields.of(config, "").text("language", "")
    languages = {voice: said or language_of(voice) for voice in styles}
    return VoiceFiles(_symbols(folder, config), styles, languages)


def model_file(folder: Path) -> Path:
    """Raises MissingWeightsError where there is none, or more than one."""
    found = onnx_files(folder)
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "none"
        raise MissingWeightsError(f"{folder} has not exactly one ONNX file, there or in onnx/ (found: {names})")
    return found[0]


def _style(file: Path, width: int) -> NDArray[np.float32]:
    values = np.fromfile(file, "<f4")
    if not len(values) or len(values) % width or not np.isfinite(values).all():
        raise CorruptWeightsError(file, f"a voice has rows of {width} finite numbers, 4 bytes each")
    return values.reshape(-1, width)


def _symbols(folder: Path, config: dict[str, Any]) -> dict[str, int]:
    """`vocab` of config.json, as its makers publish it, or of tokenizer.json, as it is converted."""
    vocabulary = config.get("vocab")
    if vocabulary is None and (folder / TOKENIZER).is_file():
        vocabulary = Fields.of(_object(folder / TOKENIZER), "").part("model").table("vocab")
    if not isinstance(vocabulary, dict) or not 1 <= len(vocabulary) <= _MOST_SYMBOLS:
        raise UnsupportedModelError("vocab", f"{folder} says no tokens of phonemes, here or in {TOKENIZER}")
    if not all(isinstance(token, int) and 0 <= token < _MOST_SYMBOLS for token in vocabulary.values()):
        raise UnsupportedModelError("vocab", f"has tokens that are not in [0, {_MOST_SYMBOLS})")
    return {letter: token for letter, token in vocabulary.items() if len(letter) == 1}


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MissingWeightsError(f"{path} is missing") from None
    except ValueError as error:
        raise CorruptWeightsError(path, f"no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CorruptWeightsError(path, "no JSON object")
    return found

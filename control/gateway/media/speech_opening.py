"""What a model that attends to speech writes its answer behind (Whisper: Radford et al. 2022, section 2.3)."""

from collections.abc import Mapping
from typing import Any

from control.gateway.api_error import bad_request, unsupported
from control.gateway.generation_params import Speech
from control.gateway.media.reading import MediaReading

_MULTILINGUAL_FROM = 51865
"""Tokens of a vocabulary that has languages (`is_multilingual` of OpenAI's own code)."""
_ENGLISH = "en"


def speech_opening(asked: Speech, reading: MediaReading | None) -> tuple[str, int]:
    """Text of special tokens, and how many they are. Raises ApiError for a model that writes nothing down, and a
    language that it does not have."""
    if reading is None or not reading.attends or reading.hears is None:
        raise unsupported("model", "it writes no speech down; ask it in a chat with `input_audio`")
    if _vocabulary(reading.terms.config) < _MULTILINGUAL_FROM:
        if asked.language not in (None, _ENGLISH):
            raise bad_request(f"`language`: this model hears `{_ENGLISH}` alone", "language")
        return "<|startoftranscript|><|notimestamps|>", 2
    if asked.language is None:
        raise bad_request("`language`: say it, such as `en`; this server does not guess it", "language")
    return f"<|startoftranscript|><|{asked.language}|><|transcribe|><|notimestamps|>", 4


def withheld_tokens(reading: MediaReading | None) -> tuple[int, ...]:
    """Tokens that the model's own config never has it write, such as those of noises."""
    named = () if reading is None else reading.terms.config.get("suppress_tokens") or ()
    return tuple(token for token in named if isinstance(token, int) and token >= 0)


def _vocabulary(config: Mapping[str, Any]) -> int:
    size = config.get("vocab_size")
    return size if isinstance(size, int) else 0

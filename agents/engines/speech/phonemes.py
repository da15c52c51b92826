"""Phonemes as Kokoro was trained with: those of misaki (hexgrad/misaki, EN_PHONES.md and `espeak.py`), which writes
diphthongs and affricates as one letter."""

import re

_SINGLE = {
    "a^ɪ": "I",
    "a^ʊ": "W",
    "e^ɪ": "A",
    "ɔ^ɪ": "Y",
    "d^ʒ": "ʤ",
    "t^ʃ": "ʧ",
    "ə^l": "ᵊl",
    "ʔˌn\u0329": "tᵊn",
    "ʔn": "tᵊn",
    "ʔ": "t",
    "ɚ": "əɹ",
    "ɐ": "ə",
    "r": "ɹ",
    "x": "k",
    "ç": "k",
    "ɬ": "l",
    "ʲ": "",
    "\u0303": "",
}
_ENGLISH = {
    "en-us": {"o^ʊ": "O", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "ː": "", "o": "ɔ", "e": "A"},
    "en-gb": {"e^ə": "ɛː", "iə": "ɪə", "ə^ʊ": "Q", "o": "ɔ", "e": "A"},
}
"""eSpeak's letters → Kokoro's, longest first; other languages keep eSpeak's, but for ties."""
_SYLLABIC = re.compile("(\\S)\u0329")
_BY_VOICE = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "cmn",
}


def language_of(voice: str) -> str:
    """The language that a voice was made for, which its first letter says (Kokoro's VOICES.md); else American
    English."""
    return _BY_VOICE.get(voice[:1], "en-us")


def kokoro_phonemes(espeaks: str, language: str) -> str:
    """What eSpeak NG says of a text in `language`, in Kokoro's letters."""
    spoken = espeaks
    if language in _ENGLISH:
        for table in (_SINGLE, _ENGLISH[language]):
            for old in sorted(table, key=len, reverse=True):
                spoken = spoken.replace(old, table[old])
        spoken = _SYLLABIC.sub("ᵊ\\1", spoken).replace("\u0329", "")
    return spoken.replace("^", "")

"""Phonemes of text by eSpeak NG (GPL 3), a library that package `espeakng-loader` has: loaded where it is installed."""

import ctypes
import re
from collections.abc import Iterator
from threading import Lock

from agents.engines.errors import EngineError
from templates_lib.values.install_hint import install_hint

_RETRIEVAL = 1
"""`AUDIO_OUTPUT_RETRIEVAL`: nothing is played."""
_UTF8 = 1
_IPA, _TIED = 0x02, 0x80
"""Bits of `phonememode`: the alphabet, and a character (bits 8 to 23) between the letters of one phoneme."""
TIE = "^"
_CLAUSE = re.compile(r"(.+?)([.!?,;:…]+(?=\s|$)|$)", re.DOTALL)
"""Text, and the marks that are spoken as a pause or tone behind it: not those within numbers."""

_SWITCH = re.compile(r"\([a-z^]+(-[a-z^]+)*\)")
"""What the library writes where it takes a word for one of another language: `(en)` before it, `(fr)` behind, tied."""
_NAMES = {"en-gb": "en", "fr-fr": "fr"}
"""Languages that the library finds by another name only."""


class Espeak:
    """The library with one language. It has one for a process, so whoever asks last decides."""

    _library: ctypes.CDLL | None = None
    _lock = Lock()
    _language = ""

    def __init__(self, language: str) -> None:
        """`language`: as `espeak-ng --voices` lists them, such as `en-us`. Raises EngineError."""
        self._own = language
        with self._lock:
            self._library = self._loaded()
            self._choose()

    def phonemes(self, text: str) -> str:
        """IPA with stress, letters of one phoneme tied by `TIE`, and the marks of the text."""
        with self._lock:
            self._choose()
            return self._read(text)

    @classmethod
    def _loaded(cls) -> ctypes.CDLL:
        if Espeak._library is None:
            try:
                from espeakng_loader import get_data_path, get_library_path
            except ImportError as error:
                raise EngineError(f"text has no phonemes without eSpeak NG: {install_hint('speech')}") from error
            library = ctypes.CDLL(get_library_path())
            library.espeak_TextToPhonemes.restype = ctypes.c_char_p
            library.espeak_TextToPhonemes.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int)
            if library.espeak_Initialize(_RETRIEVAL, 0, str(get_data_path()).encode(), 0) < 0:
                raise EngineError(f"eSpeak NG does not find its data at {get_data_path()}")
            Espeak._library = library
        return Espeak._library

    def _choose(self) -> None:
        if Espeak._language != self._own:
            assert self._library is not None  # noqa: S101 - made with it
            if self._library.espeak_SetVoiceByName(_NAMES.get(self._own, self._own).encode()):
                raise EngineError(f"eSpeak NG has no language {self._own!r}; `espeak-ng --voices` lists them")
            Espeak._language = self._own

    def _read(self, text: str) -> str:
        """Clause by clause, as the library leaves out the marks between them."""
        found = ""
        for clause, mark in _CLAUSE.findall(text):
            # A mark alone would be spoken by its name.
            spoken = " ".join(self._clause(clause)).strip() if any(map(str.isalnum, clause)) else ""
            found += f" {spoken}{mark[-1:]}" if spoken else mark[-1:]
        return found.strip()

    def _clause(self, text: str) -> Iterator[str]:
        """The library reads as much as it likes at a time, and moves the pointer on, at the end to nowhere."""
        assert self._library is not None  # noqa: S101 - made with it
        buffer = ctypes.create_string_buffer(text.encode())
        place = ctypes.c_void_p(ctypes.addressof(buffer))
        while place.value:
            spoken = self._library.espeak_TextToPhonemes(ctypes.byref(place), _UTF8, _IPA | _TIED | ord(TIE) << 8)
            yield _SWITCH.sub("", (spoken or b"").decode()).strip()

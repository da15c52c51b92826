"""Speech for tests: texts as eSpeak NG says them, in English, by the library of package `espeakng-loader`."""

import ctypes
import json
import subprocess
import sys

from tests.media_files import wav

RATE = 16_000


def spoken(text: str) -> bytes:
    """A WAV of 16 kHz. The library has one voice and one output for a process, so each text is said in one of its
    own."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.spoken", json.dumps(text)], stdout=subprocess.PIPE, check=True, timeout=120
    )
    return wav(said.stdout)


def _say(text: str) -> None:
    from espeakng_loader import get_data_path, get_library_path  # type: ignore[import-not-found, unused-ignore]

    library, samples = ctypes.CDLL(get_library_path()), list[bytes]()
    rate = library.espeak_Initialize(2, 0, str(get_data_path()).encode(), 0)  # AUDIO_OUTPUT_SYNCHRONOUS
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

    def take(values: "ctypes._Pointer[ctypes.c_short]", count: int, _events: int) -> int:
        if values and count:
            samples.append(ctypes.string_at(values, 2 * count))
        return 0

    taking = callback(take)
    library.espeak_SetSynthCallback(taking)
    library.espeak_SetVoiceByName(b"en-us")
    library.espeak_SetParameter(1, 140, 0)  # words a minute
    data = text.encode()
    library.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
    sys.stdout.buffer.write(_resampled(b"".join(samples), rate))


def _resampled(data: bytes, rate: int) -> bytes:
    import numpy as np

    values = np.frombuffer(data, np.int16).astype(np.float64)
    at = np.arange(0, len(values) - 1, rate / RATE)
    return np.interp(at, np.arange(len(values)), values).astype(np.int16).tobytes()


if __name__ == "__main__":
    _say(json.loads(sys.argv[1]))

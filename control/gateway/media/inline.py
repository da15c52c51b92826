"""Pictures and sounds that stand in the request itself, as base64."""

import binascii

from templates_lib.media.image_format import ImageHeader
from templates_lib.media.image_header import ImageLimits, image_header
from templates_lib.media.media_error import MediaError, MediaFault
from templates_lib.media.wav_header import AudioLimits, WavHeader, wav_header

DATA = "data:"
_BASE64 = ";base64"
_MOST_PREFIX = 256
"""Characters before the comma of a data URL."""
_SLICE = 1 << 16
"""Characters that are decoded at once: other threads get the interpreter in between."""


def inline_image(url: str, limits: ImageLimits) -> tuple[ImageHeader, bytes]:
    """What the header of a `data:` URL's picture says, and its bytes. Raises MediaError."""
    comma = url.find(",", 0, _MOST_PREFIX)
    about = url[len(DATA) : comma] if comma >= 0 else ""
    if not about.endswith(_BASE64):
        why = "The image's URL is no `data:image/png;base64,` and what follows. Write it so"
        raise MediaError(MediaFault.INVALID_IMAGE, why)
    claimed = about.removesuffix(_BASE64).partition(";")[0].strip().lower()
    data = _decoded(url, comma + 1, limits.max_bytes, "image", MediaFault.IMAGE_TOO_LARGE, MediaFault.INVALID_IMAGE)
    return image_header(data, limits, claimed), data


def inline_audio(text: str, format_: str, limits: AudioLimits) -> tuple[WavHeader, bytes]:
    """What the header of a sound says, and its bytes. Raises MediaError."""
    if format_ != "wav":
        why = f"The audio's format is `{format_[:64]}`; `wav` is read. Send that"
        raise MediaError(MediaFault.UNSUPPORTED_AUDIO_FORMAT, why)
    data = _decoded(text, 0, limits.max_bytes, "audio", MediaFault.AUDIO_TOO_LARGE, MediaFault.INVALID_AUDIO)
    return wav_header(data, limits), data


def _decoded(text: str, start: int, most: int, what: str, too_large: MediaFault, invalid: MediaFault) -> bytes:
    """What stands in `text` from `start`. Raises MediaError: `too_large` before anything is decoded, or `invalid`."""
    size = len(text) - start
    if size // 4 * 3 - 2 > most:
        raise MediaError(too_large, f"The {what} has more than {most} bytes. Send less")
    data = bytearray()
    try:
        if text.find("=", start, len(text) - 2) >= 0:
            raise ValueError("it ends before its end")
        for at in range(start, len(text), _SLICE):
            data += binascii.a2b_base64(text[at : at + _SLICE], strict_mode=True)
    except ValueError:
        raise MediaError(invalid, f"The {what}'s base64 is damaged. Send it encoded anew, without line ends") from None
    return bytes(data)

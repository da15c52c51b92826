"""Why a picture or clip that a request brings is refused."""

from enum import StrEnum


class MediaFault(StrEnum):
    """What is wrong: the code that clients get."""

    IMAGE_TOO_LARGE = "image_too_large"
    """In bytes."""
    IMAGE_TOO_MANY_PIXELS = "image_too_many_pixels"
    """By its header, or once it is decoded: what asks for more memory or time than any picture of its size."""
    INVALID_IMAGE = "invalid_image"
    UNSUPPORTED_IMAGE_FORMAT = "unsupported_image_format"
    TOO_MANY_IMAGES = "too_many_images"
    AUDIO_TOO_LARGE = "audio_too_large"
    """In bytes, or in seconds."""
    INVALID_AUDIO = "invalid_audio"
    UNSUPPORTED_AUDIO_FORMAT = "unsupported_audio_format"
    TOO_MANY_CLIPS = "too_many_clips"
    FORBIDDEN_URL = "forbidden_url"
    """Nothing has been sent to it."""
    IMAGE_FETCH_FAILED = "image_fetch_failed"

    @property
    def is_size(self) -> bool:
        """The bytes are too many, whatever they mean."""
        return self in (MediaFault.IMAGE_TOO_LARGE, MediaFault.AUDIO_TOO_LARGE)


class MediaError(ValueError):
    """The message says what is wrong and what to send; nothing of the content, and no address but the client's own."""

    def __init__(self, fault: MediaFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message


def damaged(format_: str, what: str) -> MediaError:
    return MediaError(MediaFault.INVALID_IMAGE, f"The {format_} is damaged: {what}. Send the whole file")


def animated(format_: str) -> MediaError:
    why = f"The {format_} is an animation. Send one of its pictures"
    return MediaError(MediaFault.UNSUPPORTED_IMAGE_FORMAT, why)


def too_costly() -> MediaError:
    why = "The image takes more memory or time than may be when it is decoded. Send it saved anew, or a smaller one"
    return MediaError(MediaFault.IMAGE_TOO_MANY_PIXELS, why)

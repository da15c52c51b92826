"""A part of a message that is no text: where it stands, and where its bytes are."""

from collections.abc import Sequence
from dataclasses import dataclass

from control.gateway.api_error import bad_request, unsupported
from control.gateway.bodies import ContentPart, ImageUrl
from templates_lib.graphs.component import Modality

MOST_PARTS = 1024
"""Pictures and sounds of one request, whatever its model takes."""


@dataclass(frozen=True, slots=True)
class MediaPart:
    modality: Modality
    where: str
    """`messages[0].content[1]`."""
    source: str
    """A URL for a picture, base64 for a sound."""
    format: str = ""
    """What a sound is said to be: `wav`."""
    data: bytes | None = None
    """The bytes themselves, where they came as a file; `source` is empty then."""


def media_part(part: ContentPart, where: str) -> MediaPart | None:
    """None for text. Raises ApiError for a part of no kind that is known, and one that lacks what its kind needs."""
    match part.type:
        case "text" if part.text is not None:
            return None
        case "image_url" if part.image_url is not None:
            image = ImageUrl(part.image_url) if isinstance(part.image_url, str) else part.image_url
            if image.detail == "low":
                raise unsupported("detail", f"`{where}`: pictures are seen as the model sees them; send a smaller one")
            return MediaPart(Modality.IMAGE, where, image.url)
        case "input_audio" if part.input_audio is not None:
            return MediaPart(Modality.AUDIO, where, part.input_audio.data, part.input_audio.format)
        case "text" | "image_url" | "input_audio":
            raise bad_request(f"`{where}`: a part of type `{part.type}` has a field of that name", "messages")
        case other:
            known = "`text`, `image_url` and `input_audio`"
            raise bad_request(f"`{where}`: parts of type `{other[:64]}` are not known; {known} are", "messages")


def check_count(parts: Sequence[MediaPart]) -> None:
    """Raise ApiError for more parts than any request has."""
    if len(parts) > MOST_PARTS:
        why = f"{len(parts)} pictures and sounds; {MOST_PARTS} are the most of a request. Send several"
        raise bad_request(why, "messages", "too_many_images")

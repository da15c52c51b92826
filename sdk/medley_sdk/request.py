"""A request, as the code of a task sees it: its parts are handles."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medley_sdk.handle import Handle


@dataclass(frozen=True, slots=True)
class Request:
    text: "Handle | None"
    """None: it has none."""
    images: "tuple[Handle, ...]"
    audio: "tuple[Handle, ...]"
    """Clips."""
    answer: str
    """`text`, `audio` or `image`: what the client asks for."""

"""Vision-language models (Qwen2.5-VL, InternVL3): an encoder of images, and a decoder that reads its rows."""

from typing import Any

from medley_sdk.choice import replayable_choice
from medley_sdk.request import Request
from medley_sdk.unit import decoder, encoder
from medley_sdk.workflow import Workflow, workflow


def picture_chat(of: str) -> Workflow:
    """Images are encoded apart, or where the answer is written (Cornserve, Listing 2: E-L, E-EL and EL)."""
    vision, language, both = encoder("vision", of=of), decoder("language", of=of), decoder("vision", "language", of=of)

    @workflow(takes=("text", "image"), makes=("text",))
    async def chat(request: Request) -> Any:
        way = replayable_choice("apart", "helped", "together")
        if way == "together":
            return both(request.text, request.images)
        writer = language if way == "apart" else both
        return writer(request.text, [vision(image) for image in request.images])

    return chat

"""Models that draw what a text says (Qwen-Image): a text encoder, and a denoiser with an autoencoder."""

from typing import Any

from medley_sdk.choice import replayable_choice
from medley_sdk.request import Request
from medley_sdk.unit import decoder, generator
from medley_sdk.workflow import Workflow, workflow


def picture_making(of: str) -> Workflow:
    text, picture, both = decoder("text", of=of), generator("picture", of=of), generator("text", "picture", of=of)

    @workflow(takes=("text",), makes=("image",))
    async def draw(request: Request) -> Any:
        if replayable_choice("apart", "together") == "together":
            return both(request.text)
        return picture(text(request.text))

    return draw

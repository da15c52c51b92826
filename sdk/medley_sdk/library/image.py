"""Models that draw what a text says, in one component (`word_pictures`); `picture_making` has two."""

from typing import Any

from medley_sdk.request import Request
from medley_sdk.unit import generator
from medley_sdk.workflow import Workflow, workflow


def image(of: str) -> Workflow:
    picture = generator("picture", of=of)

    @workflow(takes=("text",), makes=("image",))
    async def draw(request: Request) -> Any:
        return picture(request.text)

    return draw

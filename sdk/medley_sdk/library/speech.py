"""Models that speak what a text says (Kokoro), in one component."""

from typing import Any

from medley_sdk.request import Request
from medley_sdk.unit import generator
from medley_sdk.workflow import Workflow, workflow


def speech(of: str) -> Workflow:
    voice = generator("voice", of=of)

    @workflow(takes=("text",), makes=("audio",))
    async def speak(request: Request) -> Any:
        return voice(request.text)

    return speak

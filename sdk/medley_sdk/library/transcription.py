"""Models that write down what they hear (Whisper): an encoder of clips, and a decoder that attends to its rows."""

from typing import Any

from medley_sdk.choice import replayable_choice
from medley_sdk.request import Request
from medley_sdk.unit import decoder, encoder
from medley_sdk.workflow import Workflow, workflow


def transcription(of: str) -> Workflow:
    hearing, writing, both = encoder("hearing", of=of), decoder("writing", of=of), decoder("hearing", "writing", of=of)

    @workflow(takes=("audio",), makes=("text",))
    async def write(request: Request) -> Any:
        if replayable_choice("apart", "together") == "together":
            return both(request.audio)
        return writing([hearing(clip) for clip in request.audio])

    return write

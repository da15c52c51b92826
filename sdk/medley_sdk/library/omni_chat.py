"""Models that hear, see and speak (Qwen2.5-Omni, Qwen3-Omni): encoders, a thinker, a talker and a vocoder."""

from typing import Any

from medley_sdk.choice import replayable_choice
from medley_sdk.handle import Handle
from medley_sdk.request import Request
from medley_sdk.unit import decoder, encoder, generator
from medley_sdk.workflow import Workflow, workflow

SENSES = ("vision", "hearing")


def omni_chat(of: str) -> Workflow:
    """Encoders apart or with the thinker; the talker and the vocoder apart from it and from each other, together, or
    all in one. Speech is made while the thinker writes."""
    vision, hearing = encoder("vision", of=of), encoder("hearing", of=of)
    thinker, thinker_with_senses = decoder("thinker", of=of), decoder(*SENSES, "thinker", of=of)
    talker, vocoder = decoder("talker", of=of), generator("vocoder", of=of)
    speaker = generator("talker", "vocoder", of=of)
    everything = generator(*SENSES, "thinker", "talker", "vocoder", of=of)

    def thought(request: Request) -> Handle:
        if replayable_choice("encoders apart", "with the thinker") == "with the thinker":
            return thinker_with_senses(request.text, request.images, request.audio)
        seen, heard = [vision(image) for image in request.images], [hearing(clip) for clip in request.audio]
        return thinker(request.text, seen, heard)

    @workflow(takes=("text", "image", "audio"), makes=("text", "audio"))
    async def chat(request: Request) -> Any:
        if request.answer == "text":
            return thought(request)
        match replayable_choice("voice apart", "voice in one", "all in one"):
            case "voice apart":
                return vocoder(talker(thought(request).stream).stream)
            case "voice in one":
                return speaker(thought(request).stream)
            case _:
                return everything(request.text, request.images, request.audio)

    return chat

"""A vision-language model as its developer writes it: images are encoded apart, or where the answer is written, as the
plan chooses. `medley tasks check examples/tasks/describe.py` shows what the planner makes of it; a spec names it in
`apps`, as `task: tasks/describe.py:describe` (docs/any-to-any.md)."""

from typing import Any

from medley_sdk import Request, decoder, encoder, replayable_choice, workflow

GRAPH = "qwen2.5-vl-7b"
vision = encoder("vision", of=GRAPH)
language = decoder("language", of=GRAPH)
both = decoder("vision", "language", of=GRAPH)


@workflow(takes=("text", "image"), makes=("text",))
async def describe(request: Request) -> Any:
    if replayable_choice("apart", "together") == "together":
        return both(request.text, request.images)
    return language(request.text, [vision(image) for image in request.images])

"""Files of tasks: code that does what it should, and code that does not."""

from control.tasks.task_source import TaskSource

GOOD = """
from medley_sdk import decoder, encoder, generator, replayable_choice, workflow

GRAPH = "qwen2.5-vl-7b"
VISION, LANGUAGE = encoder("vision", of=GRAPH), decoder("language", of=GRAPH)
WHOLE = decoder("vision", "language", of=GRAPH)
OMNI = "qwen2.5-omni-7b"
THINKER, SPEAKER = decoder("thinker", of=OMNI), generator("talker", "vocoder", of=OMNI)


@workflow(takes=("text", "image"))
async def describe(request):
    print("to nobody", flush=True)
    if replayable_choice("apart", "together") == "together":
        return WHOLE(request.text, request.images)
    return LANGUAGE(request.text, [VISION(image) for image in request.images])


@workflow()
async def shouts(request):
    return {"text": (await LANGUAGE(request.text)).upper()}


@workflow(makes=("audio",))
async def speaks_and_shouts(request):
    written = THINKER(request.text)
    spoken = SPEAKER(written.stream)
    return {"text": (await written).upper(), "sound": spoken}
"""
BAD = """
import os
import random
from medley_sdk import decoder, workflow

LANGUAGE = decoder("language", of="qwen2.5-vl-7b")
SEEN = []


@workflow()
async def fine(request):
    return LANGUAGE(request.text)


@workflow()
async def raises(request):
    return LANGUAGE(request.text, 1 / 0)


@workflow()
async def rolls(request):
    return LANGUAGE(request.text, random.random())


@workflow()
async def orders(request):
    return LANGUAGE(request.text, list({f"word {number}" for number in range(20)}))


@workflow()
async def remembers(request):
    SEEN.append(request.answer)
    return LANGUAGE(request.text, len(SEEN))


@workflow()
async def answers_otherwise(request):
    return {"text": await LANGUAGE(request.text), "number": random.random()}


@workflow()
async def calls_for_ever(request):
    while True:
        LANGUAGE(request.text)


@workflow()
async def takes_memory(request):
    return LANGUAGE(request.text, len([bytearray(1 << 24) for _ in range(1000)]))


@workflow()
async def exits(request):
    raise SystemExit(0)


@workflow()
async def dies(request):
    os._exit(3)


@workflow()
async def has_no_end(request):
    while True:
        pass


@workflow()
async def talks_over(request):
    for pipe in range(3, 10):
        try:
            os.write(pipe, b"something else")
        except OSError:
            pass
    return LANGUAGE(request.text)


@workflow()
async def calls_after_awaiting(request):
    return LANGUAGE(request.text, await LANGUAGE(request.text))


@workflow()
async def calls_nothing(request):
    return "hello"


@workflow()
async def of_two_models(request):
    return decoder("thinker", of="qwen2.5-omni-7b")(LANGUAGE(request.text))


@workflow()
async def tells_its_environment(request):
    return LANGUAGE(request.text, dict(os.environ), os.getcwd())
"""


def source(text: str) -> TaskSource:
    return TaskSource("tasks.py", text)

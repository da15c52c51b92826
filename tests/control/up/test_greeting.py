"""`medley up` says that it is ready when the gateway serves, and not before."""

import asyncio
import json
import threading
from dataclasses import dataclass, field

import msgspec

from control.access.secret import Secret
from control.gateway.making.image_request import ImageBody, image_params
from control.gateway.making.speech_request import SpeechBody, speech_params
from control.up.first_requests import first_requests
from control.up.serving import Greeting
from control.up.steps import Steps
from tests.http_endpoint import Asked, Said, serving

KEY = Secret("medley_0123456789ab_" + "5" * 64)


@dataclass
class _Gateway:
    """Answers /readyz with whatever is in `models`; `asked` says that it was."""

    models: list[str] = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self, _: Asked) -> Said:
        said = Said({"ready": self.models}, 200 if self.models else 503)
        self.asked.release()
        return said


def test_it_waits_for_all_instances_and_for_the_gateway_to_find_them() -> None:
    said: list[str] = []
    gateway = _Gateway()

    async def scenario(url: str) -> None:
        greeting = Greeting(Steps(said.append), url, KEY, ["m"], 2, 3, first_requests(["m"], {}))
        greeting.ready("i1")
        greeting.gone("i1")
        greeting.ready("i2")
        assert not gateway.asked.acquire(blocking=False)
        greeting.ready("i1")
        await asyncio.to_thread(gateway.asked.acquire)
        gateway.models = ["other"]
        await asyncio.to_thread(gateway.asked.acquire)
        assert said == []
        gateway.models = ["m", "other"]
        async with asyncio.timeout(120):
            while len(said) < 5:
                await asyncio.sleep(0)
        greeting.ready("i3")
        greeting.close()

    with serving(gateway.answer) as endpoint:
        asyncio.run(scenario(endpoint.url))
    assert len(said) == 5
    assert said[0].startswith("\nready after ")
    assert f"{endpoint.url}/v1" in said[0]
    assert KEY.reveal() in said[1]
    body = json.loads(said[1].partition("-d '")[2].partition("'")[0])
    assert (body["stream"], body["temperature"]) == (True, 0), "the first answer is the likeliest one, as it comes"


def test_apps_that_speak_and_draw_are_asked_with_bodies_that_gateways_take() -> None:
    speak, draw = first_requests([], {"voice": ["text-to-audio"], "shapes": ["text-to-image"]})
    assert speak.startswith("/audio/speech ")
    assert draw.startswith("/images/generations ")
    bodies = [each.partition("-d '")[2].partition("'")[0] for each in (speak, draw)]
    assert speech_params(msgspec.json.decode(bodies[0], type=SpeechBody))[0].model == "voice"
    assert image_params(msgspec.json.decode(bodies[1], type=ImageBody)).model == "shapes"

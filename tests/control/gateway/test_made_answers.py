"""Pictures through a real gateway: a tiny generator in executors of its own, asked by OpenAI's client."""

import base64
import io
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from PIL import Image

from policies.routing_table import RoutedLeg, RoutedRoute
from templates_lib.values.work import Unit
from tests.agents.engines.components.tiny_pictures import CONFIG, save_pictures
from tests.agents.tensors.nodes import SETTINGS, run_node
from tests.control.gateway.app_world import APP, AppWorld

KIND = "text-to-image"
DRAWN = RoutedLeg(f"{APP}/picture", Unit.DENOISING_STEP, 3.0)
HELLO = [{"role": "user", "content": "Hello."}]
TASK = """
from medley_sdk import generator, workflow

picture = generator("picture", of="tiny")

@workflow(takes=("text",), makes=("image",))
async def describe(request):
    return picture(request.text)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppWorld]:
    folder = tmp_path_factory.mktemp("pictures")
    with run_node(SETTINGS) as node:
        world = AppWorld(
            folder,
            node=node,
            task=TASK,
            types=(KIND,),
            routes={KIND: RoutedRoute(f"{APP}/{KIND}/picture", (DRAWN,))},
            roles={DRAWN.work_class: ("picture",)},
            weights=save_pictures(folder / "weights"),
            config=CONFIG,
        )
        try:
            for name in ("brush-0", "brush-1"):
                world.executor(name, DRAWN.work_class)
            world.publish_app()
            world.start_gateway()
            world.wait_ready()
            yield world
        finally:
            world.stop()


def opened(answer: Any) -> list[Image.Image]:
    return [Image.open(io.BytesIO(base64.b64decode(each.b64_json))) for each in answer.data]


def pixels(answer: Any) -> np.ndarray:
    """Of its first picture."""
    return np.asarray(opened(answer)[0]).astype(int)


def is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """But for rounding, which differs with what else takes its steps."""
    return one.shape == other.shape and bool(np.abs(one - other).max() <= 1)


def losses(world: AppWorld) -> float:
    return sum(n for name, n in world.metrics().items() if name.startswith("medley_gateway_resumptions_total"))


def made_steps(world: AppWorld) -> float:
    name = f'medley_gateway_made_units_total{{model="{APP}-{KIND}",unit="denoising_step"}}'
    return world.metrics().get(name, 0.0)


def test_pictures_are_those_of_their_seeds_and_counted_by_steps(world: AppWorld) -> None:
    before = made_steps(world)
    with world.client() as client:
        two = opened(client.images.generate(model=APP, prompt="a red circle", n=2, extra_body={"seed": 5}))
        again = opened(client.images.generate(model=APP, prompt="a red circle", extra_body={"seed": 6}))
        wide = opened(
            client.images.generate(model=APP, prompt="blue", size="24x16", extra_body={"num_inference_steps": 5})
        )
        models = client.models.list().data
    assert [each.size for each in (*two, *again, *wide)] == [(16, 16)] * 3 + [(24, 16)]
    first, second, third = (np.asarray(each).astype(int) for each in (*two, *again))
    assert is_same(second, third)
    assert not is_same(first, second)
    assert made_steps(world) - before == 3 * 3 + 5
    (listed,) = models
    assert (listed.id, listed.output_modalities, listed.request_types) == (APP, ["image"], [KIND])


def test_many_at_once_are_each_answered(world: AppWorld) -> None:
    def one(seed: int) -> np.ndarray:
        with world.client() as client:
            return pixels(client.images.generate(model=APP, prompt="blue square", extra_body={"seed": seed % 4}))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(16)))
    assert all(is_same(found[n], found[m]) == (n % 4 == m % 4) for n in range(16) for m in range(16))


def test_seeds_count_on_from_the_largest_to_the_smallest(world: AppWorld) -> None:
    with world.client() as client:
        two = opened(client.images.generate(model=APP, prompt="a red circle", n=2, extra_body={"seed": (1 << 62) - 1}))
        smallest = pixels(client.images.generate(model=APP, prompt="a red circle", extra_body={"seed": 0}))
    assert is_same(np.asarray(two[1]).astype(int), smallest)


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("images/generations", {"prompt": "red", "size": "18x18"}, 400, None),
        ("images/generations", {"prompt": "words that nobody knows"}, 400, None),
        ("images/generations", {"prompt": " "}, 400, "prompt"),
        ("images/generations", {"prompt": "x" * 5000}, 400, "prompt"),
        ("images/generations", {"prompt": "red", "n": 11}, 400, "n"),
        ("images/generations", {"prompt": "red", "size": "big"}, 400, "size"),
        ("images/generations", {"prompt": "red", "size": "9999x9999"}, 400, "size"),
        ("images/generations", {"prompt": "red", "response_format": "url"}, 400, "response_format"),
        ("images/generations", {"prompt": "red", "output_format": "webp"}, 400, "output_format"),
        ("images/generations", {"prompt": "red", "quality": "hd"}, 400, "quality"),
        ("images/generations", {"prompt": "red", "model": "nobody"}, 404, "model"),
        ("images/generations", {"prompt": "red", "model": f"{APP}-{KIND}"}, 404, "model"),
        ("audio/speech", {"input": "Hello."}, 400, "model"),
        ("audio/speech", {"input": "Hello.", "response_format": "mp3"}, 400, "response_format"),
        ("audio/speech", {"input": "Hello.", "speed": 9}, 400, "speed"),
        ("audio/speech", {"input": "Hello.", "instructions": "Whisper."}, 400, "instructions"),
        ("audio/speech", {"input": ""}, 400, "input"),
        ("chat/completions", {"messages": HELLO}, 503, None),
        ("chat/completions", {"messages": HELLO, "modalities": ["text", "image"]}, 400, "modalities"),
        ("chat/completions", {"messages": HELLO, "modalities": ["text", "audio"]}, 400, "modalities"),
    ],
)
def test_what_is_not_made_is_refused_with_the_field(
    world: AppWorld, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    with world.http() as http:
        answer = http.post(f"/v1/{path}", json={"model": APP, **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param), answer.text


def test_a_client_that_leaves_frees_the_executor(world: AppWorld) -> None:
    body = json.dumps({"model": APP, "prompt": "red", "n": 10, "num_inference_steps": 1000})
    with world.http() as http:
        with pytest.raises(httpx.ReadTimeout):
            http.post("/v1/images/generations", content=body, timeout=0.5)
        world.wait_for("medley_gateway_open_calls", 0.0)
        for name in ("brush-0", "brush-1"):
            world.wait_for(f'medley_gateway_instance_waiting{{instance="{name}"}}', 0.0)
            world.wait_for(f'medley_gateway_instance_running{{instance="{name}"}}', 0.0)
        assert http.post("/v1/images/generations", json={"model": APP, "prompt": "red"}).status_code == 200


def test_an_answer_goes_on_elsewhere_when_its_executor_dies(world: AppWorld) -> None:
    with world.client() as client, ThreadPoolExecutor(4) as pool:
        before, body = losses(world), {"seed": 1, "num_inference_steps": 1000}
        waits = [pool.submit(client.images.generate, model=APP, prompt="red", extra_body=body) for _ in range(4)]
        world.wait_until('medley_gateway_instance_running{instance="brush-0"}', lambda running: running >= 1)
        world.echoes["brush-0"].child.send_signal(signal.SIGKILL)
        first, *others = (pixels(each.result()) for each in waits)
        assert all(is_same(first, each) for each in others)
        assert losses(world) > before
        world.wait_for('medley_gateway_instance_up{instance="brush-0"}', 0.0)
        client.images.generate(model=APP, prompt="red")


@pytest.mark.slow  # it waits for as long as answers wait for an executor
def test_a_type_that_nothing_serves_now_is_told_to_come_again(world: AppWorld) -> None:
    for process in world.echoes.values():
        process.stop(signal.SIGKILL)
    for name in world.echoes:
        world.wait_for(f'medley_gateway_instance_up{{instance="{name}"}}', 0.0)
    with world.client() as client, pytest.raises(openai.InternalServerError) as error:
        client.images.generate(model=APP, prompt="red")
    assert error.value.status_code == 503
    assert int(error.value.response.headers["retry-after"]) > 0

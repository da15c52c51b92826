"""Requests of an app through a real gateway: pictures are encoded by executors, and decoders are given their rows."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from tests.agents.tensors.nodes import SETTINGS, run_node, wait_until
from tests.control.gateway.app_world import APP, TASK, TEXT_ALONE, AppWorld, asked, expected, image
from tests.control.gateway.world import API_KEY


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppWorld]:
    with run_node(SETTINGS) as node:
        world = AppWorld(tmp_path_factory.mktemp("app"), node=node)
        try:
            world.executor("eye-0")
            world.decoder("writer-0")
            world.publish_app()
            world.start_gateway("--preprocessor-slab-mib", "8")
            world.publish_app()
            world.wait_ready()
            yield world
        finally:
            world.stop()


def children(world: AppWorld, module: str) -> list[int]:
    """Processes of the gateway that run a module."""
    assert world.gateway is not None
    return [each.pid for each in psutil.Process(world.gateway.child.pid).children() if module in each.cmdline()]


def test_pictures_are_encoded_apart_and_their_rows_stand_in_the_prompt(world: AppWorld) -> None:
    world.serve()
    with world.http() as http:
        answer = http.post("/v1/chat/completions", json=asked("what is it?", 1, 2, max_tokens=40))
    assert answer.status_code == 200, answer.text + world.gateway_log
    body = answer.json()
    assert body["model"] == APP
    assert body["choices"][0]["message"]["content"] == expected("what is it?", 2, 40)
    assert body["usage"]["prompt_tokens"] == 2 * (1 + 6 + 1) + len("what is it?")


def test_pictures_of_responses_are_those_of_chats(world: AppWorld) -> None:
    world.serve()
    pictures = [{"type": "input_image", "image_url": image(seed)["image_url"]["url"]} for seed in (1, 2)]
    content = [*pictures, {"type": "input_text", "text": "what is it?"}]
    body = {"model": APP, "input": [{"role": "user", "content": content}], "max_output_tokens": 40}
    with world.http() as http:
        answer = http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text + world.gateway_log
    (message,) = answer.json()["output"]
    assert message["content"][0]["text"] == expected("what is it?", 2, 40)
    assert answer.json()["usage"]["input_tokens"] == 2 * (1 + 6 + 1) + len("what is it?")


def test_text_alone_takes_its_own_path_and_streams(world: AppWorld) -> None:
    world.serve()
    with world.http() as http:
        body = asked("just text", max_tokens=20, stream=True)
        answer = http.post("/v1/chat/completions", json=body)
        listed = http.get("/v1/models").json()["data"]
        hidden = http.get(f"/v1/models/{APP}-{TEXT_ALONE}")
        counted = http.post("/tokenize", json={"model": APP, "prompt": "just text"})
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    texts = [choice["delta"].get("content") or "" for line in lines for choice in json.loads(line)["choices"]]
    assert "".join(texts) == expected("just text", 0, 20)
    assert [each["id"] for each in listed] == [APP]
    assert listed[0]["input_modalities"] == ["text", "image"]
    assert hidden.status_code == 404
    assert counted.json()["count"] == len("just text")


def test_what_is_damaged_inside_is_refused_with_its_code(world: AppWorld) -> None:
    world.serve()
    part = image(3)
    url = part["image_url"]["url"]
    body = asked("what is it?", 3)
    body["messages"][0]["content"][0]["image_url"]["url"] = url[: len(url) - 40]
    with world.http() as http:
        answer = http.post("/v1/chat/completions", json=body)
        again = http.post("/v1/chat/completions", json=asked("what is it?", 3, max_tokens=9))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_image")
    assert again.status_code == 200


def test_a_lost_preprocessor_is_started_again(world: AppWorld) -> None:
    world.serve()
    with world.http() as http:
        assert http.post("/v1/chat/completions", json=asked("a", 4, max_tokens=4)).status_code == 200
        (pid,) = children(world, "agents.preprocessor")
        os.kill(pid, signal.SIGKILL)
        assert http.post("/v1/chat/completions", json=asked("a", 5, max_tokens=4)).status_code == 200
        assert children(world, "agents.preprocessor") != [pid]


def test_rows_of_a_client_that_left_before_they_were_taken_do_not_stay(world: AppWorld) -> None:
    node, writer = world.node, world.echoes["writer-0"].child.pid
    assert node is not None
    world.serve()
    wait_until(lambda: not node.tensors)
    body, where = json.dumps(asked("gone", 70, max_tokens=9)), urlsplit(world.url)

    def are_there() -> bool:
        with node.sidecar._desk.change() as book:
            return any(name.endswith(".rows") and each.blob.state == "complete" for name, each in book._tensors.items())

    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n"
    os.kill(writer, signal.SIGSTOP)  # it takes nothing
    try:
        with socket.create_connection((where.hostname, where.port)) as client:
            client.sendall(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
            wait_until(are_there)
        wait_until(lambda: not node.tensors)  # waits half as long as they would be kept
    finally:
        os.kill(writer, signal.SIGCONT)
    world.wait_ready()


def own_task(last: str) -> str:
    """The task with another last line."""
    return TASK[: TASK.index("    return")] + f"    {last}\n"


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("raise ValueError('no')", 500),
        pytest.param("while True: pass", 500, marks=pytest.mark.slow),
        pytest.param("import os; os._exit(3)", 500, marks=pytest.mark.slow),
        pytest.param("return language(request.text)", 503, marks=pytest.mark.slow),
    ],
)
def test_code_that_fails_costs_its_request_and_nothing_else(world: AppWorld, last: str, status: int) -> None:
    world.serve(own_task(last))
    with world.http() as http:
        found = [http.post("/v1/chat/completions", json=asked("a", 6, max_tokens=4)) for _ in range(2)]
        assert http.get("/readyz").status_code == 200
    assert {each.status_code for each in found} == {status}
    if status == 500:
        assert {each.json()["error"]["code"] for each in found} == {"task_failed"}
        assert "describe.py" not in found[0].text


def test_code_that_awaits_makes_the_answer_of_what_was_written(world: AppWorld) -> None:
    world.serve(own_task("return {'said': (await language(request.text, [vision(i) for i in request.images]))[:7]}"))
    with world.http() as http:
        answer = http.post("/v1/chat/completions", json=asked("hello", 7, max_tokens=20))
    said = expected("hello", 1, 20)[:7]
    assert json.loads(answer.json()["choices"][0]["message"]["content"]) == {"said": said}


def test_a_type_that_the_plan_does_not_serve_is_told_to_come_again(world: AppWorld) -> None:
    world.serve(types=(TEXT_ALONE,))
    with world.http() as http:
        answer = http.post("/v1/chat/completions", json=asked("a", 8, max_tokens=4))
        alone = http.post("/v1/chat/completions", json=asked("a", max_tokens=4))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "service_unavailable")
    assert "retry-after" in answer.headers
    assert TEXT_ALONE in answer.json()["error"]["message"]
    assert alone.status_code == 200

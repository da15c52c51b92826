"""Instances that die, hang, drain, fill up or are slow to come: clients get every token exactly once."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from bench.text_tables import DECODE, PREFILL
from control.gateway.published import read_published
from policies.routing_table import ZoneFlow
from tests.control.db.processes import wait_until
from tests.control.gateway.world import MODEL, SECRET, World, world_of
from tests.free_port import free_address

SLOW = ("--step-s", "0.002")
"""500 tokens/s."""
SLOWER = ("--step-s", "0.1")
"""An answer lasts long enough to lose its instance, however late that comes: those who take over are faster."""


def echoed(prompt: str, count: int) -> str:
    return (prompt * (count // len(prompt) + 1))[:count]


def stream_of(world: World, prompt: str, count: int):
    stream = world.client().completions.create(
        model=MODEL, prompt=prompt, max_tokens=count, stream=True, stream_options={"include_usage": True}
    )
    return iter(stream)


def first_text(chunks) -> str:
    """The beginning of an answer, so that its instance is at work."""
    return next(chunk.choices[0].text for chunk in chunks)


def rest_of(chunks) -> tuple[str, str, int]:
    """Text, finish reason and counted tokens."""
    text, reason, tokens = "", "", 0
    for chunk in chunks:
        if chunk.choices:
            text += chunk.choices[0].text
            reason = chunk.choices[0].finish_reason or reason
        if chunk.usage is not None:
            tokens = chunk.usage.completion_tokens
    return text, reason, tokens


def resumptions(world: World, cause: str) -> float:
    return world.metrics().get(f'medley_gateway_resumptions_total{{cause="{cause}",model="{MODEL}"}}', 0)


def test_a_stream_whose_instance_is_killed_goes_on_elsewhere_with_every_token_once(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOWER, "e2": SLOW}) as world:
        prompt = "0123456789 abcdefghijklmnop "
        streams = [stream_of(world, f"{n} {prompt}", 700) for n in range(4)]
        begun = [first_text(stream) for stream in streams]
        world.echoes["e1"].stop(signal.SIGKILL)
        for n, (start, stream) in enumerate(zip(begun, streams, strict=True)):
            text, reason, tokens = rest_of(stream)
            assert start + text == echoed(f"{n} {prompt}", 700)
            assert (reason, tokens) == ("length", 700)
        assert resumptions(world, "lost") == 2  # round-robin gave it half of them
        assert "Traceback" not in world.gateway_log


def test_the_last_instance_may_die_too_if_another_comes_in_time(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOWER}, "--resume-wait-s", "120") as world:
        stream = stream_of(world, "abcdefg", 300)
        start = first_text(stream)
        world.echoes["e1"].stop(signal.SIGKILL)
        world.echo("e2")
        world.publish("e2")  # e1 leaves the table, e2 comes up while the request waits
        text, reason, tokens = rest_of(stream)
        assert (start + text, reason, tokens) == (echoed("abcdefg", 300), "length", 300)


def test_an_instance_that_starts_over_at_its_address_is_used_again(tmp_path: Path):
    bind = "--bind", free_address()
    with world_of(tmp_path, {"e1": (*SLOWER, *bind)}, "--resume-wait-s", "120") as world:
        stream = stream_of(world, "xyz ", 300)
        start = first_text(stream)
        world.echoes["e1"].stop(signal.SIGKILL)
        world.echo("e1", *bind)
        assert start + rest_of(stream)[0] == echoed("xyz ", 300)


def test_a_hung_instance_is_noticed_by_time_out(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOW, "e2": SLOWER}, "--lost-after-s", "3", "--heartbeat-s", "0.2") as world:
        streams = [stream_of(world, f"{n}+abc", 400) for n in range(2)]
        begun = [first_text(stream) for stream in streams]
        world.echoes["e2"].child.send_signal(signal.SIGSTOP)
        for n, (start, stream) in enumerate(zip(begun, streams, strict=True)):
            assert start + rest_of(stream)[0] == echoed(f"{n}+abc", 400)
        assert resumptions(world, "lost") == 1
        world.echoes["e2"].child.send_signal(signal.SIGCONT)
        world.wait_ready("e2")
        assert "2+abc" in world.client().completions.create(model=MODEL, prompt="2+abc", max_tokens=9).choices[0].text


def test_an_instance_that_leaves_the_table_finishes_what_it_has(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOW, "e2": ()}) as world:
        world.publish("e1")
        world.wait_for("medley_gateway_table_version", 2)
        stream = stream_of(world, "stay ", 400)
        start = first_text(stream)
        world.publish("e2")
        world.wait_for("medley_gateway_table_version", 3)
        assert world.client().completions.create(model=MODEL, prompt="new ", max_tokens=4).choices[0].text == "new "
        assert start + rest_of(stream)[0] == echoed("stay ", 400)
        assert sum(v for k, v in world.metrics().items() if "resumptions_total" in k) == 0


def test_prefill_and_decode_on_two_instances_give_one_answer(tmp_path: Path):
    world = World(tmp_path, flows=(ZoneFlow(("z1", "z2"), 1.0),))
    try:
        world.echo("p1", zone="z1", leg=PREFILL)
        world.echo("d1", *SLOWER, zone="z2", leg=DECODE)
        world.echo("d2", *SLOW, zone="z2", leg=DECODE)
        world.publish()
        world.start_gateway()
        world.wait_ready()
        assert stream_text(world, "pq rs ", 10) == echoed("pq rs ", 10)  # of d1, which takes a second for them
        assert stream_text(world, "pq rs ", 1) == "p"
        ended = world.client().completions.create(model=MODEL, prompt="<end>x", max_tokens=50).choices[0]
        assert (ended.text, ended.finish_reason) == ("", "stop")
        streams = [stream_of(world, f"{n} decode leg ", 400) for n in range(4)]
        begun = [first_text(stream) for stream in streams]
        world.echoes["d1"].stop(signal.SIGKILL)
        for n, (start, stream) in enumerate(zip(begun, streams, strict=True)):
            assert start + rest_of(stream)[0] == echoed(f"{n} decode leg ", 400)
        assert resumptions(world, "lost") == 2
        for name in ("p1", "d2"):
            world.wait_for(f'medley_gateway_instance_running{{instance="{name}"}}', 0)
    finally:
        world.stop()


def test_a_prefill_instance_that_has_handed_off_may_go(tmp_path: Path):
    world = World(tmp_path)
    try:
        world.echo("p1", leg=PREFILL)
        world.echo("d1", *SLOW, leg=DECODE)
        world.publish()
        world.start_gateway()
        world.wait_ready()
        world.echo("p2", leg=PREFILL)
        stream = stream_of(world, "gone ", 600)
        start = first_text(stream)
        # Its first token is there before its word that it has handed off; that is before whatever it says next.
        assert stream_text(world, "x", 1) == "x"
        world.echoes["p1"].stop(signal.SIGKILL)
        world.publish("p2", "d1")
        world.wait_for("medley_gateway_table_version", 2)
        assert start + rest_of(stream)[0] == echoed("gone ", 600)
        assert "Traceback" not in world.gateway_log
        assert resumptions(world, "lost") == 0
    finally:
        world.stop()


def stream_text(world: World, prompt: str, count: int) -> str:
    return rest_of(stream_of(world, prompt, count))[0]


def test_with_no_instance_a_request_waits_and_then_says_to_come_again(tmp_path: Path):
    with world_of(tmp_path, {"e1": ()}, "--resume-wait-s", "0.3") as world:
        world.echoes["e1"].stop(signal.SIGKILL)
        with pytest.raises(openai.InternalServerError) as error:
            world.client().completions.create(model=MODEL, prompt="x", max_tokens=1)
        assert error.value.status_code == 503
        assert int(error.value.response.headers["retry-after"]) >= 1
        with world.http() as http:
            assert http.get("/readyz").status_code == 503
            assert http.get("/healthz").status_code == 200


def test_a_stream_that_cannot_go_on_says_so_to_the_client(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOW}, "--resume-wait-s", "0.3") as world:
        stream = stream_of(world, "abc", 15_000)
        first_text(stream)
        world.echoes["e1"].stop(signal.SIGKILL)
        with pytest.raises(openai.APIError, match="No instance"):
            rest_of(stream)


def test_a_full_instance_sends_requests_to_the_others_and_a_full_fleet_makes_them_wait(tmp_path: Path):
    full = ("--max-running", "1", "--max-waiting", "1", *SLOW)
    with world_of(tmp_path, {"e1": full, "e2": full}) as world:
        streams = [stream_of_thread(world, f"{n}.", 200) for n in range(8)]
        assert [result() for result in streams] == [echoed(f"{n}.", 200) for n in range(8)]
        assert resumptions(world, "overloaded") < 8  # who waits does not ask again and again


def stream_of_thread(world: World, prompt: str, count: int):
    """The answer's text, once a thread of its own has it all."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1)
    future = pool.submit(stream_text, world, prompt, count)
    pool.shutdown(wait=False)
    return future.result


def test_over_its_capacity_a_class_answers_429_with_the_time_to_come_again(tmp_path: Path):
    world = World(tmp_path, rate=100.0)
    try:
        world.echo("p1", leg=PREFILL)
        world.echo("d1", leg=DECODE)
        world.publish()
        world.start_gateway("--max-wait-s", "1")
        world.wait_ready()
        client = world.client()
        client.completions.create(model=MODEL, prompt="x" * 9000, max_tokens=1)  # 90 s of prompt work
        with pytest.raises(openai.RateLimitError, match="capacity for prompt tokens") as error:
            client.completions.create(model=MODEL, prompt="x", max_tokens=1)
        assert 30 <= int(error.value.response.headers["retry-after"]) <= 90
        assert error.value.code == "rate_limit_exceeded"
        assert "Traceback" not in world.gateway_log
    finally:
        world.stop()


def test_everything_but_gateway_and_instances_may_be_gone(tmp_path: Path):
    """No table file, no control plane: serving goes on, and a table that is broken changes nothing."""
    with world_of(tmp_path, {"e1": ()}) as world:
        table = tmp_path / "table.json"
        content = table.read_bytes()
        table.unlink()
        world.wait_for("medley_gateway_table_errors_total", 1)
        assert stream_text(world, "on ", 30) == echoed("on ", 30)
        broken = tmp_path / "broken.json"
        broken.write_text('{"version": 3, "models": [')
        broken.replace(table)
        world.wait_for("medley_gateway_table_errors_total", 2)
        assert stream_text(world, "on ", 30) == echoed("on ", 30)
        assert "version 1 stays in use" in world.gateway_log
        table.write_bytes(content)
        assert read_published(table).version == 1


def test_a_gateway_started_without_a_table_is_not_ready_until_there_is_one(tmp_path: Path):
    world = World(tmp_path)
    try:
        world.start_gateway()
        with world.http() as http:
            assert http.get("/readyz").status_code == 503
            assert http.post("/v1/completions", json={}).json()["error"]["code"] == "service_unavailable"
        world.echo("e1")
        world.publish()
        world.wait_ready()
        assert stream_text(world, "late ", 10) == "late late "
    finally:
        world.stop()


def test_an_instance_that_does_not_know_the_gateways_key_refuses_it_and_others_serve(tmp_path: Path):
    world = World(tmp_path)
    try:
        world.echo("e1")
        stranger = world.keys
        world.keys = type(stranger).generate()
        world.echo("e2")  # allows another gateway
        world.keys = stranger
        world.publish()
        world.start_gateway()
        world.wait_ready("e1")
        for n in range(6):
            assert stream_text(world, f"{n} ", 4) == echoed(f"{n} ", 4)
        wait_until(lambda: "does not know our key" in world.gateway_log)
        wait_until(lambda: "is not on the list" in (tmp_path / "e2.log").read_text())
    finally:
        world.stop()


def test_a_model_whose_tokenizer_is_missing_is_named_and_the_reason_kept(tmp_path: Path):
    with world_of(tmp_path, {"e1": ()}) as world:
        world.model = {"tokenizer": str(tmp_path / "nowhere")}
        world.publish()
        world.wait_for("medley_gateway_table_version", 2)
        with world.http() as http:
            ready = http.get("/readyz")
        assert ready.status_code == 503
        assert "nowhere" in ready.json()["problem"]
        with pytest.raises(openai.NotFoundError):
            world.client().completions.create(model=MODEL, prompt="x")


def test_an_answer_under_way_is_finished_when_the_gateway_is_told_to_stop(tmp_path: Path):
    with world_of(tmp_path, {"e1": SLOW}) as world:
        stream = stream_of(world, "bye ", 300)
        start = first_text(stream)
        assert world.gateway is not None
        world.gateway.child.send_signal(signal.SIGTERM)
        assert start + rest_of(stream)[0] == echoed("bye ", 300)
        assert world.gateway.child.wait(timeout=60) in (0, -signal.SIGTERM)


def test_a_start_that_cannot_be_says_why_in_one_line(tmp_path: Path):
    with world_of(tmp_path, {"e1": ()}) as world:
        table, key = str(tmp_path / "table.json"), str(tmp_path / "gateway.key")
        port = world.url.rpartition(":")[2]
        for arguments, reason in (
            (["--table", table, "--key", table], "table.json"),
            (["--table", table, "--key", key, "--port", port], "Address already in use"),
        ):
            command = [sys.executable, "-m", "control.gateway", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
            assert done.returncode == 1
            assert reason in done.stderr
            assert done.stderr.count("\n") == 1


def test_the_published_file_is_json_that_people_can_read(tmp_path: Path):
    with world_of(tmp_path, {"e1": ()}) as world:
        table = json.loads((tmp_path / "table.json").read_text())
        assert table["models"][0]["routing"]["instances"][0]["id"] == "e1"
        assert SECRET not in json.dumps(table)
        assert world.version == 1

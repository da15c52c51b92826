"""A gateway process whose table says `slack-v1`: clients that wait or leave, instances that die."""

import signal
from pathlib import Path

from bench.text_tables import DECODE, PREFILL
from tests.control.gateway.test_failures import SLOW, echoed, first_text, rest_of, stream_of, stream_of_thread
from tests.control.gateway.world import MODEL, World

WAITING = "medley_gateway_parked_calls"
OPEN = "medley_gateway_open_calls"


def slack_world(folder: Path, *arguments: str, **legs: str) -> World:
    """Instances with these arguments, each for its leg, and a gateway, ready."""
    world = World(folder, policy="slack-v1")
    for name, leg in legs.items():
        world.echo(name, *arguments, leg=leg)
    world.publish()
    world.start_gateway("--lost-after-s", "120")  # longer than one that is stopped for a while is silent
    world.wait_ready()
    return world


def test_requests_wait_for_places_and_who_leaves_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    world = slack_world(tmp_path, "--max-running", "1", *SLOW, e1="whole")
    try:
        stream = stream_of(world, "first ", 1500)
        start = first_text(stream)
        world.echoes["e1"].child.send_signal(signal.SIGSTOP)  # its place is taken until all others wait
        waiting = [stream_of_thread(world, f"{n}.", 20) for n in range(5)]
        world.wait_for(WAITING, 5)
        world.echoes["e1"].child.send_signal(signal.SIGCONT)
        with world.http() as http:
            body = {"model": MODEL, "prompt": "gone", "max_tokens": 20, "stream": True}
            with http.stream("POST", "/v1/completions", json=body) as leaves:
                assert leaves.is_success or leaves.status_code == 200
        assert start + rest_of(stream)[0] == echoed("first ", 1500)
        assert [result() for result in waiting] == [echoed(f"{n}.", 20) for n in range(5)]
        world.wait_for(OPEN, 0)
        world.wait_for(WAITING, 0)
        world.wait_for('medley_gateway_instance_running{instance="e1"}', 0)
        assert "Traceback" not in world.gateway_log
    finally:
        world.stop()


def test_an_instance_that_dies_is_replaced_in_the_middle_of_answers_of_two_legs(tmp_path: Path) -> None:
    world = slack_world(tmp_path, *SLOW, p1=PREFILL, p2=PREFILL, d1=DECODE, d2=DECODE)
    try:
        streams = [stream_of(world, f"{n} of two legs ", 600) for n in range(6)]
        begun = [first_text(stream) for stream in streams]
        world.echoes["d1"].stop(signal.SIGKILL)
        world.echoes["p1"].stop(signal.SIGKILL)
        for n, (start, stream) in enumerate(zip(begun, streams, strict=True)):
            assert start + rest_of(stream)[0] == echoed(f"{n} of two legs ", 600)
        for name in ("p2", "d2"):
            world.wait_for(f'medley_gateway_instance_running{{instance="{name}"}}', 0)
        assert "Traceback" not in world.gateway_log
    finally:
        world.stop()

"""Two gateways in front of the same instances: the end of one is nobody's affair but its own clients'."""

import signal
from pathlib import Path

import httpx
import openai
import pytest

from tests.control.gateway.test_failures import SLOW, echoed, first_text, rest_of, stream_of
from tests.control.gateway.world import Process, world_of

PROMPT = "0123456789 abcdefghijklmnop "


def test_killing_one_of_two_gateways_breaks_only_its_own_streams_and_they_may_be_asked_again(tmp_path: Path) -> None:
    with world_of(tmp_path, {"e1": SLOW, "e2": SLOW}) as world:
        first = world.gateway
        assert first is not None
        files = ["--table", str(tmp_path / "table.json"), "--key", str(tmp_path / "gateway.key")]
        world.gateway = Process("control.gateway", ["--port", "0", *files], tmp_path / "second.log")
        second = world.gateway
        try:
            world.wait_ready()
            of_second = [stream_of(world, f"{n} {PROMPT}", 700) for n in range(4)]
            world.gateway = first
            of_first = [stream_of(world, f"{n} {PROMPT}", 15_000) for n in range(4)]
            begun = [first_text(stream) for stream in of_second]
            for stream in of_first:
                first_text(stream)

            first.stop(signal.SIGKILL)
            for stream in of_first:  # the client's own error for a connection that broke: it may ask again
                with pytest.raises((openai.APIConnectionError, httpx.TransportError)):
                    rest_of(stream)
            for n, (start, stream) in enumerate(zip(begun, of_second, strict=True)):
                text, reason, tokens = rest_of(stream)
                assert start + text == echoed(f"{n} {PROMPT}", 700)
                assert (reason, tokens) == ("length", 700)

            world.gateway = second
            again = stream_of(world, PROMPT, 50)
            assert first_text(again) + rest_of(again)[0] == echoed(PROMPT, 50)
            for name in world.echoes:  # nothing of the dead gateway is still being computed
                world.wait_for(f'medley_gateway_instance_running{{instance="{name}"}}', 0.0)
        finally:
            first.stop(signal.SIGKILL)
            world.gateway = second

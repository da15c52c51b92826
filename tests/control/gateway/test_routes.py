"""Requests over routes of any shape: a real gateway before real echo schedulers, some of them killed under load."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.messages.to_scheduler import Leg
from control.gateway.leg_parts import leg_parts
from policies.routing_table import RoutedInstance, RoutedLeg, RoutedModel, RoutedRoute
from templates_lib.values.work import Edge, Unit
from tests.control.gateway.test_failures import echoed, first_text, rest_of, stream_of
from tests.control.gateway.world import MODEL, World

IMAGE = RoutedLeg(f"{MODEL}/image", Unit.IMAGE_TOKEN, 1.0)
AUDIO = RoutedLeg(f"{MODEL}/audio", Unit.INVOCATION, 1.0)
PREFILL = RoutedLeg(f"{MODEL}/prefill", Unit.PROMPT_TOKEN, 1.0)
DECODE = RoutedLeg(f"{MODEL}/decode", Unit.OUTPUT_TOKEN, 1.0)
CHAIN = RoutedRoute("chain", (IMAGE, PREFILL, DECODE), (Edge(0, 1, 1.0), Edge(1, 2, 1.0)))
JOIN = RoutedRoute("join", (IMAGE, AUDIO, DECODE), (Edge(0, 2, 1.0), Edge(1, 2, 1.0)))
SLOW, TOKENS = ("--step-s", "0.002"), 1500
"""An answer takes seconds."""


def test_a_route_says_what_each_of_its_legs_has_to_do() -> None:
    image, prefill, decode = leg_parts(CHAIN)
    assert (image.leg, image.peer, image.sends_to) == (Leg.WHOLE, None, ((1, 0),))
    assert (prefill.leg, prefill.peer, prefill.receives_from) == (Leg.PREFILL, (2, 1), ((0, 0),))
    assert (decode.leg, decode.peer, decode.sends_to) == (Leg.DECODE, (1, 1), ())
    *encoders, answer = leg_parts(JOIN)
    assert [part.sends_to for part in encoders] == [((2, 0),), ((2, 1),)]
    assert (answer.leg, answer.peer, answer.receives_from) == (Leg.WHOLE, None, ((0, 0), (1, 1)))


@pytest.mark.parametrize("route", [CHAIN, JOIN], ids=lambda route: route.id)
def test_no_request_is_lost_when_a_member_of_each_leg_is_killed(tmp_path: Path, route: RoutedRoute) -> None:
    world = World(tmp_path)
    members = [
        RoutedInstance(f"u{n}/{k}", "z", {leg.work_class: 1e9}) for k, leg in enumerate(route.legs) for n in (1, 2)
    ]
    try:
        for n in (1, 2):
            for k in range(len(route.legs)):
                (tmp_path / f"u{n}").mkdir(exist_ok=True)
                world.echo(f"u{n}/{k}", *SLOW)
        world.model = {"routing": RoutedModel(MODEL, (route,), tuple(members))}
        world.publish()
        world.start_gateway()
        world.wait_ready()
        prompts = [f"{n} of a route " for n in range(8)]
        streams = [stream_of(world, prompt, TOKENS) for prompt in prompts]
        begun = [first_text(stream) for stream in streams]
        for k in reversed(range(len(route.legs))):  # those that answer first: their requests are under way
            world.echoes[f"u1/{k}"].stop(signal.SIGKILL)
        with ThreadPoolExecutor(8) as pool:
            later = [pool.submit(lambda p: rest_of(stream_of(world, p, 50))[0], prompt) for prompt in prompts]
            for prompt, start, stream in zip(prompts, begun, streams, strict=True):
                assert start + rest_of(stream)[0] == echoed(prompt, TOKENS)
            assert [future.result() for future in later] == [echoed(prompt, 50) for prompt in prompts]
        metrics = world.metrics()
        assert metrics[f'medley_gateway_resumptions_total{{cause="lost",model="{MODEL}"}}'] >= 1
        for k in range(len(route.legs)):
            world.wait_for(f'medley_gateway_instance_running{{instance="u2/{k}"}}', 0)
        assert "Traceback" not in world.gateway_log
    finally:
        world.stop()

"""Simulated instances take as long to start as their plans say."""

from dataclasses import replace

from control.simulator.simulated_timings import SimulatedTimings
from tests import factories as make


def test_an_instance_waits_for_the_installation_of_its_own_engine() -> None:
    timings = SimulatedTimings((60.0, 60.0), {}, 1, {"vllm": 180.0})
    loading = make.running("t", [make.offer("L4:1/n10", "aws/a", 1.0)], state="loading")
    wanted = make.target("t", 1, {"L4:1/n10": 1}, {}, 1.0)
    took = {}
    for engine in ("torch", "vllm"):
        said = timings.next_event(loading, replace(wanted, template=replace(wanted.template, engine=engine)))
        assert said is not None
        took[engine] = said[1]
    assert took == {"torch": 60.0, "vllm": 240.0}

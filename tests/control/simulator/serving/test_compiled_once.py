"""Compiling the simulation takes a minute: nothing that a user may write has it compiled once more."""

from dataclasses import fields, replace

import numpy as np

from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.kernel.run import run
from control.simulator.serving.requests import Requests
from control.simulator.serving.settings import ServingSettings
from control.simulator.serving.simulate import simulate


def test_whole_numbers_of_seconds_are_simulated_by_what_was_compiled_for_fractions() -> None:
    none, settings = np.empty(0, np.int32), ServingSettings()
    whole = replace(settings, **{each.name: int(getattr(settings, each.name)) for each in fields(settings)})
    found = set()
    for length_s, given in ((1.0, settings), (2, whole)):
        fleet = FleetTimeline((), ((0.0, ()),), length_s, {})
        simulate(Requests((), none, np.empty(0), none, none), fleet, replace(given, use_interval_s=1))
        found.add(len(run.signatures))  # type: ignore[attr-defined]
    assert found == {1}

"""A wall-clock limit is opt-in; one that is too short for any plan is the user's to raise, not a bug."""

from dataclasses import replace

import pytest

from control.allocator import solve
from tests.control.explain.explained_worlds import scarce_world


def test_no_plan_in_no_time_says_what_to_raise() -> None:
    world = scarce_world(0)
    settings = world.snapshot.settings
    hurried = replace(settings, limits=replace(settings.limits, wall_clock_s=1e-9))
    with pytest.raises(ValueError, match=r"within solver\.wall_clock_s = 1e-09: allow more"):
        solve(replace(world.snapshot, settings=hurried), world.library)

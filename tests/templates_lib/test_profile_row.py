"""What a step takes, of the blocks in which it was repeated."""

from dataclasses import replace

import pytest

from templates_lib.values.profile_row import ProfileBlock, ProfileRow, rows_of

STEP = ProfileRow(6, False, False, 0, 0.0, 8, 127.0, 0.0, False)
OTHER = replace(STEP, decode_requests=16)


def block(step: ProfileRow, wall_s: float, cpu_s: float) -> ProfileBlock:
    return ProfileBlock(replace(step, seconds=wall_s), cpu_s)


@pytest.mark.parametrize(("cores", "seconds"), [(2.0, 0.5), (1.0, 0.1), (0.5, 0.2), (0.1, 0.5)])
def test_what_others_take_of_a_nodes_quota_does_not_count(cores: float, seconds: float) -> None:
    (row,) = rows_of([block(STEP, 0.5, 0.1)], cores)
    assert row == replace(STEP, seconds=pytest.approx(seconds))


def test_blocks_of_steps_in_turns_are_a_row_for_each_step_in_their_order() -> None:
    blocks = [block(STEP, 0.1, 0.05), block(OTHER, 0.3, 0.15), block(STEP, 0.2, 0.10), block(OTHER, 0.5, 0.25)]
    assert rows_of(blocks, 0.5) == (
        replace(STEP, seconds=pytest.approx(0.15)),
        replace(OTHER, seconds=pytest.approx(0.4)),
    )


def test_the_clock_and_the_quota_are_compared_over_all_blocks_and_not_in_each() -> None:
    """A block ends anywhere in a period of the quota, so its time on the clock is sometimes too short."""
    blocks = [block(STEP, 0.18, 0.1), block(STEP, 0.22, 0.1)]
    assert rows_of(blocks, 0.5) == (replace(STEP, seconds=pytest.approx(0.2)),)

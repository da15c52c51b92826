"""How often what executes a run may be lost."""

from control.runs.losses import Losses

MOST_CRASHES, MOST_KILLS, MOST_PAUSE_S = 2, 5, 1.0


def lost(kills: int = 0, crashes: int = 0, outcomes: int = 0) -> Losses:
    losses = Losses(0, 0)
    for _ in range(kills):
        losses.add(outcomes, "signal 9", was_killed=True)
    for _ in range(crashes):
        losses.add(outcomes, "exit code 3", was_killed=False)
    return losses


def are_enough(losses: Losses) -> bool:
    return bool(losses.are_enough(MOST_CRASHES, MOST_KILLS))


def test_kills_and_ends_of_its_own_are_counted_apart() -> None:
    assert not are_enough(lost(MOST_KILLS, MOST_CRASHES))
    assert are_enough(lost(MOST_KILLS + 1))
    assert are_enough(lost(crashes=MOST_CRASHES + 1))
    assert are_enough(Losses(MOST_KILLS + 1, 0))  # orchestrators that were lost before


def test_what_comes_of_the_run_is_a_new_beginning() -> None:
    losses = lost(MOST_KILLS, MOST_CRASHES)
    losses.add(1, "signal 9", was_killed=True)
    assert (losses.kills, losses.crashes) == (1, 0)
    assert losses.pause_s(MOST_PAUSE_S) == 0


def test_pauses_grow_with_kills_alone_up_to_the_longest() -> None:
    pauses = [lost(kills).pause_s(MOST_PAUSE_S) for kills in range(300)]
    assert pauses[:2] == [0, 0]
    assert sorted(pauses) == pauses
    assert 0 < pauses[2] < pauses[3] < pauses[-1] == MOST_PAUSE_S
    assert lost(crashes=9).pause_s(MOST_PAUSE_S) == Losses(9, 0).pause_s(MOST_PAUSE_S) == 0

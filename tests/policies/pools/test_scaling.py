import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.pools.lateness import ATTAINED_S, FORGOTTEN_S, Answers
from policies.pools.scaling import PoolScaler, PoolSize, Pulse, Scaling
from policies.pools.scaling_settings import ScalingSettings
from policies.pools.sizing import ImageHistory, replicas, start_sizes

CAPACITY, PULSE_S = 100.0, 10.0


class Pool:
    """A pool whose changes take effect at once."""

    def __init__(self, planned: int, asleep: int, settings: ScalingSettings | None = None) -> None:
        self.scaler = PoolScaler(CAPACITY, settings or ScalingSettings())
        self.planned, self.asleep, self.awake, self.rented, self.now_s = planned, asleep, 0, 0, 0.0

    @property
    def members(self) -> int:
        return self.planned + self.awake + self.rented

    def pulse(self, load: float, pending: float = 0.0, answers: Answers | None = None, starting: int = 0) -> Scaling:
        self.now_s += PULSE_S
        size = PoolSize(self.planned, self.awake, self.asleep, self.rented, starting)
        change = self.scaler.decide(self.now_s, Pulse(load, pending, answers or Answers()), size)
        assert change.wake <= self.asleep
        assert change.release <= self.rented
        assert change.sleep <= self.awake
        assert min(change.wake, change.sleep, change.rent, change.release) >= 0
        assert not ((change.wake or change.rent) and (change.sleep or change.release))
        assert bool(change.why) == bool(change.wake or change.rent or change.sleep or change.release)
        self.asleep += change.sleep - change.wake
        self.awake += change.wake - change.sleep
        self.rented += change.rent - change.release
        return change


PULSES = st.lists(
    st.tuples(
        st.floats(0, 5000),
        st.floats(0, 20_000),
        st.builds(lambda kept, late: Answers(kept + late, kept), st.integers(0, 500), st.integers(0, 50)),
    ),
    max_size=80,
)


@given(st.integers(1, 10), st.integers(0, 5), st.integers(0, 20), PULSES)
def test_a_pool_stays_between_its_plan_and_its_limit(
    planned: int, asleep: int, most: int, pulses: list[tuple[float, float, Answers]]
) -> None:
    pool = Pool(planned, asleep, ScalingSettings(most_rented=most))
    for load, pending, answers in pulses:
        pool.pulse(load, pending, answers)
        assert pool.members >= planned
        assert pool.rented <= most
        enough = pool.members * CAPACITY >= load + pending / 10 - 1e-6
        assert enough or (pool.rented == most and not pool.asleep)


def test_held_members_wake_before_anything_is_rented_and_what_is_rented_goes_first() -> None:
    pool = Pool(2, 3)
    assert pool.pulse(390).wake == 2
    change = pool.pulse(800)
    assert (change.wake, change.rent) == (1, 3)
    for _ in range(19):
        change = pool.pulse(150)
    assert (change.release, change.sleep) == (3, 3)
    assert pool.members == 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("load", [130.0, 480.0, 1000.0, 3210.0])
def test_noise_of_a_fifth_makes_a_pool_neither_shrink_nor_grow_again(load: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    grown, shrunk = Pool(1, 0), Pool(1, 0)
    shrunk.rented = 60
    for _ in range(360):
        noisy = load * (1 + draw.uniform(-0.2, 0.2))
        assert not grown.pulse(noisy).release
        assert not shrunk.pulse(noisy).rent
    assert load / CAPACITY <= shrunk.members <= 1.44 * load / CAPACITY + 1


def test_a_burst_is_served_at_once_and_given_back_within_five_minutes() -> None:
    pool = Pool(2, 0)
    for _ in range(30):
        pool.pulse(150)
    assert pool.members == 2
    pool.pulse(1200)
    assert pool.members == 12
    for _ in range(5):
        pool.pulse(1200)
    for _ in range(int(300 / PULSE_S)):
        pool.pulse(150)
    assert pool.members == 2


def test_answers_that_are_late_ask_for_one_more_once_all_there_is_has_served_for_as_long() -> None:
    pool, late = Pool(3, 0), Answers(1000, 960)
    assert pool.pulse(200, answers=Answers(1000, 995)).rent == 0
    assert pool.pulse(200, answers=late).rent == 1
    assert pool.pulse(200, answers=late, starting=1).rent == 0
    for _ in range(int(ATTAINED_S / PULSE_S) - 1):
        assert pool.pulse(200, answers=late).rent == 0, "these may be of before"
    assert pool.pulse(200, answers=late).rent == 1
    assert pool.pulse(200).rent == 0


@pytest.mark.parametrize(("load", "most"), [(1, 4), (100, 4), (300, 12)])
def test_delays_that_more_members_do_not_end_do_not_have_a_pool_grow_for_ever(load: float, most: int) -> None:
    pool = Pool(1, 0)
    for _ in range(int(0.9 * FORGOTTEN_S / PULSE_S)):
        pool.pulse(load, answers=Answers(1000, 900))
    assert pool.members == most
    late = Pool(most + 1, 0)
    assert late.pulse(load, answers=Answers(1000, 900)) == Scaling(), "it has more than would help"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("load", [65.0, 130.0, 480.0])
def test_a_pool_that_is_slower_than_certified_grows_until_it_is_in_time_and_stays_so(load: float, seed: int) -> None:
    """Members serve six tenths of what they should in time. With noise of a fifth the tokens alone ask for fewer again
    each time that all are in time."""
    draw, pool = np.random.default_rng(seed), Pool(1, 0)
    before = Answers(1000, 1000)
    for _ in range(340):
        noisy = load * (1 + draw.uniform(-0.2, 0.2))
        assert not pool.pulse(noisy, answers=before).release
        before = Answers(1000, 1000 if noisy <= 0.6 * CAPACITY * pool.members else 900)
    assert 0.8 * load <= 0.6 * CAPACITY * pool.members
    assert pool.members <= 1.2 * load / (0.6 * CAPACITY) + 2
    for _ in range(int(300 / PULSE_S)):
        pool.pulse(load / 4, answers=Answers(1000, 1000))
    assert pool.members <= load / 4 / (0.5 * CAPACITY) + 1, "much less needs no more than it ever did"


def test_delays_of_what_a_burst_has_left_ask_for_nothing_once_that_is_done() -> None:
    pool = Pool(2, 0)
    for load, answers in [(150, (1000, 1000))] * 20 + [(1200, (1000, 900))] * 6 + [(150, (1000, 900))] * 12:
        pool.pulse(load, answers=Answers(*answers))
    assert pool.members >= 12
    for _ in range(int(300 / PULSE_S)):
        pool.pulse(150, answers=Answers(1000, 1000))
    assert pool.members == 2


@given(st.floats(0.1, 1000), st.floats(0.001, 10), st.floats(0.1, 20))
def test_start_sizes_are_those_of_the_paper(images_per_s: float, encode_s: float, images: float) -> None:
    encoders, texts = start_sizes(ImageHistory(images_per_s, encode_s, images))
    assert encoders - 1 <= max(images_per_s * encode_s, 0) <= encoders + 1e-6
    assert texts == max(1, replicas(encoders, images))


def test_a_pool_without_a_rate_has_no_start_size() -> None:
    with pytest.raises(ValueError, match="above 0"):
        start_sizes(ImageHistory(0.0, 1.0, 1.0))

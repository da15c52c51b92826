"""Prefill legs in lanes: who goes when, to which node, and what is left of those that go."""

from collections import Counter

from agents.messages.to_gateway import Failure
from agents.messages.to_scheduler import Leg, OtherLeg
from agents.scheduler.core import SchedulerCore
from agents.scheduler.layout import NodeLimits, PipelineLayout
from agents.scheduler.orders import GroupStep
from tests.agents.scheduler.fake_stages import FakeStages, asked, layout


def stages(shape: PipelineLayout) -> FakeStages:
    return FakeStages(SchedulerCore(shape, 1000), shape)


def submit(at: FakeStages, attempt: int, tokens: int, leg: Leg = Leg.PREFILL) -> None:
    peer = None if leg is Leg.WHOLE else OtherLeg("other", "tcp://other:1", "k" * 40, f"h{attempt}")
    prompt = tuple(range(attempt, attempt + tokens))
    at.hear(at.core.submit("gw", asked(attempt, prompt, leg=leg, peer=peer), 0.0))


def steps_of(at: FakeStages) -> list[GroupStep]:
    return [step for step, _ in at.flights.values()]


def test_prompts_go_at_once_where_a_group_would_have_them_wait_to_come_round() -> None:
    at = stages(layout((1.0,), (1.0,)))
    for attempt in range(6):
        submit(at, attempt, 8)
        at.order()
    assert len(at.flights) == 4, "two for each node: one that it computes, one that is next"
    assert at.core.status.waiting == 2


def test_short_prompts_share_a_step_as_far_as_chunk_and_batch_cap_go() -> None:
    at = stages(layout((1.0,), chunk=10, cap=3))
    for attempt, tokens in enumerate([8, 8, 2, 2, 2, 2, 4, 4]):
        submit(at, attempt, tokens)
    at.order()
    assert [len(step.entries) for step in steps_of(at)] == [2, 2]
    at.report(1)
    at.order()
    assert [len(entry.token_ids) for entry in at.flights[3][0].entries] == [2, 2, 4]
    at.report(2)
    at.order()
    assert [len(entry.token_ids) for entry in at.flights[4][0].entries] == [4]


def test_prompts_that_come_together_fill_a_step_before_another_lane_is_begun() -> None:
    at = stages(layout((1.0,), (1.0,), chunk=20))
    for attempt in range(5):
        submit(at, attempt, 8)
    at.order()
    assert [len(step.entries) for step in steps_of(at)] == [3, 2]
    submit(at, 5, 2)
    at.order()
    assert [len(step.entries) for step in steps_of(at)] == [3, 2, 1], "a step that has begun takes no more"


def test_a_prompt_that_fills_no_step_with_others_leaves_room_in_theirs() -> None:
    at = stages(layout((1.0,), (1.0,), chunk=20, blocks=1000))
    for attempt, tokens in enumerate([8, 40, 8]):
        submit(at, attempt, tokens)
    at.order()
    assert [[entry.run for entry in step.entries] for step in steps_of(at)] == [[1, 3], [2]]


def test_as_many_prompts_share_a_step_as_come_nearest_to_the_chunk() -> None:
    at = stages(layout((1.0,), chunk=10, blocks=1000))
    for attempt in range(20):
        submit(at, attempt, 4)
    at.run_dry()
    counts = []
    at.on_step = lambda step: counts.append(len(step.entries))
    for attempt in range(20, 60):
        submit(at, attempt, 6)
    at.run_dry()
    # 6 + 6 is nearer to 10 than 6 is; of 4 tokens there would be two.
    assert counts == [2] * 20
    assert sorted(at.tokens) == list(range(60)), "each had its token after the one step it went in"


def test_peers_take_prompts_of_one_step_each_as_far_as_its_own_chunk_goes() -> None:
    nodes = (NodeLimits("large", 2.0, 32, 20, 1000), NodeLimits("small", 1.0, 32, 10, 1000))
    shape = PipelineLayout("m", (nodes, (NodeLimits("next", 1.0, 32, 100, 1000),)), 4, 200, 1000)
    at = stages(shape)
    steps = []
    at.on_step = lambda step: steps.append(sorted(entry.nodes[0] for entry in step.entries))
    for attempt in range(90):
        submit(at, attempt, 10)
    at.run_dry()
    # Two fill the larger one and one the smaller, and all of them go on together, in every step.
    assert Counter(map(tuple, steps)).most_common(1) == [((0, 0, 1), 30)]
    assert sorted(at.tokens) == list(range(90))


def test_a_slow_peer_with_room_does_not_keep_a_step_that_a_fast_one_has_filled() -> None:
    nodes = (NodeLimits("fast", 3.0, 32, 20, 1000), NodeLimits("slow", 1.0, 32, 20, 1000))
    at = stages(PipelineLayout("m", (nodes,), 4, 200, 1000))
    computed: Counter[int] = Counter()
    at.on_step = lambda step: computed.update(entry.nodes[0] for entry in step.entries)
    for attempt in range(120):
        submit(at, attempt, 10)
    at.run_dry()
    assert 2.5 < computed[0] / computed[1] < 5, "as their weights are, not as their chunks"


def test_a_long_prompt_is_neither_overtaken_nor_held_up_by_short_ones_that_keep_coming() -> None:
    at = stages(layout((1.0,), chunk=8, blocks=1000))
    for attempt in range(10):
        submit(at, attempt, 8)
    submit(at, 10, 40)
    order_of_begin: list[int] = []
    at.on_step = lambda step: order_of_begin.extend(e.run for e in step.entries if e.position == 0)
    reports = 0
    while 10 not in at.tokens:
        submit(at, 100 + reports, 8)
        at.order()
        at.report(min(at.flights))
        reports += 1
    assert order_of_begin == sorted(order_of_begin), "they begin as they came"
    # Ten before it, and with two lanes a step of another between two of its own five.
    assert reports <= 10 + 2 * 5


def test_a_prompt_goes_to_the_node_that_will_have_computed_it_first() -> None:
    at = stages(layout((2.0, 1.0), chunk=100))
    places = []
    at.on_step = lambda step: places.extend(entry.nodes[0] for entry in step.entries)
    for attempt, tokens in enumerate([12, 12, 4, 4]):
        submit(at, attempt, tokens)
        at.order()
    # 12 / 2 before 12 / 1; then 12 / 1 before 24 / 2 would be even, so to the first; 4 to the one with nothing.
    assert places == [0, 0, 1, 1]


def test_a_cancelled_prompt_makes_room_for_others_and_its_late_result_is_ignored() -> None:
    at = stages(layout((1.0, 1.0), chunk=100))
    places = []
    at.on_step = lambda step: places.extend(entry.nodes[0] for entry in step.entries)
    submit(at, 1, 90)
    submit(at, 2, 40)
    at.order()
    at.core.cancel("gw", 1)
    submit(at, 3, 20)
    at.order()
    assert places == [0, 1, 0], "what is not to be computed any more does not count"
    while at.flights:
        at.report(min(at.flights))
    at.order()
    assert sorted(at.tokens) == [2, 3]
    for attempt in (2, 3):
        at.core.cancel("gw", attempt)
    at.order()
    assert at.core.status.kv_blocks_free == at.core.status.kv_blocks
    assert not at.cached


def test_a_lost_stage_fails_the_prompts_in_lanes() -> None:
    at = stages(layout((1.0,), (1.0,)))
    for attempt in range(6):
        submit(at, attempt, 8)
    at.order()
    at.hear(at.core.break_down("stage 1 is gone"))
    assert {n: ended[0].failure for n, ended in at.ended.items()} == dict.fromkeys(range(6), Failure.ENGINE)
    assert at.core.next_orders() == ()


def test_whole_requests_have_their_groups_beside_the_lanes() -> None:
    at = stages(layout((1.0,), (1.0,)))
    for attempt in range(4):
        submit(at, attempt, 8)
    for attempt in range(4, 8):
        submit(at, attempt, 3, Leg.WHOLE)
    at.order()
    assert [len(step.entries) for step in steps_of(at)] == [2, 2, 1, 1, 1, 1]


def test_a_place_is_an_idle_lane_while_nothing_waits() -> None:
    at, places = stages(layout((1.0,), chunk=60)), []
    for attempt in range(3):
        places.append(at.core.status.places)
        submit(at, attempt, 60)  # none shares a step with another
        assert at.core.status.places == 0
        at.order()
    at.report(1)
    assert places == [2, 1, 0]
    assert at.core.status.places == 0, "the third still waits"
    at.order()
    at.report(2)
    assert at.core.status.places == 1

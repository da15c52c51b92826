"""Whatever comes and goes, in any order: every token once and right, limits kept, nothing left held.

The stages of `fake_stages` check each order: positions, nodes, groups, batch caps, chunks and KV blocks.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import Finished
from agents.scheduler.core import SchedulerCore
from agents.scheduler.layout import NodeLimits, PipelineLayout
from tests.agents.scheduler.fake_stages import BLOCK_TOKENS, FakeStages, asked, continuation


@st.composite
def layouts(draw: st.DrawFn) -> PipelineLayout:
    stages = []
    for stage in range(draw(st.integers(1, 3))):
        nodes = [
            NodeLimits(
                f"{stage}.{node}",
                draw(st.floats(0.1, 1.0)),
                draw(st.integers(1, 4)),
                draw(st.integers(1, 9)),
                draw(st.integers(4, 14)),
            )
            for node in range(draw(st.integers(1, 3)))
        ]
        stages.append(tuple(nodes))
    return PipelineLayout("m", tuple(stages), BLOCK_TOKENS, 60, 1000)


ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 12), st.integers(1, 14), st.integers(0, 3)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("order")),
    st.tuples(st.just("report"), st.integers(0, 3)),
)


@settings(max_examples=300, deadline=None)
@given(layouts(), st.lists(ACTIONS, max_size=60))
def test_every_request_gets_its_tokens_once_and_nothing_stays_held(shape: PipelineLayout, actions: list) -> None:
    at = FakeStages(SchedulerCore(shape, max_waiting=1000), shape)
    prompts: dict[int, tuple[int, ...]] = {}
    wanted: dict[int, list[int]] = {}
    cancelled: set[int] = set()
    for action in actions:
        match action:
            case ("submit", length, max_tokens, resumed):
                attempt = len(wanted)
                prompts[attempt] = tuple(range(attempt, attempt + length))
                wanted[attempt] = continuation(prompts[attempt], max_tokens, (1,))
                sent = wanted[attempt][:resumed]
                at.tokens[attempt] = list(sent)
                request = asked(attempt, prompts[attempt], max_tokens, generated=tuple(sent), stop_ids=(1,))
                at.hear(at.core.submit("gw", request, 0.0))
            case ("cancel", attempt) if attempt in wanted and attempt not in at.ended:
                at.core.cancel("gw", attempt)
                cancelled.add(attempt)
            case ("order",):
                at.order()
            case ("report", place):
                at.report_one(place)
    at.run_dry()
    status = at.core.status
    assert (status.running, status.waiting) == (0, 0)
    assert status.kv_blocks_free == status.kv_blocks
    assert not at.cached
    for attempt, tokens in wanted.items():
        ends = at.ended.get(attempt, [])
        assert len(ends) == (0 if attempt in cancelled else 1)
        if ends and isinstance(ends[0], Finished):
            assert at.tokens[attempt] == tokens
            assert ends[0].output_tokens == len(tokens)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=4), st.integers(1, 40))
def test_a_group_is_split_in_proportion_to_weights(weights: list[float], requests: int) -> None:
    nodes = tuple(NodeLimits(f"n{n}", weight, 100, 10_000, 10_000) for n, weight in enumerate(weights))
    core = SchedulerCore(PipelineLayout("m", (nodes,), BLOCK_TOKENS, 60, 1000), max_waiting=1000)
    for attempt in range(requests):
        core.submit("gw", asked(attempt), 0.0)
    (step,) = core.next_orders()
    counts = [sum(entry.nodes[0] == n for entry in step.entries) for n in range(len(weights))]
    assert sum(counts) == requests
    for count, weight in zip(counts, weights, strict=True):
        for other, other_weight in zip(counts, weights, strict=True):
            assert count / weight <= (other + 1) / other_weight * (1 + 1e-9), "no request would be better elsewhere"

"""A scheduler whose KV blocks become fewer or more while it serves."""

from agents.messages.to_gateway import Finished
from agents.scheduler.core import SchedulerCore
from tests.agents.scheduler.fake_stages import FakeStages, asked, continuation, layout


def stages(blocks: int) -> FakeStages:
    shape = layout((1.0,), blocks=blocks)
    return FakeStages(SchedulerCore(shape, 100), shape)


def test_requests_wait_for_blocks_that_come_later_and_say_how_many() -> None:
    at = stages(64)
    at.core.limit_kv(1)
    prompts = {n: tuple(range(n, n + 20)) for n in (1, 2)}
    for n, prompt in prompts.items():
        at.hear(at.core.submit("gw", asked(n, prompt, 3), 0.0))
    at.run_dry()
    assert (at.core.kv_blocks, at.core.status.kv_blocks) == (1, 1)
    assert at.core.status.waiting == 2
    assert at.core.kv_blocks_wanted > 1
    at.core.limit_kv(40)
    at.run_dry()
    assert at.core.kv_blocks_wanted == 0
    assert {n: at.tokens[n] for n in prompts} == {n: continuation(prompt, 3) for n, prompt in prompts.items()}


def test_a_request_that_cannot_grow_is_counted_and_goes_on_with_more() -> None:
    at, prompt = stages(64), tuple(range(8))
    at.core.limit_kv(2)
    at.hear(at.core.submit("gw", asked(1, prompt, 30), 0.0))
    at.run_dry()
    assert 1 not in at.ended
    assert at.core.kv_blocks_wanted > 0
    at.core.limit_kv(64)
    at.run_dry()
    assert at.tokens[1] == continuation(prompt, 30)


def test_a_lowered_limit_takes_nothing_from_a_request_and_is_reached_as_requests_end() -> None:
    at, prompt = stages(64), tuple(range(40))
    lows = []

    def lower(step: object) -> None:
        del step
        at.core.limit_kv(1)
        lows.append(at.core.kv_blocks)

    at.on_step = lower
    at.hear(at.core.submit("gw", asked(1, prompt, 1), 0.0))
    at.run_dry()
    assert isinstance(at.ended[1][0], Finished)
    assert lows[0] == 64, "not while a step is under way"
    assert min(lows) == 10, "what a request holds stays"
    at.core.next_orders()
    assert at.core.kv_blocks == 1

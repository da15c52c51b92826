"""Two schedulers hand requests over while words are late or lost, requests are cancelled and either side gives up:
every token once and right, no step before the KV cache is there, and nothing left held on either side."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.messages.to_gateway import Failure, Finished, FinishReason
from tests.agents.scheduler.two_cores import TwoCores
from tests.properties.test_scheduler_core import layouts

ACTIONS = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, 12), st.integers(1, 14), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("cancel"), st.integers(0, 10)),
    st.tuples(st.just("order"), st.booleans()),
    st.tuples(st.just("report"), st.booleans(), st.integers(0, 3)),
    st.tuples(st.just("hear"), st.booleans()),
    st.tuples(st.just("deliver"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["reconnect", "strand"])),
    st.tuples(st.just("part"), st.booleans()),
)


@settings(max_examples=600, deadline=None)
@given(layouts(), layouts(), st.booleans(), st.booleans(), st.lists(ACTIONS, max_size=80))
def test_every_request_gets_its_tokens_once_and_neither_side_holds_anything(
    prefill, decode, streams_kv: bool, hears_early: bool, actions: list
) -> None:
    at = TwoCores(prefill, decode, streams_kv, hears_early)
    for name, *arguments in actions:
        getattr(at, name)(*arguments)
    at.run_dry()
    for side in (at.prefill, at.decode):
        status = side.core.status
        assert (status.running, status.waiting) == (0, 0)
        assert status.kv_blocks_free == status.kv_blocks
        assert not side.cached
        assert not side.coming
        assert not side.core.deals_with("p" * 40)
        assert not side.core.deals_with("d" * 40)
    for attempt, tokens in at.wanted.items():
        got = at.prefill.tokens[attempt]
        assert got == tokens[: len(got)]
        if attempt not in at.stopped:
            assert got == tokens
            ends = [*at.prefill.ended.get(attempt, []), *at.decode.ended.get(attempt, [])]
            finals = [end for end in ends if end.reason is not FinishReason.HANDED_OFF]
            assert all(isinstance(end, Finished) for end in ends)
            assert [end.output_tokens for end in finals[:1]] == [len(tokens)]


@settings(max_examples=100, deadline=None)
@given(layouts(), layouts(), st.booleans(), st.lists(st.tuples(st.integers(1, 12), st.integers(1, 14)), max_size=12))
def test_without_failures_everything_is_handed_over_and_finished(
    prefill, decode, streams_kv: bool, requests: list
) -> None:
    at = TwoCores(prefill, decode, streams_kv)
    for n, (length, max_tokens) in enumerate(requests):
        at.submit(length, max_tokens, 0, decode_first=bool(n % 2))
    at.run_dry()
    for attempt, tokens in at.wanted.items():
        ends = [*at.prefill.ended.get(attempt, []), *at.decode.ended.get(attempt, [])]
        if attempt in at.stopped:
            assert {end.failure for end in ends} == {Failure.TOO_LONG}
        else:
            assert at.prefill.tokens[attempt] == tokens
            if len(tokens) > 1:
                # It may be over before the prefill side hears that its cache is taken: then that side says nothing.
                handed = {end.reason for end in at.prefill.ended.get(attempt, [])}
                assert handed <= {FinishReason.HANDED_OFF}
                assert [end.output_tokens for end in at.decode.ended[attempt]] == [len(tokens)]

"""Messages survive the wire as they are; what breaks a bound does not get through."""

import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.messages.bounds import MAX_TOKENS
from agents.messages.component_work import Encode, PromptRows, TensorAt
from agents.messages.session import NEWEST_PROTOCOL, OLDEST_PROTOCOL, Hello, Ping, Refused, Welcome, common_protocol
from agents.messages.to_gateway import (
    Failed,
    Failure,
    Finished,
    FinishReason,
    NodeStats,
    SchedulerState,
    Stats,
    Status,
    ToGateway,
    TokenLogprobs,
    TokenRun,
    Tokens,
    WorkDone,
)
from agents.messages.to_scheduler import (
    AskStats,
    AskStatus,
    Cancel,
    Drain,
    Generate,
    Leg,
    LogitRules,
    OtherLeg,
    Sampling,
    ToScheduler,
)
from agents.messages.to_sidecar import SidecarAddress
from agents.messages.wire import Decoder, MalformedMessageError, encode

ids = st.lists(st.integers(0, (1 << 24) - 1), max_size=20).map(tuple)
attempts = st.integers(0, (1 << 53) - 1)
names = st.text(min_size=1, max_size=64)
logprobs = st.floats(-1e6, 0)
penalties = st.floats(-2, 2)
rules = st.builds(
    LogitRules,
    penalties,
    penalties,
    st.floats(0.01, 100),
    st.floats(0, 1),
    st.lists(st.tuples(st.integers(0, 1000), st.floats(-100, 100)), max_size=5).map(tuple),
    st.lists(st.integers(0, 1000), max_size=5).map(tuple),
    st.integers(0, MAX_TOKENS),
)
samplings = st.builds(
    Sampling,
    st.floats(0, 100),
    st.floats(0.01, 1),
    st.integers(0, 1000),
    st.integers(0, (1 << 62) - 1),
    st.none() | st.integers(0, 20),
    st.none() | rules,
)
others = st.builds(OtherLeg, names, st.just("tcp://h:1"), st.just("k" * 40), names)
tensors = st.builds(
    TensorAt,
    st.from_regex(r"[A-Za-z0-9_.:\-]{1,200}", fullmatch=True),
    st.none() | st.builds(SidecarAddress, names, st.integers(1, 65535), st.binary(min_size=32, max_size=32)),
)
grids = st.none() | st.tuples(*[st.integers(1, 1 << 16)] * 3)
given_rows = st.builds(PromptRows, tensors, st.integers(1, MAX_TOKENS), st.none() | st.integers(0, MAX_TOKENS), grids)
to_scheduler = st.one_of(
    st.builds(
        Generate,
        attempts,
        names,
        names,
        ids,
        ids,
        st.integers(0, MAX_TOKENS),
        ids,
        samplings,
        st.floats(0, 1000),
        st.sampled_from(Leg),
        st.none() | others,
        st.just(""),
        st.just("") | names,
        st.lists(others, max_size=3).map(tuple),
        st.lists(others, max_size=3).map(tuple),
        st.just("") | names,
        st.lists(given_rows, max_size=3).map(tuple),
    ),
    st.builds(Encode, attempts, names, names, names, tensors, st.just("rows"), st.floats(0.1, 3600), grids),
    st.builds(Cancel, attempts),
    st.just(Drain()),
    st.just(AskStatus()),
    st.just(AskStats()),
)
alternatives = st.lists(st.tuples(st.integers(0, 1000), logprobs), max_size=20).map(tuple)
runs = st.builds(
    TokenRun,
    attempts,
    st.integers(0, MAX_TOKENS),
    ids,
    st.lists(st.builds(TokenLogprobs, logprobs, alternatives), max_size=5).map(tuple),
)
counts = st.integers(0, (1 << 48) - 1)
statuses = st.builds(
    Status,
    st.sampled_from(SchedulerState),
    counts,
    counts,
    counts,
    counts,
    st.none() | st.just("tcp://h:1"),
    takes_rows=counts,
    prompt_tokens_free=st.none() | counts,
)
nodes = st.builds(NodeStats, names, st.floats(0, 1e9))
to_gateway = st.one_of(
    st.builds(Tokens, st.lists(runs, max_size=5).map(tuple)),
    st.builds(Finished, attempts, st.sampled_from(FinishReason), st.integers(0, MAX_TOKENS)),
    st.builds(Failed, attempts, st.sampled_from(Failure), st.text(max_size=100)),
    statuses,
    st.builds(
        Stats,
        statuses,
        counts,
        st.dictionaries(st.sampled_from(FinishReason), counts),
        st.dictionaries(st.sampled_from(Failure), counts),
        st.builds(WorkDone, counts, counts, counts, counts, st.lists(nodes, max_size=3).map(tuple)),
    ),
)


@given(to_scheduler)
def test_what_a_scheduler_is_sent_arrives_as_it_is(message: msgspec.Struct):
    assert Decoder(ToScheduler).decode(encode(message)) == message


@given(to_gateway)
def test_what_a_gateway_is_sent_arrives_as_it_is(message: msgspec.Struct):
    assert Decoder(ToGateway).decode(encode(message)) == message


@given(st.binary(max_size=200))
def test_garbage_is_malformed_and_nothing_else(payload: bytes):
    for receives in (ToScheduler, ToGateway):
        try:
            message = Decoder(receives).decode(payload)
        except MalformedMessageError:
            continue
        assert isinstance(message, msgspec.Struct)


SAMPLING = Sampling(1.0, 1.0, 0, 1)


@pytest.mark.parametrize(
    "message",
    [
        Generate(1, "r" * 300, "m", (1,), (), 1, (), SAMPLING, 1.0),
        Generate(1, "r", "m", (1 << 24,), (), 1, (), SAMPLING, 1.0),
        Generate(1, "r", "m", (-1,), (), 1, (), SAMPLING, 1.0),
        Generate(1, "r", "m", (1,), (), MAX_TOKENS + 1, (), SAMPLING, 1.0),
        Generate(1, "r", "m", (1,), (), 1, tuple(range(65)), SAMPLING, 1.0),
        Generate(1, "r", "m", (1,), (), 1, (), Sampling(-1.0, 1.0, 0, 1), 1.0),
        Generate(1, "r", "m", (1,), (), 1, (), msgspec.structs.replace(SAMPLING, rules=LogitRules(2.1)), 1.0),
        Generate(1, "r", "m", (1,), (), 1, (), msgspec.structs.replace(SAMPLING, rules=LogitRules(min_p=1.5)), 1.0),
        Generate(
            1,
            "r",
            "m",
            (1,),
            (),
            1,
            (),
            msgspec.structs.replace(SAMPLING, rules=LogitRules(bias=((1, 0.0),) * 1025)),
            1.0,
        ),
        Generate(1, "r", "m", (1,), (), 1, (), SAMPLING, -1.0),
        Generate(1, "r", "m", ("a",), (), 1, (), SAMPLING, 1.0),
        Cancel(-1),
        Cancel(1 << 53),
        Refused("protocol", "x" * 5000),
    ],
)
def test_a_bound_that_is_broken_is_malformed(message: msgspec.Struct):
    with pytest.raises(MalformedMessageError):
        Decoder(ToScheduler).decode(encode(message))


def test_a_receiver_takes_only_what_is_meant_for_it():
    with pytest.raises(MalformedMessageError):
        Decoder(ToGateway).decode(encode(Cancel(1)))
    with pytest.raises(MalformedMessageError):
        Decoder(ToScheduler).decode(encode(Finished(1, FinishReason.STOP, 1)))


def test_session_messages_reach_every_receiver_and_pickles_none():
    for receives in (ToScheduler, ToGateway):
        for message in (Hello(1, 1, "gateway"), Welcome(1), Ping()):
            assert Decoder(receives).decode(encode(message)) == message
        with pytest.raises(MalformedMessageError):
            Decoder(receives).decode(pickle.dumps(["ping"]))


def test_a_field_added_at_the_end_by_a_newer_peer_is_ignored():
    newer = msgspec.msgpack.encode(["finished", 3, "stop", 17, 0, b"", "new field"])
    assert Decoder(ToGateway).decode(newer) == Finished(3, FinishReason.STOP, 17)


@given(st.integers(0, 5), st.integers(0, 5))
def test_the_protocol_is_the_newest_that_both_speak(a: int, b: int):
    hello = Hello(max(a, b), min(a, b), "agent")
    common = common_protocol(hello)
    shared = set(range(hello.oldest, hello.newest + 1)) & set(range(OLDEST_PROTOCOL, NEWEST_PROTOCOL + 1))
    assert common == (max(shared) if shared else None)


def test_the_next_step_after_a_failure_is_part_of_its_type():
    assert {f for f in Failure if not f.is_retryable} == {Failure.DEADLINE, Failure.TOO_LONG, Failure.UNSUPPORTED}


class FormerGenerate(msgspec.Struct, frozen=True, array_like=True, tag="generate"):
    """Of the release before."""

    attempt: int
    request: str
    model: str
    prompt: tuple[int, ...]
    generated: tuple[int, ...]
    max_tokens: int
    stop_ids: tuple[int, ...]
    sampling: Sampling
    deadline_s: float
    leg: Leg = Leg.WHOLE
    peer: OtherLeg | None = None
    trace: str = ""


def test_requests_for_text_are_understood_between_a_release_and_the_one_before():
    peer = OtherLeg("d1", "tcp://h:1", "k" * 40, "secret")
    old = (7, "req-1", "m", (1, 2), (3,), 9, (4,), Sampling(0.0, 1.0, 0, 0), 5.0, Leg.PREFILL, peer, "")
    new = Generate(*old, work_class="m/prefill")
    assert Decoder(FormerGenerate).decode(encode(new)) == FormerGenerate(*old)
    assert Decoder(ToScheduler).decode(encode(FormerGenerate(*old))) == Generate(*old)

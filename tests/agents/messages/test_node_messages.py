"""What a hub and a node agent say to each other survives the wire; what breaks a bound does not get through."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.messages.bounds import MAX_TOKENS
from agents.messages.to_gateway import SchedulerState, Status
from agents.messages.to_hub import ReportOfOne, SchedulerReport, StageReport, ToHub
from agents.messages.to_node import RunScheduler, RunStage, Share, ToNode, WorkOfOne
from agents.messages.to_stage import MAX_PEERS
from agents.messages.wire import Decoder, MalformedMessageError, encode
from templates_lib.values.engines import stage_engines

KEY = "k" * 40
HERE = "tcp://127.0.0.1:5000"
counts = st.integers(0, (1 << 48) - 1)
names = st.text(min_size=1, max_size=64)
keys = st.text("0123456789abcXYZ.-:+=^!/*?&<>()[]{}@%$#", min_size=40, max_size=40)
ports = st.integers(1, 65535)
endpoints = st.builds("tcp://{}:{}".format, st.sampled_from(["127.0.0.1", "a-b.c", "[::1]", "h_1"]), ports)
shares = st.builds(
    Share, names, st.floats(0.01, 1), st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.integers(1, (1 << 48) - 1)
)
stages = st.lists(st.lists(shares, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
run_schedulers = st.builds(
    RunScheduler,
    stages,
    st.integers(1, 1 << 16),
    st.integers(0, MAX_TOKENS),
    counts,
    st.dictionaries(keys, names, max_size=3),
    st.dictionaries(keys, names, max_size=3),
)
run_stages = st.builds(
    RunStage,
    endpoints,
    keys,
    names,
    st.integers(0, 100),
    st.integers(1, 100),
    st.integers(1, 1 << 20),
    names,
    counts,
)
works = st.builds(
    WorkOfOne,
    st.text(max_size=64),
    st.text(max_size=64),
    st.sampled_from(stage_engines()),
    st.none() | run_schedulers,
    st.none() | run_stages,
    st.booleans(),
)
statuses = st.builds(Status, st.sampled_from(SchedulerState), counts, counts, counts, counts)
reports = st.builds(
    ReportOfOne,
    st.text(max_size=64),
    st.none() | st.builds(SchedulerReport, endpoints, endpoints, keys, st.none() | statuses),
    st.none() | st.builds(StageReport, st.floats(0, 1e10), counts, st.floats(0, 4096)),
    st.text(max_size=100),
)
SHARE = Share("n", 0.5, 4, 16, 24)
RUN = RunScheduler(((SHARE,),), 16, 256, 192, {KEY: "gateway"}, {KEY: "n"})
STAGE = RunStage(HERE, KEY, "path:/w", 0, 4, 24, "float32", 0)
SAID = SchedulerReport(HERE, HERE, KEY)
BUSY = StageReport(1.0, 10, 0.5)


@settings(deadline=None)
@given(works)
def test_work_arrives_as_it_is(message: WorkOfOne) -> None:
    assert Decoder(ToNode).decode(encode(message)) == message


@settings(deadline=None)
@given(reports)
def test_reports_arrive_as_they_are(message: ReportOfOne) -> None:
    assert Decoder(ToHub).decode(encode(message)) == message


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_malformed_and_nothing_else(payload: bytes) -> None:
    for receives in (ToNode, ToHub):
        try:
            message: Any = Decoder(receives).decode(payload)
        except MalformedMessageError:
            continue
        assert isinstance(message, msgspec.Struct)


@settings(deadline=None)
@given(endpoints, ports)
def test_an_endpoint_that_gets_through_can_be_dialled(endpoint: str, port: int) -> None:
    """The other way round too: whoever passes it on relies on it."""
    public = KeyPair.generate().public
    for text in (endpoint, f"tcp://host:{port}"):
        said = SchedulerReport(text, text, public)
        arrived: Any = Decoder(ToHub).decode(encode(ReportOfOne("i", said)))
        assert Address(arrived.scheduler.endpoint, arrived.scheduler.public_key).endpoint == text


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "tcp://",
        "tcp://:5000",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://host:99999",
        "tcp://host:5000\n",
        "tcp://host:5000 --checkpoint",
        " tcp://host:5000",
        "ipc:///tmp/socket",
        "inproc://zeromq.zap.01",
        "tcp://h\x00st:5000",
        f"tcp://{'h' * 300}:5000",
    ],
)
def test_an_endpoint_that_is_none_is_refused_wherever_it_stands(endpoint: str) -> None:
    for receives, message in (
        (ToHub, ReportOfOne("i", replace(SAID, endpoint=endpoint))),
        (ToHub, ReportOfOne("i", replace(SAID, stages=endpoint))),
        (ToNode, WorkOfOne("i", stage=replace(STAGE, scheduler=endpoint))),
    ):
        with pytest.raises(MalformedMessageError):
            Decoder(receives).decode(encode(message))


@pytest.mark.parametrize("key", ["", "k" * 39, "k" * 41, "k" * 39 + " ", "k" * 39 + '"', "k" * 40 + "\n", "ü" * 40])
def test_a_key_that_is_none_is_refused_wherever_it_stands(key: str) -> None:
    for receives, message in (
        (ToHub, ReportOfOne("i", replace(SAID, public_key=key))),
        (ToNode, WorkOfOne("i", stage=replace(STAGE, scheduler_key=key))),
        (ToNode, WorkOfOne("i", scheduler=replace(RUN, workers={key: "n"}))),
        (ToNode, WorkOfOne("i", scheduler=replace(RUN, gateways={key: "n"}))),
    ):
        with pytest.raises(MalformedMessageError):
            Decoder(receives).decode(encode(message))


@pytest.mark.parametrize(
    "message",
    [
        WorkOfOne("i" * 257),
        WorkOfOne("i", engine=""),
        WorkOfOne("i", drain="yes"),
        *(
            WorkOfOne("i", scheduler=replace(RUN, stages=stages))
            for stages in ((), ((),), ((SHARE,) * (MAX_PEERS + 1),))
        ),
        *(WorkOfOne("i", scheduler=replace(RUN, block_tokens=tokens)) for tokens in (0, -1, 1 << 17, 1.5)),
        WorkOfOne("i", scheduler=replace(RUN, gateways={f"{n:040}": "g" for n in range(1025)})),
        *(
            WorkOfOne("i", scheduler=replace(RUN, stages=((replace(SHARE, **change),),)))
            for change in (
                {"name": ""},
                {"weight": 0.0},
                {"weight": 1.5},
                {"weight": float("nan")},
                {"batch_cap": 0},
                {"chunk_tokens": 0},
                {"kv_blocks": 0},
            )
        ),
        *(
            WorkOfOne("i", stage=replace(STAGE, **change))
            for change in ({"layers": 0}, {"first_layer": -1}, {"kv_blocks": 0}, {"memory_mib": -1}, {"weights": ""})
        ),
    ],
)
def test_work_that_breaks_a_bound_is_malformed(message: WorkOfOne) -> None:
    with pytest.raises(MalformedMessageError):
        Decoder(ToNode).decode(encode(message))


@pytest.mark.parametrize(
    "message",
    [
        ReportOfOne("i" * 257),
        ReportOfOne(7),
        ReportOfOne("i", failure="x" * 5000),
        ReportOfOne("i", metrics="x" * 513),
        *(
            ReportOfOne("i", None, replace(BUSY, **change))
            for change in (
                {"running_s": -1.0},
                {"running_s": float("inf")},
                {"running_s": float("nan")},
                {"memory_mib": -1},
                {"memory_mib": 1 << 48},
                {"cpu_share": -0.1},
                {"cpu_share": float("nan")},
                {"cpu_share": 1e9},
            )
        ),
    ],
)
def test_a_report_that_breaks_a_bound_is_malformed(message: ReportOfOne) -> None:
    with pytest.raises(MalformedMessageError):
        Decoder(ToHub).decode(encode(message))


def test_an_engine_may_run_for_years() -> None:
    report = ReportOfOne("i", None, replace(BUSY, running_s=10 * 365 * 86400.0))
    assert Decoder(ToHub).decode(encode(report)) == report


def test_a_receiver_takes_only_what_is_meant_for_it() -> None:
    with pytest.raises(MalformedMessageError):
        Decoder(ToHub).decode(encode(WorkOfOne("i")))
    with pytest.raises(MalformedMessageError):
        Decoder(ToNode).decode(encode(ReportOfOne("i")))

"""Reports of load from and to processes of the release before, which count tokens and know no work class."""

from msgspec import Struct

from agents.messages.bounds import MaybeName
from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork, ServedKey, ToDemandDesk
from agents.messages.to_hub import ExecutorReport, GpuReport, NodeReport, ToHub
from agents.messages.wire import Decoder, encode
from templates_lib.values.work import Unit


class FormerLine(Struct, frozen=True, array_like=True):
    fleet: str
    app: str
    request_type: str
    project: str
    requests: int
    refused: int
    prompt_tokens: int
    output_tokens: int
    served_requests: int
    served_prompt_tokens: int
    served_output_tokens: int


class FormerOffered(Struct, frozen=True, array_like=True, tag="offered"):
    life: str
    started_s: int
    seconds: int
    revision: int
    lines: tuple[FormerLine, ...]


FORMER = FormerOffered("l", 600, 60, 1, (FormerLine("f", "m", "chat", "p", 3, 1, 30, 15, 2, 20, 10),))


def test_a_report_of_the_release_before_is_taken() -> None:
    arrived = Decoder[Offered](ToDemandDesk).decode(encode(FORMER))
    assert arrived == Offered("l", 600, 60, 1, (OfferedLine("f", "m", "chat", "p", 3, 1, 30, 15, 2, 20, 10),))


def test_the_release_before_takes_a_report_of_today() -> None:
    work = (OfferedWork("m/prefill", Unit.PROMPT_TOKEN, 30, 10, 20),)
    line = OfferedLine("f", "m", "chat", "p", 3, 1, 30, 15, 2, 20, 10, work, (ServedKey("k", 2, (20,)),))
    assert Decoder[FormerOffered](FormerOffered).decode(encode(Offered("l", 600, 60, 1, (line,)))) == FORMER


class FormerNodeReport(Struct, frozen=True, array_like=True, tag="unit_report"):
    """Of an agent that does not tell its GPUs."""

    instance: MaybeName
    executors: tuple[ExecutorReport, ...] = ()
    failure: str = ""
    metrics: str = ""
    interruption: None = None


def test_agents_and_hubs_of_the_release_before_do_without_gpus() -> None:
    former = FormerNodeReport("i1", (ExecutorReport("e"),))
    assert Decoder[NodeReport](ToHub).decode(encode(former)) == NodeReport("i1", (ExecutorReport("e"),))
    today = NodeReport("i1", (ExecutorReport("e"),), gpus=(GpuReport("NVIDIA L4", 23034),))
    assert Decoder[FormerNodeReport](FormerNodeReport).decode(encode(today)) == former
    assert Decoder[NodeReport](ToHub).decode(encode(today)) == today

"""Boards for tests: instances of two stages and three nodes, and what their nodes say."""

from collections.abc import Iterable

from agents.messages.to_gateway import SchedulerState, Status
from agents.messages.to_hub import ExecutorReport, NodeReport, SchedulerReport, StageReport
from agents.messages.to_node import Run, Work
from agents.messages.wire import Decoder, encode
from control.hub.board import Board
from control.hub.deployed import Deployed, ModelFiles
from control.hub.gang import Gang, GangExecutor, GangPlace
from control.lifecycle.state import InstanceState
from templates_lib.values.placement import ONLY

LOST_AFTER_S = 10.0
GATEWAYS = {"G" * 40: "gateway"}
FILES = ModelFiles("chat", "path:/weights", 192, 256)
EXECUTOR = GangExecutor(
    (
        GangPlace("small:1/n10", 0, 0, 4, 0.25, 4, 16, 24),
        GangPlace("large:1/n10", 0, 0, 4, 0.75, 8, 32, 48, slot=1),
        GangPlace("small:1/n10", 1, 4, 2, 1.0, 4, 16, 24, slot=2),
    ),
    "torch",
    "fp32",
)
GANG = Gang((EXECUTOR,))
PLACES = range(len(GANG.configs))


def node(instance: str, place: int) -> str:
    return f"{instance}-{place}"


def key(name: str) -> str:
    """A public key by which a test knows whose it is."""
    return name.ljust(40, ".")


def nodes(instance: str) -> list[str]:
    return [node(instance, place) for place in PLACES]


def deployed(instance: str, state: InstanceState, missing: Iterable[int] = ()) -> Deployed:
    names = tuple(None if place in set(missing) else node(instance, place) for place in PLACES)
    return Deployed(instance, state, GANG, {ONLY: FILES}, names, (100, 200, 100))


def scheduler(instance: str, status: Status | None = None) -> SchedulerReport:
    return SchedulerReport("tcp://127.0.0.1:1111", "tcp://127.0.0.1:2222", key(f"scheduler-of-{instance}"), status)


def status(state: SchedulerState, running: int = 0, waiting: int = 0) -> Status:
    return Status(state, running, waiting, 24, 20)


def says(
    instance: str, *, state: SchedulerState | None = None, running: int = 0, waiting: int = 0, failure: str = ""
) -> NodeReport:
    """What a first node says; `state` None: its scheduler has not answered it yet."""
    answered = None if state is None else status(state, running, waiting)
    return NodeReport(
        instance, (ExecutorReport(ONLY, scheduler(instance, answered), StageReport(1.0, 50, 0.5)),), failure
    )


def board(*known: Deployed, gateways: dict[str, str] | None = None, now_s: float = 0.0) -> Board:
    """All their nodes have registered; none is connected."""
    made = Board(GATEWAYS if gateways is None else gateways, LOST_AFTER_S, now_s)
    made.deploy(known)
    made.know({key(name): name for each in known for name in each.nodes if name is not None})
    return made


def connected(*known: Deployed, now_s: float = 0.0) -> Board:
    made = board(*known, now_s=now_s)
    for each in known:
        for name in each.nodes:
            if name is not None:
                made.joined(name, now_s)
    return made


def run_of(work: Work) -> Run:
    """What the only executor runs there."""
    (run,) = work.runs
    return run


def over_the_wire(work: Work) -> Work:
    """As the node gets it: what breaks a bound does not get there."""
    received = Decoder(Work).decode(encode(work))
    assert isinstance(received, Work)
    return received

"""What goes over the pipes of a process that runs a workflow, and of one that runs services: MessagePack behind four
bytes that say how long it is.

A runner is asked to `LoadApp`, then to `Start`. Whenever its code can go no further it says so with a `Step`, with all
that it has called since the last one, and is answered with one `Deliver`, until it `Finished` or `Broke`. A worker is
asked to `LoadApp`, to `LoadService` and `DropService`, and for each `Batch`, which its `Item`s follow, and answers that
with one `Outcome` an item.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from medley_sdk.messages import Fault, Limits

MOST_FRAME_BYTES = 48 << 20
MOST_GIVEN_BYTES = 1 << 20
"""Bytes of what one call is given beside handles."""
MOST_RESULT_BYTES = 16 << 20
"""Bytes of a result, of what a call is given with the values of its handles, and of what a run answers."""


class CallKind(StrEnum):
    MODEL = "model"
    SERVICE = "service"
    SLEEP = "sleep"
    SIGNAL = "signal"
    EMIT = "emit"


class Effects(StrEnum):
    NONE = "none"
    """The call may be computed again."""
    EXTERNAL = "external"
    """It changes something outside: it is started once at the most."""


class FlowCall(Struct, frozen=True, array_like=True):
    """One call of a run."""

    path: str
    """Where in the run it is made, whatever ends first: the number of the call in its asyncio task, behind that of the
    task in the one that made it."""
    kind: CallKind
    target: str
    """Name of the model, service or signal; empty for other kinds."""
    given: bytes
    """Its arguments, positional ones and those with names, as MessagePack; handles stand as slots."""
    takes: tuple[str, ...] = ()
    """Call paths of what the slots stand for."""
    effects: Effects = Effects.NONE
    idempotent: bool = False
    """It may be started again, with the same id, though its effects are external."""
    timeout_s: float | None = None
    """None: no bound of its own."""


class Failure(Struct, frozen=True, array_like=True):
    """Why a call has no result."""

    kind: str
    """`call`, `uncertain` or `budget`."""
    reason: str


class ServiceInfo(Struct, frozen=True, array_like=True):
    name: str
    effects: Effects
    idempotent: bool
    max_batch: int
    network: bool
    timeout_s: float


class Parameter(Struct, frozen=True, array_like=True):
    name: str
    type: str
    """For people."""
    required: bool


class FlowInfo(Struct, frozen=True, array_like=True):
    """A workflow, as its code says."""

    name: str
    parameters: tuple[Parameter, ...]
    gives: str
    durable: bool
    max_usd: float | None
    max_calls: int
    deadline_s: float | None


class LoadApp(Struct, frozen=True, array_like=True, tag="load"):
    file: str
    """Name for error messages."""
    source: str
    limits: Limits = Limits()
    network: bool = False
    """Leave the process the network of the machine."""


class AppLoaded(Struct, frozen=True, array_like=True, tag="loaded"):
    flows: tuple[FlowInfo, ...]
    services: tuple[ServiceInfo, ...]
    isolated: bool
    """The process has no network."""


class Start(Struct, frozen=True, array_like=True, tag="start"):
    flow: str
    run: str
    """Id of the run, which also decides what `path` chooses."""
    arguments: dict[str, Any]
    """By the name of the parameter."""


class Deliver(Struct, frozen=True, array_like=True, tag="deliver"):
    """The outcome of one call that the run waits for: of these, the one that came first."""

    path: str
    value: bytes = b""
    failure: Failure | None = None


class Step(Struct, frozen=True, array_like=True, tag="step"):
    """The code waits."""

    calls: tuple[FlowCall, ...]
    awaits: tuple[str, ...]


class Finished(Struct, frozen=True, array_like=True, tag="finished"):
    calls: tuple[FlowCall, ...]
    answer: bytes
    """What the run returns, as MessagePack; handles stand as slots."""
    gives: tuple[str, ...]


class Broke(Struct, frozen=True, array_like=True, tag="broke"):
    calls: tuple[FlowCall, ...]
    fault: Fault
    causes: tuple[str, ...] = ()
    """Call paths of the failures that the code did not catch, or that it raised its error from."""


class LoadService(Struct, frozen=True, array_like=True, tag="load_service"):
    """Make the instance of a service that batches of it need."""

    service: str


class ServiceLoaded(Struct, frozen=True, array_like=True, tag="service_loaded"):
    service: str


class DropService(Struct, frozen=True, array_like=True, tag="drop_service"):
    """Forget the instance of a service, and give its memory back to the system."""

    service: str


class ServiceDropped(Struct, frozen=True, array_like=True, tag="service_dropped"):
    service: str


class Batch(Struct, frozen=True, array_like=True, tag="batch"):
    service: str
    items: int


class Item(Struct, frozen=True, array_like=True, tag="item"):
    """One call of a batch."""

    call: str
    """Id of the call, the same whenever it is started again: `<run>/<call path>`."""
    given: bytes
    """Without slots."""


class Outcome(Struct, frozen=True, array_like=True, tag="outcome"):
    value: bytes = b""
    failure: str = ""
    """Empty: there is none."""
    begun: bool = True
    """The code of the service had the call. False: it certainly changed nothing."""


ToRunner = LoadApp | Start | Deliver
FromRunner = AppLoaded | Step | Finished | Broke | Fault
ToWorker = LoadApp | LoadService | DropService | Batch | Item
FromWorker = AppLoaded | ServiceLoaded | ServiceDropped | Outcome | Fault

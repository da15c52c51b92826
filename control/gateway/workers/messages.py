"""What a gateway's supervisor and its workers send each other, by the receiver."""

import msgspec

from control.access.use_limits import UseLimits
from control.gateway.key_limits import Headers, Holder
from control.gateway.readiness import Readiness
from control.gateway.settings import GatewaySettings
from control.gateway.workers.totals import Family
from policies.fair_order import Account


class Serve(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The first message to a worker: what it serves, and where."""

    worker: int
    host: str
    port: int
    table: str
    key: str
    """Path of the key file."""
    settings: GatewaySettings
    tls: tuple[str, str] | None
    """Paths of certificate chain and key."""
    is_replacement: bool = False
    """Others serve already: it has time to find its instances before clients come."""


class Permit(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A request may go on, and has been counted."""

    ask: int
    headers: Headers


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An `ApiError`."""

    ask: int
    status: int
    kind: str
    message: str
    code: str | None
    param: str | None
    headers: Headers


class Report(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Answer with a `State`."""

    ask: int


class Ping(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Answer with a `Pong`."""


class Whole(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The condition of all workers together."""

    ask: int
    metrics: bytes
    readiness: Readiness


class Listening(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Clients can come."""


class Take(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """May a request of these holders go on? Answered with `Permit` or `Refusal`."""

    ask: int
    holders: list[tuple[Holder, UseLimits]]
    tokens: float
    requests: int


class Settle(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One answer is over."""

    holders: tuple[Holder, ...]
    taken: float
    """Tokens that it was expected to take."""
    tokens: float
    """Tokens that it took."""


class GiveBack(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One answer was not served, for a reason that is not its client's."""

    holders: tuple[Holder, ...]
    taken: float


class State(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What a worker has counted, and which models it can serve."""

    ask: int
    """Of the `Report` that it answers; 0: it comes by itself."""
    families: list[Family]
    readiness: Readiness


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """It lives."""


class Booked(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Work that a worker has admitted, or given back: for all others, whose instances it waits for, too."""

    work: list[tuple[str, Account, float]]
    """Work class, whose work it is, and seconds of the class's capacity; below 0 what is given back."""


class AskWhole(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Answered with `Whole`."""

    ask: int


ToWorker = Serve | Permit | Refusal | Report | Ping | Whole | Booked
ToSupervisor = Listening | Take | Settle | GiveBack | Pong | Booked | State | AskWhole

"""What a tensor that cannot be had means for the attempt at a request that needs it."""

from agents.messages.to_gateway import Failure
from agents.transfer.errors import BadPieceError, LinkLostError, StoreFullError, TransferError


def failure_of(error: TransferError) -> Failure:
    """Return what to tell a gateway: what it can do next follows from it."""
    match error:
        case BadPieceError():
            return Failure.UNSUPPORTED
        case StoreFullError():
            return Failure.OVERLOADED
        case LinkLostError():
            return Failure.ENGINE
        case _:  # it is to be made again
            return Failure.HAND_OFF

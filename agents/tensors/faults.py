"""Errors as they cross the socket between a process and its sidecar."""

from agents.messages.to_tensor_client import TensorFault
from agents.transfer.errors import BadPieceError, BlobGoneError, LinkLostError, StoreFullError, TransferError

_ERRORS: dict[TensorFault, type[TransferError]] = {
    "gone": BlobGoneError, "full": StoreFullError, "bad": BadPieceError, "lost": LinkLostError,
}  # fmt: skip


def fault_of(error: TransferError) -> TensorFault:
    return next((fault for fault, kind in _ERRORS.items() if isinstance(error, kind)), "bad")


def error_of(fault: TensorFault, reason: str) -> TransferError:
    return _ERRORS[fault](reason)

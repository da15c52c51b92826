"""What can go wrong while bytes move between processes; the type says what to do next."""


class TransferError(Exception):
    """Base of all of them."""


class LinkLostError(TransferError):
    """The other end is gone, or silent for too long: connect again, or give the work to another instance."""


class BlobGoneError(TransferError):
    """The blob was withdrawn, passed its deadline or lost its producer, or its memory belongs to another: make it
    again."""


class StoreFullError(TransferError):
    """The store has no room for the piece: try again later, or elsewhere."""


class BadPieceError(TransferError):
    """The piece does not belong where it was sent, or is not there to be taken: the caller's bug."""

"""What can go wrong while bytes move between processes; the type says what to do next."""


class TransferError(Exception):
    """Base of all of them."""


class LinkLostError(TransferError):
    """The other end is gone, or silent for too long: connect again, or give the work to another instance."""


class BlobGoneError(TransferError):
    """What was to be moved is freed, and its memory belongs to another."""


class BadPieceError(TransferError):
    """The piece does not belong where it was sent: the sending end is broken."""

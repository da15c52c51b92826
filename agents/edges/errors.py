"""What can go wrong between two stages; the type is the next step."""


class EdgeError(Exception):
    """Base of all of them."""


class EdgeLostError(EdgeError):
    """The peer is gone, or silent for too long: the instance has failed, its requests go on elsewhere."""


class BadRowsError(EdgeError):
    """More rows than agreed, or of another shape or type. The caller's bug; nothing was sent."""

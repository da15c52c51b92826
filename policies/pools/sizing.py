"""How many members a pool has: before anything is known of its load, and by its load (ModServe, section 4.2)."""

from dataclasses import dataclass
from math import ceil

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ImageHistory:
    """Medians of what came before."""

    images_per_s: float
    encode_s: float
    """Of one picture."""
    images_per_request: float


def start_sizes(history: ImageHistory) -> tuple[int, int]:
    """(encoders, text instances) to begin with: N_i = pictures/s × seconds of one, N_t = N_i / pictures of a request,
    at least one of each.

    These are members that are busy at any time, without room for what varies. Raises ValueError for figures that are
    not above 0."""
    if min(history.images_per_s, history.encode_s, history.images_per_request) <= 0:
        raise ValueError(f"start sizes need a rate, a time and pictures of a request above 0, not {history}")
    encoders = replicas(history.images_per_s * history.encode_s, 1.0)
    return encoders, replicas(encoders, history.images_per_request)


def replicas(units_per_s: float, capacity: float) -> int:
    """⌈ML / MC⌉, at least one: members that serve a load, when each sustains `capacity` units/s within its
    objective."""
    return max(ceil(units_per_s / capacity - _ROUNDING), 1)

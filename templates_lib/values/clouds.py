"""The registry of clouds: what the rest of Medley has to know of each beside what it sells."""

from dataclasses import dataclass

LOCAL = "local"
"""The cloud whose nodes are processes on this machine."""
OWNED = "owned"
"""The cloud of machines that somebody has, reached over SSH."""
SKYPILOT = "skypilot"
"""The adapter of clouds whose nodes are rented through SkyPilot. Every other adapter has its cloud's name."""


@dataclass(frozen=True, slots=True)
class CloudKind:
    adapter: str = ""
    """Adapter that rents its nodes. Empty: nothing does; its offers can be planned with and compared."""
    catalogue: bool = False
    """True where the adapter needs the machines that are planned with, at their prices, before it rents one."""
    remote_identity: bool = False
    """True where SkyPilot sends the account's credentials to nodes of this cloud unless its settings forbid it."""
    quotas_count: str = "gpus"
    """Unit of its quotas: `gpus`, or `vcpus`."""
    is_stock: bool = False
    """True where its offers say how many nodes there are, those in use included, and not how many more could be had."""
    has_prices: bool = True
    """True where prices of it ship with Medley, so that a spec may name it; else its offers come from files alone."""


CLOUDS: dict[str, CloudKind] = {
    "aws": CloudKind(SKYPILOT, catalogue=True, remote_identity=True, quotas_count="vcpus"),
    "azure": CloudKind(quotas_count="vcpus"),
    "gcp": CloudKind(SKYPILOT, catalogue=True, remote_identity=True),
    "kubernetes": CloudKind(SKYPILOT, remote_identity=True, has_prices=False),
    "lambda": CloudKind(),
    LOCAL: CloudKind(LOCAL, is_stock=True),
    OWNED: CloudKind(OWNED, is_stock=True),
    "runpod": CloudKind(SKYPILOT, catalogue=True),
}
"""Clouds by the name that offers, specs and rows have. SkyPilot has no such setting as `remote_identity` for RunPod: it
sends its key file, if there is one, to every node; a key in `RUNPOD_API_KEY` it does not."""


def cloud_kind(name: str) -> CloudKind:
    """Return what is known of a cloud. Offers may be of any (a file, a trace): of one that is not registered nothing is
    rented, and its quotas count GPUs."""
    return CLOUDS.get(name, CloudKind())


def clouds_of(adapter: str) -> tuple[str, ...]:
    """Return the clouds whose nodes this adapter rents, by name."""
    return tuple(sorted(name for name, kind in CLOUDS.items() if kind.adapter == adapter))

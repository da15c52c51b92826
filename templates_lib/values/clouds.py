"""The registry of clouds: what the rest of Medley has to know of each beside what it sells."""

from dataclasses import dataclass
from enum import StrEnum

LOCAL = "local"
"""The cloud whose nodes are processes on this machine."""
OWNED = "owned"
"""The cloud of machines that somebody has, reached over SSH."""
SKYPILOT = "skypilot"
"""The adapter of clouds whose nodes are rented through SkyPilot. Every other adapter has its cloud's name."""


class Span(StrEnum):
    """How far a private network reaches that a cloud's nodes are launched in."""

    CLOUD = "cloud"
    """All regions: SkyPilot launches in one VPC of the account, which on GCP is global."""
    REGION = "region"
    """One region: the VPC that the account has there."""
    ZONE = "zone"
    """One zone."""
    NONE = "none"
    """Not beyond a node: no other machine reaches its private address. What its cloud publishes is reached by all."""


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
    span: Span = Span.REGION
    """How far its nodes reach each other by private addresses."""
    takes_overlay: bool = False
    """True where nodes are machines of our own choice of software, which join an overlay network."""
    published_ports: tuple[int, ...] = ()
    """Ports at which nodes without a private network are reached from everywhere: their cloud is asked at the launch to
    publish them, each under a public address and a port of its choice. Executors that gateways reach take one each."""


CLOUDS: dict[str, CloudKind] = {
    "aws": CloudKind(SKYPILOT, catalogue=True, remote_identity=True, quotas_count="vcpus", takes_overlay=True),
    "azure": CloudKind(quotas_count="vcpus"),
    "gcp": CloudKind(SKYPILOT, catalogue=True, remote_identity=True, span=Span.CLOUD, takes_overlay=True),
    "kubernetes": CloudKind(SKYPILOT, remote_identity=True, has_prices=False, span=Span.CLOUD),
    "lambda": CloudKind(),
    LOCAL: CloudKind(LOCAL, is_stock=True, span=Span.CLOUD),
    OWNED: CloudKind(OWNED, is_stock=True, span=Span.ZONE),
    "runpod": CloudKind(SKYPILOT, catalogue=True, span=Span.NONE, published_ports=(7600, 7601, 7602, 7603)),
}
"""Clouds by the name that offers, specs and rows have. SkyPilot has no such setting as `remote_identity` for RunPod: it
sends its key file, if there is one, to every node; a key in `RUNPOD_API_KEY` it does not."""


def cloud_kind(name: str) -> CloudKind:
    """Return what is known of a cloud. Offers may be of any (a file, a trace): of one that is not registered nothing is
    rented, its quotas count GPUs, and it is one network, in which only what a file states crosses zones."""
    return CLOUDS.get(name, CloudKind(span=Span.CLOUD))


def clouds_of(adapter: str) -> tuple[str, ...]:
    """Return the clouds whose nodes this adapter rents, by name."""
    return tuple(sorted(name for name, kind in CLOUDS.items() if kind.adapter == adapter))

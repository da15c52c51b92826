"""Who reaches whom by private addresses: the networks that nodes are launched in, and those that somebody has joined.

Nodes speak to each other by private addresses only, and so do gateways to them, but where nodes are in no network and
their cloud publishes ports of theirs (`CloudKind.published_ports`). A network is what a cloud gives an account without
being asked (`Span`); that two of them are peered, or joined by a VPN, their owner says.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from templates_lib.values.clouds import LOCAL, Span, cloud_kind
from templates_lib.values.offer import Offer


def network_of(cloud: str, region: str, zone: str) -> str:
    """Name the network that a node in a zone is in: `gcp`, `aws/us-east-2`, `owned/hall-a`. `zone`: without the
    cloud."""
    match cloud_kind(cloud).span:
        case Span.CLOUD:
            return cloud
        case Span.REGION:
            return f"{cloud}/{region}"
        case _:
            return f"{cloud}/{zone}"


def network_at(offer: Offer) -> str:
    """Name the network that nodes of an offer are in."""
    return network_of(offer.cloud, offer.region, offer.zone_id.partition("/")[2])


def networks_of(offers: Iterable[Offer]) -> dict[str, str]:
    """Zone id → the network of its nodes."""
    return {each.zone_id: network_at(each) for each in offers}


@dataclass(frozen=True, slots=True)
class Reach:
    peered: tuple[frozenset[str], ...] = ()
    """Groups of networks, each of which reaches each other of its group. No more follows: peering is not passed on."""
    gateways: str = ""
    """Network that gateways are in; empty: nobody says."""
    overlay: bool = False
    """True where nodes of clouds that take an overlay join one to the control plane's machine, which gateways are on.
    It carries requests and reports, and no KV caches: nodes are joined to that machine, not to each other."""

    def joins(self, one: str, other: str) -> bool:
        """Tell whether nodes of the two networks reach each other; of the same one, whether different nodes do."""
        if Span.NONE in (cloud_kind(one.partition("/")[0]).span, cloud_kind(other.partition("/")[0]).span):
            return False
        return one == other or any({one, other} <= group for group in self.peered)

    def serves(self, network: str) -> bool:
        """Tell whether gateways may reach nodes of a network, as far as it is known where they are. What runs on their
        own machine they reach."""
        cloud = network.partition("/")[0]
        kind = cloud_kind(cloud)
        if kind.span is Span.NONE:
            return bool(kind.published_ports)
        return cloud == LOCAL or self.overlays(cloud) or not self.gateways or self.joins(self.gateways, network)

    def overlays(self, cloud: str) -> bool:
        """Tell whether nodes of a cloud join the overlay."""
        return self.overlay and cloud_kind(cloud).takes_overlay

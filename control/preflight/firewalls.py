"""Firewalls of nodes: whether they let in who has to reach them."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address

from control.offers.cloud_reader import CloudReader
from control.offers.firewall import Firewall
from control.offers.live.source import SourceError
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from templates_lib.values.ways import WAYS, Party, Way

NAME = "firewall.nodes"
_IN = tuple(way for way in WAYS if way.target is Party.NODE and way.source is not Party.NODE)


def of_firewalls(
    planned: Planned, cloud: str, reader: CloudReader | None, addresses: Sequence[IPv4Address | IPv6Address]
) -> Iterator[Finding]:
    """Yield what is found of the firewall of nodes in each region of a cloud that can be asked. `addresses`: of the
    control plane, beside which gateways are taken to be."""
    if reader is None or reader.firewall is None:
        return
    for region in planned.regions(cloud):
        subject = f"{cloud} {region}"
        try:
            firewall = reader.firewall(region)
        except SourceError as error:
            yield Finding(NAME, subject, Status.UNKNOWN, f"it cannot be read: {error}")
            continue
        if firewall is None:
            what = (
                "SkyPilot makes a security group, which lets SSH in from anywhere and all else from its own machines "
                f"only: gateways have to be in it, or name one that lets them in at {_ports(Party.GATEWAY)} "
                "(`aws: security_group_name` in ~/.sky/config.yaml)"
            )
            yield Finding(NAME, subject, Status.UNKNOWN, what)
            continue
        yield from (_of_way(way, firewall, subject, addresses) for way in _IN)


def _of_way(way: Way, firewall: Firewall, subject: str, addresses: Sequence[IPv4Address | IPv6Address]) -> Finding:
    place = f"{subject}, {way.source.value} at {way.ports}"
    ports = way.first_port, way.last_port
    if addresses and firewall.admits(addresses, *ports):
        found = ", ".join(str(each) for each in addresses)
        return Finding(NAME, place, Status.PASS, f"security group {firewall.name} lets {found} in")
    sources = firewall.sources(*ports)
    if not sources:
        what = (
            f"security group {firewall.name} lets nobody in but its own machines: let the {way.source.value} in there"
        )
        return Finding(NAME, place, Status.FAIL, what)
    known = ", ".join(sources)
    what = f"security group {firewall.name} lets {known} in: whether the {way.source.value} is there is not seen"
    return Finding(NAME, place, Status.UNKNOWN, what)


def _ports(source: Party) -> str:
    return ", ".join(way.ports for way in _IN if way.source is source)

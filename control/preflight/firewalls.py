"""Firewalls of nodes: whether they let in who has to reach them."""

from collections.abc import Iterator, Sequence

from control.offers.cloud_reader import CloudReader
from control.offers.firewall import Address, Firewall, NoNetworkError
from control.offers.live.source import SourceError
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from templates_lib.values.ways import WAYS, Party, Way

NAME = "firewall.nodes"
_IN = tuple(way for way in WAYS if way.target is Party.NODE and way.source is not Party.NODE)
_BETWEEN = tuple(way for way in WAYS if way.target is way.source is Party.NODE)


def of_firewalls(
    planned: Planned, cloud: str, reader: CloudReader | None, addresses: Sequence[Address]
) -> Iterator[Finding]:
    """Yield what is found of the firewall of nodes in each region of a cloud that can be asked. `addresses`: of the
    control plane, beside which gateways are taken to be."""
    if reader is None or reader.firewall is None:
        return
    reach = planned.world.fleet.sources.reach
    # Nodes of an overlay call the control plane's machine, over which gateways come.
    into = (way for way in _IN if way.source is not Party.GATEWAY or not reach.overlays(cloud))
    ways = (*into, *(_BETWEEN if planned.exchanges(cloud) else ()))
    for region in planned.regions(cloud):
        subject = f"{cloud} {region}"
        try:
            firewall = reader.firewall(region)
        except SourceError as error:
            yield Finding(NAME, subject, Status.UNKNOWN, f"it cannot be read: {error}")
            continue
        except NoNetworkError as error:
            yield Finding(NAME, subject, Status.FAIL, f"{error}: name another, or make it")
            continue
        if firewall is None:
            what = (
                "SkyPilot makes a security group, which lets SSH in from anywhere and all else from its own machines "
                f"only: gateways have to be in it, or name one that lets them in at {_ports(Party.GATEWAY)} "
                "(`aws: security_group_name` in ~/.sky/config.yaml)"
            )
            yield Finding(NAME, subject, Status.UNKNOWN, what)
            continue
        yield from (_of_way(way, firewall, subject, addresses) for way in ways)


def _of_way(way: Way, firewall: Firewall, subject: str, addresses: Sequence[Address]) -> Finding:
    place = f"{subject}, {way.source.value} at {way.ports}"
    ports, its = (way.first_port, way.last_port), f"{firewall.kind} {firewall.name}"
    if way.source is Party.NODE:
        if firewall.admits_own(*ports):
            return _passing(place, f"{its} lets its machines reach each other", firewall)
        what = f"{its} does not let its own machines in there, and the plan has them exchange data: let them"
        return Finding(NAME, place, Status.FAIL, what)
    if addresses and firewall.admits(addresses, *ports):
        found = ", ".join(str(each) for each in addresses)
        return _passing(place, f"{its} lets {found} in", firewall)
    sources = firewall.sources(*ports)
    if not sources:
        what = f"{its} lets nobody in but its own machines: let the {way.source.value} in there"
        return Finding(NAME, place, Status.FAIL, what)
    known = ", ".join(sources)
    what = f"{its} lets {known} in: whether the {way.source.value} is there is not seen"
    return Finding(NAME, place, Status.UNKNOWN, what)


def _passing(place: str, what: str, firewall: Firewall) -> Finding:
    if firewall.is_whole:
        return Finding(NAME, place, Status.PASS, what)
    beyond = f"{what}, unless a policy of the organisation, which counts before, does not"
    return Finding(NAME, place, Status.UNKNOWN, beyond)


def _ports(source: Party) -> str:
    return ", ".join(way.ports for way in _IN if way.source is source)

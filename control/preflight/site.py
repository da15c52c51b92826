"""The control plane's side of a launch: tools, accounts, images, and how nodes find their way to it."""

import importlib.util
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address

from control.cloud.errors import CloudError, RetryLaterError
from control.cloud.port import Cloud
from control.offers.cloud_reader import CloudReader
from control.overlay.interface import lacking
from control.preflight.clock import of_clock
from control.preflight.drivers import of_compilers, of_drivers
from control.preflight.finding import Finding, Status
from control.preflight.firewalls import of_firewalls
from control.preflight.networks import of_flows, of_gateways
from control.preflight.places import of_image, of_machines
from control.preflight.planned import Planned
from control.preflight.quotas import of_quotas
from templates_lib.values.clouds import OWNED, SKYPILOT, Span, cloud_kind
from templates_lib.values.install_hint import install_hint

TOOLS = {"rsync": "SkyPilot copies files to nodes with it"}
"""Program that renting through SkyPilot takes → what for."""


@dataclass(frozen=True, slots=True)
class Site:
    address: str
    """Host name or address by which nodes of other machines are to reach the control plane."""
    clouds: Mapping[str, Callable[[], Cloud]]
    """Cloud → what makes its adapter."""
    now: datetime
    images: Mapping[str, str] = field(default_factory=dict)
    """As of `SkyPilotSettings`."""
    readers: Mapping[str, CloudReader] = field(default_factory=dict)
    """Cloud → what it can be asked."""


def of_site(planned: Planned, site: Site) -> Iterator[Finding]:
    """Yield what is found of the control plane's machine, accounts and network, cloud by cloud."""
    rented = [cloud for cloud in planned.clouds if cloud_kind(cloud).adapter == SKYPILOT]
    has_tools = True
    if rented:
        for finding in _tools():
            has_tools = has_tools and finding.status is Status.PASS
            yield finding
        yield from of_clock(planned)
    if any(planned.world.fleet.sources.reach.overlays(cloud) for cloud in planned.clouds):
        yield _overlay()
    addresses = _resolved(site.address) if rented else ()
    for cloud in planned.elsewhere:
        yield from _account(cloud, site, has_tools or cloud not in rented)
        if cloud in rented:
            yield from of_quotas(planned, cloud, site.readers.get(cloud))
            yield from of_machines(planned, cloud, site.readers.get(cloud))
            yield from of_drivers(planned, cloud, site.images.get(cloud, ""))
            yield from of_compilers(planned, cloud, site.images.get(cloud, ""))
            yield from of_firewalls(planned, cloud, site.readers.get(cloud), addresses)
        if cloud in site.images:
            yield from of_image(planned, cloud, site.images[cloud], site.readers.get(cloud))
    if planned.elsewhere:
        yield _address(planned, site.address)
    yield from of_flows(planned)
    yield from of_gateways(planned)


def _tools() -> Iterator[Finding]:
    is_there = importlib.util.find_spec("sky") is not None
    lacking = f"SkyPilot is not installed: {install_hint('clouds')}"
    status = Status.PASS if is_there else Status.FAIL
    yield Finding("tool.skypilot", "this machine", status, "SkyPilot is installed" if is_there else lacking)
    for tool, use in TOOLS.items():
        found = shutil.which(tool)
        status = Status.PASS if found else Status.FAIL
        detail = found or f"{tool} is not on the path of this machine: {use}; install it with the system's packages"
        yield Finding(f"tool.{tool}", "this machine", status, detail)


def _overlay() -> Finding:
    """That this machine can be the one that nodes call."""
    name, missing = "overlay.host", lacking()
    if not missing:
        return Finding(name, "this machine", Status.PASS, "it makes WireGuard devices; whether UDP gets in is not seen")
    what = f"`network.overlay: wireguard` needs {', and '.join(missing)}; nodes call the machine of `medley reconcile`"
    return Finding(name, "this machine", Status.FAIL, what)


def _account(cloud: str, site: Site, has_tools: bool) -> Iterator[Finding]:
    name = "account.credentials"
    if cloud not in site.clouds:
        what = "nothing rents there: its offers are for planning and comparing only"
        yield Finding("cloud.adapter", cloud, Status.FAIL, what)
        return
    if not has_tools:
        yield Finding(name, cloud, Status.UNKNOWN, "not asked: what it is asked with is missing (see above)")
        return
    try:
        nodes = site.clouds[cloud]().list({}, site.now)
    except RetryLaterError as error:
        yield Finding(name, cloud, Status.UNKNOWN, f"it did not answer: {error}")
    except CloudError as error:
        yield Finding(name, cloud, Status.FAIL, str(error))
    else:
        what = f"it answers, and lists {len(nodes)} of our nodes; rights to rent show at the first launch"
        yield Finding(name, cloud, Status.PASS, what)


def _addresses(given: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """Resolve a name. Raises OSError, or UnicodeError for what cannot be one."""
    found = {entry[4][0] for entry in socket.getaddrinfo(given, None, type=socket.SOCK_STREAM)}
    return tuple(ip_address(str(each).partition("%")[0]) for each in sorted(found))


def _resolved(given: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """Return the addresses of a name; none where it is none, which `_address` says."""
    try:
        return _addresses(given)
    except (OSError, UnicodeError):
        return ()


def _address(planned: Planned, given: str) -> Finding:
    """That nodes may find the control plane under what it tells them."""
    name, clouds = "network.address", ", ".join(planned.elsewhere)
    try:
        addresses = _addresses(given)
    except (OSError, UnicodeError) as error:
        what = f"{given!r} is no address and no name that this machine resolves ({error}): give --address another"
        return Finding(name, clouds, Status.FAIL, what)
    shown = f"{given} ({', '.join(map(str, addresses))})" if [str(each) for each in addresses] != [given] else given
    if all(_is_own(each) for each in addresses):
        if all(cloud == OWNED for cloud in planned.elsewhere):
            what = f"{shown} is this machine to itself: only hosts that are this machine find it there"
            return Finding(name, clouds, Status.UNKNOWN, what)
        what = (
            f"{shown} is this machine to itself: nodes of {clouds} would look for the control plane on themselves; "
            "give `--address` what they reach it by, here and to `medley reconcile`"
        )
        return Finding(name, clouds, Status.FAIL, what)
    private = all(each.is_private for each in addresses)
    if private and (outside := [cloud for cloud in planned.elsewhere if cloud_kind(cloud).span is Span.NONE]):
        what = (
            f"{shown} is private, and nodes of {', '.join(outside)} are in no network: give `--address` a public one, "
            "here and to `medley reconcile`"
        )
        return Finding(name, clouds, Status.FAIL, what)
    if private:
        what = f"{shown} is private: nodes of {clouds} reach it through one VPC or a VPN only"
        return Finding(name, clouds, Status.UNKNOWN, what)
    return Finding(
        name, clouds, Status.PASS, f"nodes of {clouds} are told {shown}; whether a firewall lets them in is not seen"
    )


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    return address.is_loopback or address.is_unspecified

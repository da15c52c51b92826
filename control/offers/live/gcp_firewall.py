"""The firewall rules of the network that nodes on GCP are launched in."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from control.offers.firewall import Firewall, NoNetworkError, Opening
from control.offers.live.bounds import bounded
from control.offers.live.gcp_access import TIMEOUT_S, GcpAccess, asked, gcp_access, retry
from control.offers.live.sky_settings import sky_settings

KIND = "network"
_TCP, _ALL = ("tcp", "6"), (0, 65535)
_NODES = "skypilot-v1@{}.iam.gserviceaccount.com"
"""Service account of nodes: rules may name it as source or target. Of tags they have one each, their cluster's."""
_INGRESS = "INGRESS"
_SKYPILOTS = Firewall(
    "that SkyPilot takes or makes",
    (Opening(*_ALL, "10.128.0.0/9"), Opening(22, 22, "0.0.0.0/0")),
    kind=KIND,
    blocks=("10.128.0.0/9",),
)
"""The network that SkyPilot launches in where its settings name none: the first one that lets in this much, else one of
its own, `skypilot-vpc`, whose rules are these (SkyPilot 0.14, provision/gcp/constants.py FIREWALL_RULES_REQUIRED)."""


def gcp_firewall(region: str, environment: Mapping[str, str]) -> Firewall:
    """Return the rules of the network that SkyPilot's settings name (`gcp.vpc_name`), else of the one that it takes by
    itself. Raises NoNetworkError where that network is missing, or has no subnetwork in the region; SourceError. Needed
    are compute.networks.getEffectiveFirewalls and compute.subnetworks.list."""
    name = sky_settings(environment, "gcp").get("vpc_name")
    if not isinstance(name, str):
        return _SKYPILOTS
    access = gcp_access(environment)
    project, _, vpc = name.rpartition("/")
    project = project or access.project
    found = asked(partial(_rules, access, project, vpc), f"firewall rules of network {name}")
    blocks = tuple(asked(partial(_blocks, access, project, vpc, region), f"subnetworks in {region}"))
    if found is None or not blocks:
        lacks = f"has no subnetwork in {region}" if found is not None else f"is not in project {project}"
        raise NoNetworkError(f"network {vpc}, which `gcp: vpc_name` in SkyPilot's settings names, {lacks}")
    rules, policies = found
    node = _NODES.format(access.project)
    listed = [each for rule in rules for each in _openings(rule, node, vpc)]
    return Firewall(
        vpc,
        tuple(opening for is_open, opening in listed if is_open),
        kind=KIND,
        closings=tuple(opening for is_open, opening in listed if not is_open),
        blocks=blocks,
        is_whole=not any(_matters(rule) for policy in policies for rule in policy.rules),
    )


def _rules(access: GcpAccess, project: str, vpc: str) -> tuple[list[Any], list[Any]] | None:
    """Return the rules of a network, and the policies that count before them; None: there is no such network."""
    from google.api_core.exceptions import NotFound
    from google.cloud import compute_v1

    client = access.client(compute_v1.NetworksClient, "COMPUTE")
    request = compute_v1.GetEffectiveFirewallsNetworkRequest(project=project, network=vpc)
    try:
        found = client.get_effective_firewalls(request=request, retry=retry(), timeout=TIMEOUT_S)
    except NotFound:
        return None
    return list(found.firewalls), list(found.firewall_policys)


def _blocks(access: GcpAccess, project: str, vpc: str, region: str) -> Iterator[str]:
    """Yield the blocks of addresses of a network's subnetworks in a region."""
    from google.cloud import compute_v1

    client = access.client(compute_v1.SubnetworksClient, "COMPUTE")
    request = compute_v1.ListSubnetworksRequest(project=project, region=region, max_results=500)
    for page in bounded(client.list(request=request, retry=retry(), timeout=TIMEOUT_S).pages, "subnetworks"):
        yield from (each.ip_cidr_range for each in page.items if each.network.rpartition("/")[2] == vpc)


def _openings(rule: Any, node: str, vpc: str) -> Iterator[tuple[bool, Opening]]:
    """Yield what a rule opens (True) or shuts (False) to nodes."""
    targets_nodes = not rule.target_tags and (not rule.target_service_accounts or node in rule.target_service_accounts)
    if rule.direction != _INGRESS or rule.disabled or not targets_nodes:
        return
    accounts = [vpc if each == node else each for each in rule.source_service_accounts]
    named = (*rule.source_ranges, *accounts, *(f"tag {tag}" for tag in rule.source_tags))
    for is_open, protocols in ((True, rule.allowed), (False, rule.denied)):
        for each in protocols:
            if each.I_p_protocol in (*_TCP, "all"):
                for first, last in map(_range, each.ports or ("0-65535",)):
                    yield from ((is_open, Opening(first, last, source, rule.priority)) for source in named)


def _range(ports: str) -> tuple[int, int]:
    first, _, last = ports.partition("-")
    return int(first), int(last or first)


def _matters(rule: Any) -> bool:
    """Tell whether a rule of a firewall policy may let somebody in, or shut somebody out; those that every network has
    only leave it to the next."""
    return bool(rule.direction == _INGRESS and rule.action != "goto_next" and not rule.disabled)

"""Section of a spec file about the networks that nodes are in, and which of them reach each other."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from control.fleet_file.section import SpecSection, known, names_of
from templates_lib.values.clouds import OWNED, Span, cloud_kind


def _network(name: str, info: ValidationInfo) -> str:
    """A network as `templates_lib.values.reach` names it. Zones of one's own machines, and clouds of offer files, are
    the file's to name."""
    regions = names_of(info).regions
    cloud, _, within = name.partition("/")
    span = cloud_kind(cloud).span
    if span is Span.NONE:
        raise ValueError(f"no other machine reaches a node of {cloud} by a private address: leave it out")
    if cloud == OWNED:
        if not within:
            raise ValueError(f"name the zone of your machines: {OWNED}/ZONE")
        return name
    if cloud not in regions:
        if within:
            raise ValueError(f"a cloud of offer files is one network: name {cloud!r}, without {within!r}")
        return name
    if span is Span.CLOUD:
        if within:
            raise ValueError(f"{cloud} is one network over all its regions: name {cloud!r}, without {within!r}")
        return name
    if not within:
        raise ValueError(f"{cloud} has a network in each region: name {cloud}/REGION")
    return f"{cloud}/{known(f'region of {cloud}', within, regions[cloud])}"


NetworkName = Annotated[str, AfterValidator(_network)]


class PeeringSection(SpecSection):
    """Networks that you have joined: each reaches each other by private addresses."""

    networks: Annotated[list[NetworkName], Field(min_length=2)]
    """The networks, such as `aws/us-east-2` and `gcp`."""


class NetworkSection(SpecSection):
    """Networks that nodes are launched in: on AWS one a region, such as `aws/us-east-2`; `gcp` is one over all
    regions; machines of one's own have one a zone, such as `owned/hall-a`. A node of RunPod is
    reached by no other, and by gateways wherever they are."""

    peered: list[PeeringSection] = Field(default=[])
    """Groups of networks that you have joined (VPC peering, a transit gateway, a VPN). Nothing is passed on from group
    to group. Default: none."""
    gateways: NetworkName | None = None
    """The network that gateways and the control plane are in: nothing is rented where they do not reach. Default:
    it is not known, and they are taken to reach all."""
    overlay: Literal["none", "wireguard"] = "none"
    """A network of Medley's own: `wireguard` joins each node rented from AWS or GCP to the control plane's machine, on
    which gateways are to run, so that neither needs a way in to nodes. KV caches do not go over it."""

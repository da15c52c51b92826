"""Section of a spec file about a cloud: what of it may be rented, or which machines of one's own there are."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from control.fleet_file.numbers import Count, NonNegative, Positive, Whole
from control.fleet_file.section import FilePath, Name, SpecSection, check_different, known, names_of
from templates_lib.values.clouds import CLOUDS, LOCAL, OWNED
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.offer import Market


def _gpu(name: str, info: ValidationInfo) -> str:
    return known("GPU", name, names_of(info).gpus)


def _cloud(name: str, info: ValidationInfo) -> str:
    return known("cloud", name, frozenset(names_of(info).regions))


_CLOUDS = ", ".join(f"`{name}`" for name, kind in CLOUDS.items() if kind.has_prices)
CloudName = Annotated[str, AfterValidator(_cloud), Field(description=f"One of {_CLOUDS}.")]


def _kind_name(name: str, info: ValidationInfo) -> str:
    if name in names_of(info).gpus:
        raise ValueError(f"{name!r} is a GPU: a kind of local node needs another name")
    return name


class KindSection(SpecSection):
    """A kind of local node: a share of this machine."""

    name: Annotated[Name, AfterValidator(_kind_name)]
    """A name of its own, which no GPU has."""
    cpu_cores: Positive
    """Share of the processors: 0.5 is half of one."""
    memory_mib: Count
    """Memory for weights and KV cache; what the node's processes need comes on top."""
    stock: Count
    """Number of nodes of the kind that there may be."""
    usd_per_hour: Positive
    """Nominal price of a node."""


def _node_config(name: str) -> str:
    try:
        return node_config_from_id(name).id
    except LookupError as error:
        raise ValueError(str(error)) from None


class HostSection(SpecSection):
    """A machine of one's own, which is one node."""

    name: Name
    """Unique among all hosts of all fleets."""
    address: str
    """Host name or address that SSH reaches it by."""
    port: Annotated[Whole, Field(ge=1, le=65535)] = 22
    """Port of its SSH server."""
    user: str
    """The user that nodes run as."""
    host_key: str
    """Public key of the host, type and key. No other is accepted."""
    key_file: FilePath | None = None
    """The private key to log in with, relative to the spec file; default: what an SSH agent holds."""
    node_config: Annotated[str, AfterValidator(_node_config)]
    """Node configuration of the machine, such as `H100:8/n200`."""
    zone: Name = OWNED
    """Hosts of a zone reach each other. Those of one zone and node_config are a pool, for all fleets."""
    usd_per_hour: NonNegative = 0.0
    """Price that is stated, or 0: it is sunk."""
    python: Annotated[str, Field(max_length=256)] = ""
    """Python of the environment that Medley's agent is installed in on it. Default: `python3`."""


class CloudSection(SpecSection):
    cloud: CloudName
    regions: Annotated[list[str], Field(min_length=1)] | None = None
    """Default: every region that the offers know."""
    gpus: Annotated[list[Annotated[str, AfterValidator(_gpu)]], Field(min_length=1)] | None = None
    """Default: every GPU."""
    counts: Annotated[list[Count], Field(min_length=1)] | None = None
    """GPUs per node. Default: every size that is sold."""
    markets: Annotated[list[Market], Field(min_length=1)] = Field(default=[Market.ON_DEMAND])
    """Markets to rent on."""
    derived: bool = False
    """Offer sizes of `counts` that are not sold as well, priced per GPU from the nearest sold size and labelled so."""
    kinds: Annotated[list[KindSection], Field(min_length=1)] | None = None
    """Kinds of node of cloud `local`, whose nodes are processes of the control plane's machine. Default: three."""
    hosts: Annotated[list[HostSection], Field(min_length=1, max_length=1000)] | None = None
    """Machines of cloud `owned`, each one node, reached over SSH."""

    @model_validator(mode="after")
    def _local(self) -> Self:
        given = self.model_fields_set - {"cloud", "kinds"}
        if self.cloud == LOCAL and given:
            raise ValueError(f"the local cloud has kinds, and no {', '.join(sorted(given))}")
        if self.cloud != LOCAL and self.kinds is not None:
            raise ValueError(f"kinds are of cloud {LOCAL!r}; what {self.cloud} has is known")
        check_different("kinds", [kind.name for kind in self.kinds or ()])
        return self

    @model_validator(mode="after")
    def _owned(self) -> Self:
        given = self.model_fields_set - {"cloud", "hosts"}
        if self.cloud == OWNED and (given or self.hosts is None):
            raise ValueError(f"cloud {OWNED!r} has hosts, and no {', '.join(sorted(given)) or 'other keys'}")
        if self.cloud != OWNED and self.hosts is not None:
            raise ValueError(f"hosts are of cloud {OWNED!r}; {self.cloud} rents")
        check_different("hosts", [host.name for host in self.hosts or ()])
        prices: dict[tuple[str, str], float] = {}
        for host in self.hosts or ():
            price = prices.setdefault((host.zone, host.node_config), host.usd_per_hour)
            if price != host.usd_per_hour:
                raise ValueError(
                    f"the {host.node_config} in {host.zone} cost {price:g} and {host.usd_per_hour:g} $/h: "
                    "state one price, or put them into different zones"
                )
        return self

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.derived and not (self.counts and self.gpus):
            raise ValueError("derived sizes need gpus and counts, so that what is made up is spelled out")
        return self

"""Schema of an offers file: `apiVersion: medley/v1`, `kind: Offers`. The format is shown in control.offers.file."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from control.fleet_file.numbers import NonNegative, NonNegativeCount, Positive
from control.fleet_file.section import SpecSection
from control.offers.availability import Availability
from control.offers.availability import availability as availability_of
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.node_config import NodeConfig, network_class
from templates_lib.values.offer import Market, Offer


class OfferSection(SpecSection):
    cloud: Annotated[str, Field(min_length=1)]
    region: Annotated[str, Field(min_length=1)]
    zone: str | None = None
    instance_type: Annotated[str, Field(min_length=1)]
    node_config: str
    market: Market
    usd_per_hour: NonNegative
    available: NonNegativeCount | None = None
    interruptions_per_hour: NonNegative = 0.0
    intra_node_gbps: Positive | None = None
    network_gbps: NonNegative | None = None
    host_memory_gib: Positive | None = None

    @field_validator("node_config")
    @classmethod
    def _known(cls, config: str) -> str:
        try:
            return node_config_from_id(config).id
        except LookupError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.usd_per_hour == 0 and self.market is not Market.OWNED:
            raise ValueError(f"a price of 0 is for market: owned, not {self.market.value}")
        shape = node_config_from_id(self.node_config)
        if self.network_gbps is not None and network_class(self.network_gbps) != shape.network_class:
            raise ValueError(
                f"network_gbps {self.network_gbps:g} is class n{network_class(self.network_gbps)}, "
                f"but node_config is {self.node_config}"
            )
        return self

    def config(self) -> NodeConfig:
        """The shape that the id promises, with what the file says of this machine."""
        known = node_config_from_id(self.node_config)
        given = (self.intra_node_gbps, self.network_gbps, self.host_memory_gib)
        shape = (known.intra_node_gbps, known.network_gbps, known.host_memory_gib)
        intra, network, memory = (k if g is None else g for g, k in zip(given, shape, strict=True))
        return NodeConfig(known.id, known.gpu, known.gpu_count, intra, network, memory)

    def offer(self, observed_at: str, source: str) -> Offer:
        return Offer(
            cloud=self.cloud,
            region=self.region,
            zone=self.zone or self.region,
            instance_type=self.instance_type,
            node_config=self.node_config,
            market=self.market,
            usd_per_hour=self.usd_per_hour,
            available_count=self.available,
            observed_at=observed_at,
            interruptions_per_hour=self.interruptions_per_hour,
            source=source,
        )


class PoolSection(SpecSection):
    id: Annotated[str, Field(min_length=1)]
    limit: NonNegative
    unit: str = "nodes"
    members: Annotated[dict[str, Positive], Field(min_length=1)]
    """Offer key (`cloud/zone/instance_type/market`) → what one node of it takes."""


class TrafficSection(SpecSection):
    source: str
    target: str
    usd_per_gb: NonNegative


class OfferAvailability(SpecSection):
    zone: str
    config: str
    market: str
    available: NonNegativeCount

    @model_validator(mode="after")
    def _readable(self) -> Self:
        self.fact()
        return self

    def fact(self) -> Availability:
        return availability_of(self.zone, self.config, self.market, str(self.available))


class OffersDocument(SpecSection):
    apiVersion: Literal["medley/v1"]  # noqa: N815 - as in every file of this kind
    kind: Literal["Offers"]
    observed_at: str = ""
    """ISO 8601: when these prices held."""
    offers: list[OfferSection] = Field(default=[])
    pools: list[PoolSection] = Field(default=[])
    traffic: list[TrafficSection] = Field(default=[])
    availability: list[OfferAvailability] = Field(default=[])

    @field_validator("observed_at", mode="before")
    @classmethod
    def _date(cls, value: Any) -> Any:
        return value.isoformat() if hasattr(value, "isoformat") else value

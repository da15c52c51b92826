"""Suppositions of a plan (what-if) as a document."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from control.api.text import Readable
from templates_lib.values.offer import Market

Word = Annotated[str, StringConstraints(min_length=1, max_length=200), Readable]
_MAX_CHANGES = 100


class OfferChoiceBody(BaseModel):
    """Offers that fit everything that is given; nothing given: all."""

    model_config = ConfigDict(extra="forbid")

    cloud: Word | None = None
    region: Word | None = None
    zone: Word | None = Field(default=None, description="Inside the cloud.")
    gpu: Word | None = None
    market: Market | None = None
    offer: Word | None = Field(default=None, description="Key of one.")


class PriceChangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    where: OfferChoiceBody = OfferChoiceBody()
    factor: float = Field(gt=0, le=1000, allow_inf_nan=False)


class AvailabilityChangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    where: OfferChoiceBody = OfferChoiceBody()
    nodes: int = Field(ge=0, le=100_000, description="Nodes of each offer that can be rented beyond those held.")


class DemandChangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: Word | None = Field(default=None, description="As the fleet calls it; null: all.")
    factor: float | None = Field(default=None, gt=0, le=1000, allow_inf_nan=False)
    requests_per_s: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one(self) -> "DemandChangeBody":
        if (self.factor is None) == (self.requests_per_s is None):
            raise ValueError("give either factor or requests_per_s")
        return self


class WhatIfBody(BaseModel):
    """Applied in this order. Another SLO or policy is another `spec`."""

    model_config = ConfigDict(extra="forbid")

    without: list[OfferChoiceBody] = Field(
        default=[], max_length=_MAX_CHANGES, description="Offers that cannot be rented, and what is held there is gone."
    )
    prices: list[PriceChangeBody] = Field(default=[], max_length=_MAX_CHANGES)
    availability: list[AvailabilityChangeBody] = Field(default=[], max_length=_MAX_CHANGES)
    demand: list[DemandChangeBody] = Field(default=[], max_length=_MAX_CHANGES)

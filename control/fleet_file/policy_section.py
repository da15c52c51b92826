"""What a spec file says of what a plan may look like."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from control.fleet_file.numbers import NonNegative, NonNegativeCount, Number, Positive, Share
from control.fleet_file.section import Section
from templates_lib.values.settings import Mode, Settings, Survive

DEFAULT = Settings()


class ReplicasSection(Section):
    min: NonNegativeCount = 0
    max: NonNegativeCount | None = None

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self


class PolicySection(Section):
    mode: Mode = DEFAULT.mode
    utilisation_cap: Annotated[Number, Field(gt=0, le=1)] = DEFAULT.utilisation_cap
    max_usd_per_hour: NonNegative | None = None
    max_spot_share: Share = DEFAULT.guardrails.max_spot_share
    max_zone_share: Share = DEFAULT.guardrails.max_zone_share
    max_unproven_nodes: NonNegativeCount = DEFAULT.guardrails.max_unproven_nodes
    replicas: dict[str, ReplicasSection] = Field(default={})
    """By work class: `<model>/<phase>`."""
    survive: Survive = DEFAULT.survive
    survive_share: Share = DEFAULT.survive_share
    startup_minutes: NonNegative = DEFAULT.startup_minutes
    adjustment_interval_minutes: Positive = DEFAULT.adjustment_interval_minutes
    restart_hours: NonNegative = DEFAULT.restart_hours

"""The routing table of the release before, to compare with.

The control plane publishes it; a gateway serves from the last one it has, whatever happens to the rest.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

WHOLE = "whole"
PREFILL = "prefill"
DECODE = "decode"
LEGS = (WHOLE, PREFILL, DECODE)
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RoutedInstance:
    id: str
    zone: str
    leg: str
    """`whole`, `prefill` or `decode`: which part of a request it does."""
    prompt_tokens_per_s: float = 0.0
    """Certified capacity; 0 where the leg does none of it."""
    output_tokens_per_s: float = 0.0

    def __post_init__(self) -> None:
        if self.leg not in LEGS:
            raise ValueError(f"instance {self.id}: leg must be one of {', '.join(LEGS)}, is {self.leg!r}")
        if not self.weight > 0:
            raise ValueError(f"instance {self.id}: a {self.leg} instance needs a throughput above 0")

    @property
    def weight(self) -> float:
        """Share of the requests among its like: throughput of the unit that its leg is bought for."""
        return self.prompt_tokens_per_s if self.leg == PREFILL else self.output_tokens_per_s


@dataclass(frozen=True, slots=True)
class ZoneFlow:
    """Planned requests over one zone per leg: (zone,) served whole, (prefill zone, decode zone) otherwise."""

    zones: tuple[str, ...]
    requests_per_s: float

    def __post_init__(self) -> None:
        if len(self.zones) not in (1, 2):
            raise ValueError(f"a flow has one zone, or one for prefill and one for decode, not {len(self.zones)}")
        if not self.requests_per_s > 0:
            raise ValueError(f"the flow over {' and '.join(self.zones)} must be above 0 requests/s")

    @property
    def legs(self) -> tuple[str, ...]:
        return (WHOLE,) if len(self.zones) == 1 else (PREFILL, DECODE)

    @property
    def key(self) -> str:
        return " > ".join(self.zones)


@dataclass(frozen=True, slots=True)
class RoutedModel:
    id: str
    instances: tuple[RoutedInstance, ...] = ()
    flows: tuple[ZoneFlow, ...] = field(default=())
    """Empty: no plan says, requests spread over what there is by throughput."""

    def __post_init__(self) -> None:
        ids = [instance.id for instance in self.instances]
        if len(set(ids)) != len(ids):
            raise ValueError(f"model {self.id}: instance ids repeat")
        keys = [flow.key for flow in self.flows]
        if len(set(keys)) != len(keys):
            raise ValueError(f"model {self.id}: flows repeat")

    def tokens_per_s(self, unusable: Collection[str] = _NOBODY) -> tuple[float, float]:
        """(prompt, output) capacity of the instances that can be used.

        With none it stays nominal: requests then wait a little for one to come back, instead of being turned away.
        """
        counted = [i for i in self.instances if i.id not in unusable] or list(self.instances)
        prompt = sum(i.prompt_tokens_per_s for i in counted if i.leg in (WHOLE, PREFILL))
        return prompt, sum(i.output_tokens_per_s for i in counted if i.leg in (WHOLE, DECODE))

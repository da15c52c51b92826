"""Values that a router may see: models, the routes that their requests take, and who serves the legs.

The control plane publishes it; a gateway serves from the last one it has, whatever happens to the rest.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from templates_lib.values.slo import Slo
from templates_lib.values.work import Edge, Unit

_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PromptTimes:
    """Times of a prompt at a member, for each of `policies.slack.PROMPT_POINTS` tokens, seconds."""

    latency_s: tuple[float, ...]
    """From its start to its first token, alone."""
    busy_s: tuple[float, ...]
    """Until the member can begin another."""
    chunk_tokens: int
    """Prompt tokens of one step, up to which prompts are put together."""
    latency_s_per_square: float = 0.0
    """Seconds for each square token of a prompt, as all its tokens attend to those before: prompts that share a step
    attend to their own alone, so that it takes less time than one prompt of as many tokens."""
    busy_s_per_square: float = 0.0


@dataclass(frozen=True, slots=True)
class RoutedInstance:
    """A member: an instance, or one executor of a unit."""

    id: str
    """`INSTANCE` or `INSTANCE/EXECUTOR`: the key of its scheduler's address."""
    zone: str
    units_per_s: Mapping[str, float]
    """Certified capacity by work class: the legs that it serves, and its share of each among its like."""
    times: PromptTimes | None = None
    """None: not known, and taken to be nothing."""
    usd_per_hour: float = 0.0

    def __post_init__(self) -> None:
        if not self.units_per_s or not all(0 < rate < inf for rate in self.units_per_s.values()):
            raise ValueError(f"instance {self.id}: it needs a throughput above 0 of every work class that it serves")


@dataclass(frozen=True, slots=True)
class ZoneFlow:
    """Planned requests over one zone per leg."""

    zones: tuple[str, ...]
    requests_per_s: float

    def __post_init__(self) -> None:
        if not self.requests_per_s > 0:
            raise ValueError(f"the flow over {' and '.join(self.zones)} must be above 0 requests/s")


@dataclass(frozen=True, slots=True)
class RoutedLeg:
    work_class: str
    unit: Unit
    units_per_request: float
    """Work that a mean request brings."""


@dataclass(frozen=True, slots=True)
class RoutedRoute:
    """A way to serve requests. A leg gives its result to those that edges lead to; the last leg answers the client."""

    id: str
    legs: tuple[RoutedLeg, ...]
    edges: tuple[Edge, ...] = ()
    flows: tuple[ZoneFlow, ...] = ()

    def __post_init__(self) -> None:
        last = len(self.legs) - 1
        if (
            not self.legs
            or {edge.source for edge in self.edges} != set(range(last))
            or any(not edge.source < edge.target <= last for edge in self.edges)
        ):
            raise ValueError(f"route {self.id}: edges must lead from every leg but the last to later ones")
        if not all(leg.units_per_request > 0 for leg in self.legs):
            raise ValueError(f"route {self.id}: a leg needs work above 0 per request")
        for flow in self.flows:
            if len(flow.zones) != len(self.legs):
                raise ValueError(f"route {self.id}: a flow has one zone for each of {len(self.legs)} legs, not {flow}")
        if len({flow.zones for flow in self.flows}) != len(self.flows):
            raise ValueError(f"route {self.id}: flows repeat")

    def work_class_of(self, unit: Unit) -> str:
        """Class of the first leg that counts `unit`; of the last leg, which answers, where none does."""
        return next((leg.work_class for leg in self.legs if leg.unit is unit), self.legs[-1].work_class)

    def requests_per_s(self, units_per_s: Mapping[str, float]) -> float:
        """Rate that capacity by work class allows: that of the narrowest leg."""
        return min(units_per_s.get(leg.work_class, 0.0) / leg.units_per_request for leg in self.legs)


@dataclass(frozen=True, slots=True)
class ClassRate:
    """Usable capacity of a leg's work class, and the share of a model's requests that take the leg."""

    leg: RoutedLeg
    share: float
    units_per_s: float


@dataclass(frozen=True, slots=True)
class RoutedModel:
    id: str
    routes: tuple[RoutedRoute, ...] = ()
    """Without flows in any of them no plan says, and requests spread over what there is by throughput."""
    members: tuple[RoutedInstance, ...] = ()
    policy: str = "wrr-v1"
    """A key of `policies.routing.ROUTING_POLICIES`."""
    objective: Slo | None = None
    """None: no request is due at any time."""

    def __post_init__(self) -> None:
        for what, ids in (("routes", self.routes), ("members", self.members)):
            if len({each.id for each in ids}) != len(ids):
                raise ValueError(f"model {self.id}: ids of {what} repeat")

    def rates(self, unusable: Collection[str] = _NOBODY) -> tuple[ClassRate, ...]:
        """Capacity by leg of the members that can be used; routes share requests by what they can do.

        With no member it stays nominal: requests then wait a little for one to come back, instead of being turned away.
        """
        counted = [member for member in self.members if member.id not in unusable] or self.members
        units_per_s: dict[str, float] = {}
        for member in counted:
            for name, rate in member.units_per_s.items():
                units_per_s[name] = units_per_s.get(name, 0.0) + rate
        able = [route.requests_per_s(units_per_s) for route in self.routes]
        total = sum(able)
        return tuple(
            ClassRate(leg, each / total if total else 1 / len(able), units_per_s.get(leg.work_class, 0.0))
            for route, each in zip(self.routes, able, strict=True)
            for leg in route.legs
            if each or not total
        )

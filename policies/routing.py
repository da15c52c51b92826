"""Where a request goes: a zone by planned flow, then an instance of each leg by throughput, both by smooth round-robin.

A plan's flows say where KV caches may travel, so they come first. When no instance of any flow can be used, whatever
still serves the model does: within a zone first, then across zones (serving on beats the price of traffic).
"""

from collections.abc import Collection, Iterable
from copy import copy
from itertools import product

from policies.routing_table import DECODE, PREFILL, WHOLE, RoutedInstance, RoutedModel, ZoneFlow
from policies.smooth_wrr import SmoothWrr

_NOBODY: frozenset[str] = frozenset()


class ModelRouter:
    """Routes requests of one model; the table may change at any time."""

    def __init__(self, model: RoutedModel) -> None:
        self._tiers = (_Tier(), _Tier(), _Tier())
        self._picks: dict[tuple[str, str], SmoothWrr] = {}
        self.update(model)

    def update(self, model: RoutedModel) -> None:
        """Take a new table; what the members of the old one have had counts on."""
        self.model = model
        self._instances = {instance.id: instance for instance in model.instances}
        near, far = _possible_flows(model)
        for tier, flows in zip(self._tiers, (model.flows, near, far), strict=True):
            tier.update(flows)
        members: dict[tuple[str, str], dict[str, float]] = {}
        for instance in model.instances:
            members.setdefault((instance.zone, instance.leg), {})[instance.id] = instance.weight
        self._picks = {place: self._picks.get(place, SmoothWrr()) for place in members}
        for place, weights in members.items():
            self._picks[place].set_weights(weights)

    def twin(self) -> "ModelRouter":
        """Another one that will choose the same."""
        other = copy(self)
        planned, near, far = self._tiers
        other._tiers = planned.twin(), near.twin(), far.twin()
        other._picks = {place: picks.twin() for place, picks in self._picks.items()}
        return other

    def choose(self, unusable: Collection[str] = _NOBODY) -> tuple[RoutedInstance, ...]:
        """One instance (whole) or two (prefill, decode); none when `unusable` instance ids leave no way to serve."""
        for tier in self._tiers:
            blocked = {key for key, flow in tier.flows.items() if not self._is_open(flow, unusable)}
            key = tier.picks.pick(blocked)
            if key is not None:
                return tuple(self._pick(place, unusable) for place in _places(tier.flows[key]))
        return ()

    def can_choose(self, unusable: Collection[str] = _NOBODY) -> bool:
        """Whether `choose` finds a way."""
        return any(self._is_open(flow, unusable) for tier in self._tiers for flow in tier.flows.values())

    def _pick(self, place: tuple[str, str], unusable: Collection[str]) -> RoutedInstance:
        chosen = self._picks[place].pick(unusable)
        assert chosen is not None  # noqa: S101 - `choose` asked for open flows only
        return self._instances[chosen]

    def _is_open(self, flow: ZoneFlow, unusable: Collection[str]) -> bool:
        return all(
            place in self._picks and any(member not in unusable for member in self._picks[place].weights)
            for place in _places(flow)
        )


class _Tier:
    """Flows that are as good as each other."""

    def __init__(self) -> None:
        self.flows: dict[str, ZoneFlow] = {}
        self.picks = SmoothWrr()

    def twin(self) -> "_Tier":
        other = _Tier()
        other.flows, other.picks = self.flows, self.picks.twin()
        return other

    def update(self, flows: Iterable[ZoneFlow]) -> None:
        self.flows = {flow.key: flow for flow in flows}
        self.picks.set_weights({key: flow.requests_per_s for key, flow in self.flows.items()})


def _places(flow: ZoneFlow) -> list[tuple[str, str]]:
    return list(zip(flow.zones, flow.legs, strict=True))


def _possible_flows(model: RoutedModel) -> tuple[list[ZoneFlow], list[ZoneFlow]]:
    """Every way that the instances allow, within a zone and across two, each as wide as its narrowest leg."""
    rate: dict[tuple[str, str], float] = {}
    for instance in model.instances:
        place = (instance.zone, instance.leg)
        rate[place] = rate.get(place, 0.0) + instance.weight
    zones = {leg: sorted(zone for zone, of in rate if of == leg) for leg in (WHOLE, PREFILL, DECODE)}
    near = [ZoneFlow((zone,), rate[zone, WHOLE]) for zone in zones[WHOLE]]
    far: list[ZoneFlow] = []
    for start, end in product(zones[PREFILL], zones[DECODE]):
        flow = ZoneFlow((start, end), min(rate[start, PREFILL], rate[end, DECODE]))
        (near if start == end else far).append(flow)
    return near, far

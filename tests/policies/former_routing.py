"""The router of the release before, to compare with.

A plan's flows say where KV caches may travel, so they come first. When no instance of any flow can be used, whatever
still serves the model does: within a zone first, then across zones (serving on beats the price of traffic).
"""

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from itertools import product

from policies.smooth_wrr import SmoothWrr
from tests.policies.former_routing_table import DECODE, PREFILL, WHOLE, RoutedInstance, RoutedModel, ZoneFlow

_NOBODY: frozenset[str] = frozenset()
Place = tuple[str, str]
"""Zone and leg."""


@dataclass(frozen=True, slots=True)
class _Ways:
    """What is open while just these instances cannot be used."""

    unusable: frozenset[str]
    tier: int
    """The first that has an open flow; -1: none has."""
    blocked: frozenset[str]
    """Its other flows."""
    skipped: dict[Place, frozenset[str]]
    """Members of each place that cannot be used."""


class ModelRouter:
    """Routes requests of one model; the table may change at any time."""

    def __init__(self, model: RoutedModel) -> None:
        self._tiers = (_Tier(), _Tier(), _Tier())
        self._picks: dict[Place, SmoothWrr] = {}
        self._seen: _Ways | None = None
        self.update(model)

    def update(self, model: RoutedModel) -> None:
        """Take a new table; what the members of the old one have had counts on."""
        self.model = model
        self._instances = {instance.id: instance for instance in model.instances}
        near, far = _possible_flows(model)
        for tier, flows in zip(self._tiers, (model.flows, near, far), strict=True):
            tier.update(flows)
        members: dict[Place, dict[str, float]] = {}
        for instance in model.instances:
            members.setdefault((instance.zone, instance.leg), {})[instance.id] = instance.weight
        self._picks = {place: self._picks.get(place, SmoothWrr()) for place in members}
        for place, weights in members.items():
            self._picks[place].set_weights(weights)
        self._seen = None

    def twin(self) -> "ModelRouter":
        """Another one that will choose the same."""
        other = copy(self)
        planned, near, far = self._tiers
        other._tiers = planned.twin(), near.twin(), far.twin()
        other._picks = {place: picks.twin() for place, picks in self._picks.items()}
        return other

    def choose(self, unusable: Collection[str] = _NOBODY) -> tuple[RoutedInstance, ...]:
        """One instance (whole) or two (prefill, decode); none when `unusable` instance ids leave no way to serve."""
        ways = self._ways(unusable)
        if ways.tier < 0:
            return ()
        tier = self._tiers[ways.tier]
        key = tier.picks.pick(ways.blocked)
        assert key is not None
        return tuple([self._pick(place, ways.skipped[place]) for place in tier.places[key]])

    def can_choose(self, unusable: Collection[str] = _NOBODY) -> bool:
        """Whether `choose` finds a way."""
        return self._ways(unusable).tier >= 0

    def _pick(self, place: Place, skipped: frozenset[str]) -> RoutedInstance:
        chosen = self._picks[place].pick(skipped)
        assert chosen is not None
        return self._instances[chosen]

    def _ways(self, unusable: Collection[str]) -> _Ways:
        """What can be used changes far less often than choices are made."""
        unusable, seen = frozenset(unusable), self._seen
        if seen is None or (unusable is not seen.unusable and unusable != seen.unusable):
            seen = self._seen = self._seek(unusable)
        return seen

    def _seek(self, unusable: frozenset[str]) -> _Ways:
        skipped = {place: unusable.intersection(picks.weights) for place, picks in self._picks.items()}
        open_places = {place for place, skip in skipped.items() if len(skip) < len(self._picks[place].weights)}
        for number, tier in enumerate(self._tiers):
            blocked = frozenset(key for key, places in tier.places.items() if not open_places.issuperset(places))
            if len(blocked) < len(tier.places):
                return _Ways(unusable, number, blocked, skipped)
        return _Ways(unusable, -1, _NOBODY, skipped)


class _Tier:
    """Flows that are as good as each other."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[Place, ...]] = {}
        """Of each flow, by its key."""
        self.picks = SmoothWrr()

    def twin(self) -> "_Tier":
        other = _Tier()
        other.places, other.picks = self.places, self.picks.twin()
        return other

    def update(self, flows: Collection[ZoneFlow]) -> None:
        self.places = {flow.key: tuple(zip(flow.zones, flow.legs, strict=True)) for flow in flows}
        self.picks.set_weights({flow.key: flow.requests_per_s for flow in flows})


def _possible_flows(model: RoutedModel) -> tuple[list[ZoneFlow], list[ZoneFlow]]:
    """Every way that the instances allow, within a zone and across two, each as wide as its narrowest leg."""
    rate: dict[Place, float] = {}
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

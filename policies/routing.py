"""Where a request goes: a route and its zones by planned flow, then a member for each leg by throughput, all by smooth
round-robin.

A plan's flows say where KV caches may travel, so they come first. When no member of any flow can be used, whatever
still serves the model does: within a zone first, then across zones (serving on beats the price of traffic).
"""

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass

from policies.routing_table import RoutedInstance, RoutedModel, RoutedRoute
from policies.smooth_wrr import SmoothWrr

_NOBODY: frozenset[str] = frozenset()
Place = tuple[str, str]
"""Zone and work class."""


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    route: RoutedRoute
    members: tuple[RoutedInstance, ...]
    """One for each leg."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A route with the zones of its legs."""

    route: RoutedRoute
    zones: tuple[str, ...]
    """Of each leg; where `is_far`, of the first and the last: those between are done where something can be used."""
    requests_per_s: float
    """Planned, or what its zones can do: requests go to options of a tier by it."""
    is_far: bool = False

    @property
    def key(self) -> str:
        """Sorts by zones, then by route."""
        return f"{' > '.join(self.zones)}\0{self.route.id}"

    def places(self, is_open: Collection[Place], widest: Iterable[Place]) -> tuple[Place, ...]:
        """`widest`: all places, those with the most capacity first."""
        classes = [leg.work_class for leg in self.route.legs]
        if not self.is_far:
            return tuple(zip(self.zones, classes, strict=True))
        between = []
        for each in classes[1:-1]:
            own = [(zone, each) for zone in self.zones]
            other = (place for place in widest if place[1] == each)
            between.append(next((place for place in (*own, *other) if place in is_open), own[0]))
        return ((self.zones[0], classes[0]), *between, (self.zones[1], classes[-1]))


@dataclass(frozen=True, slots=True)
class _Ways:
    """What is open while just these members cannot be used."""

    unusable: frozenset[str]
    tier: int
    """The first that has an open option; -1: none has."""
    blocked: frozenset[str]
    """Its other options."""
    places: Mapping[str, tuple[Place, ...]]
    """Those of its open options, by key."""
    skipped: Mapping[Place, frozenset[str]]
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
        self._members = {member.id: member for member in model.members}
        served = {leg.work_class for route in model.routes for leg in route.legs}
        places: dict[Place, dict[str, float]] = {}
        for member in model.members:
            for work_class, rate in member.units_per_s.items():
                if work_class in served:
                    places.setdefault((member.zone, work_class), {})[member.id] = rate
        self._picks = {place: self._picks.get(place, SmoothWrr()) for place in places}
        for place, weights in places.items():
            self._picks[place].set_weights(weights)
        rates = {place: sum(weights.values()) for place, weights in places.items()}
        self._widest = sorted(rates, key=lambda place: (-rates[place], place))
        planned = [_Option(route, flow.zones, flow.requests_per_s) for route in model.routes for flow in route.flows]
        for tier, options in zip(self._tiers, (planned, _near(model, rates), _far(model, rates)), strict=True):
            tier.update(options)
        self._seen = None

    def twin(self) -> "ModelRouter":
        """Another one that will choose the same."""
        other = copy(self)
        planned, near, far = self._tiers
        other._tiers = planned.twin(), near.twin(), far.twin()
        other._picks = {place: picks.twin() for place, picks in self._picks.items()}
        return other

    def choose(self, unusable: Collection[str] = _NOBODY) -> ChosenRoute | None:
        """A route and a member for each leg; None when `unusable` member ids leave no way to serve."""
        ways = self._ways(unusable)
        if ways.tier < 0:
            return None
        tier = self._tiers[ways.tier]
        key = tier.picks.pick(ways.blocked)
        assert key is not None  # noqa: S101 - some option of the tier is open
        members = tuple([self._pick(place, ways.skipped[place]) for place in ways.places[key]])
        return ChosenRoute(tier.options[key].route, members)

    def can_choose(self, unusable: Collection[str] = _NOBODY) -> bool:
        """Whether `choose` finds a way."""
        return self._ways(unusable).tier >= 0

    def _pick(self, place: Place, skipped: frozenset[str]) -> RoutedInstance:
        chosen = self._picks[place].pick(skipped)
        assert chosen is not None  # noqa: S101 - `choose` asked for open options only
        return self._members[chosen]

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
            places = {key: option.places(open_places, self._widest) for key, option in tier.options.items()}
            blocked = frozenset(key for key, own in places.items() if not open_places.issuperset(own))
            if len(blocked) < len(places):
                return _Ways(unusable, number, blocked, places, skipped)
        return _Ways(unusable, -1, _NOBODY, {}, skipped)


class _Tier:
    """Options that are as good as each other."""

    def __init__(self) -> None:
        self.options: Mapping[str, _Option] = {}
        self.picks = SmoothWrr()

    def twin(self) -> "_Tier":
        other = _Tier()
        other.options, other.picks = self.options, self.picks.twin()
        return other

    def update(self, options: Iterable[_Option]) -> None:
        self.options = {option.key: option for option in options}
        self.picks.set_weights({key: option.requests_per_s for key, option in self.options.items()})


def _near(model: RoutedModel, rates: Mapping[Place, float]) -> Iterable[_Option]:
    """Each zone that serves all legs of a route, as wide as its narrowest leg."""
    for route in model.routes:
        for zone in sorted({zone for zone, _ in rates}):
            units_per_s = {leg.work_class: rates.get((zone, leg.work_class), 0.0) for leg in route.legs}
            if (requests_per_s := route.requests_per_s(units_per_s)) > 0:
                yield _Option(route, (zone,) * len(route.legs), requests_per_s)


def _far(model: RoutedModel, rates: Mapping[Place, float]) -> Iterable[_Option]:
    """Each pair of zones that serve the first and the last leg, as wide as the narrower.

    All combinations of zones would be too many to list."""
    for route in model.routes:
        first, last = route.legs[0], route.legs[-1]
        for start in sorted(zone for zone, of in rates if of == first.work_class):
            for end in sorted(zone for zone, of in rates if of == last.work_class):
                if start != end or len(route.legs) > 2:  # two legs in one zone are near each other
                    able = (
                        rates[start, first.work_class] / first.units_per_request,
                        rates[end, last.work_class] / last.units_per_request,
                    )
                    yield _Option(route, (start, end), min(able), is_far=True)


ROUTING_POLICIES = {"wrr-v1": ModelRouter}
"""The registry of routing policies: what chooses members, by the name that a model's table gives
(`RoutedModel.policy`) and under which capacity is certified."""

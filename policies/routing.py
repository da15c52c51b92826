"""Choice of a request's way: a route and its zones by planned flow, then a member for each leg by throughput, all by
smooth round-robin.

A plan's flows say where KV caches may travel, so they come first. When no member of any flow can be used, whatever
still serves the model does: within a zone first, then across zones (serving on beats the price of traffic).
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, product

from policies.pools.dispatches import LATE_PULL
from policies.routing_table import RoutedInstance, RoutedModel, RoutedRoute
from policies.smooth_wrr import SmoothWrr
from templates_lib.sources.graph_record import DISPATCH

_NOBODY: frozenset[str] = frozenset()
_DRAW_BYTES = 6
"""Of a hash: fewer bits than a float of [0, 1) tells apart."""
Place = tuple[str, str]
"""Zone and work class."""


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    route: RoutedRoute
    members: tuple[RoutedInstance, ...]
    """One for each leg."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A route with the zone of each leg."""

    route: RoutedRoute
    zones: tuple[str, ...]
    """Empty: the zone of the first or the last leg, or wherever the leg can be done."""
    requests_per_s: float
    """Planned, or what its zones can do: requests go to options of a tier by it."""

    @property
    def key(self) -> str:
        """Sorts by zones, then by route."""
        return f"{' > '.join(self.zones)}\0{self.route.id}"

    def places(self, is_open: Collection[Place] = (), widest: Sequence[str] = ()) -> tuple[Place, ...]:
        """`widest`: zones, those with the most capacity first. An empty zone stays where nothing is open."""
        among = (self.zones[0], self.zones[-1], *widest)
        return tuple(
            (zone or next((each for each in among if (each, leg.work_class) in is_open), ""), leg.work_class)
            for leg, zone in zip(self.route.legs, self.zones, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Ways:
    """Options that are open while just these members cannot be used."""

    unusable: frozenset[str]
    tier: int
    """The first that has an open option; -1: none has."""
    blocked: frozenset[str]
    """Its other options."""
    places: Mapping[str, tuple[Place, ...]]
    """Places of its options, by key."""
    skipped: Mapping[Place, frozenset[str]]
    """Members of each place that cannot be used."""
    shares: tuple[tuple[str, float], ...] = ()
    """Keys of its open options, sorted, with the requests/s of all up to and with each."""

    def at(self, draw: float) -> str:
        """Return the open option that a draw from [0, 1) falls on, each as likely as its share."""
        total = self.shares[-1][1]
        place = bisect_right(self.shares, draw * total, key=lambda each: each[1])
        return self.shares[min(place, len(self.shares) - 1)][0]  # the last where the product was rounded up


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
        self._widest = [zone for zone, _ in sorted(rates, key=lambda place: (-rates[place], place))]
        planned = [_Option(route, flow.zones, flow.requests_per_s) for route in model.routes for flow in route.flows]
        for tier, options in zip(self._tiers, (planned, *_possible(model, rates)), strict=True):
            tier.update(options)
        self._seen = None

    def twin(self) -> "ModelRouter":
        """Make another one that will choose the same."""
        other = copy(self)
        planned, near, far = self._tiers
        other._tiers = planned.twin(), near.twin(), far.twin()
        other._picks = {place: picks.twin() for place, picks in self._picks.items()}
        return other

    def choose(self, unusable: Collection[str] = _NOBODY, request_id: str | None = None) -> ChosenRoute | None:  # noqa: ARG002
        """A route and a member for each leg; None when `unusable` member ids leave no way to serve. All take turns,
        whatever the id of the request."""
        return self._chosen(unusable, None)

    def _chosen(self, unusable: Collection[str], draw: float | None) -> ChosenRoute | None:
        """`draw`: of [0, 1), decides the route and its zones; None: they take turns."""
        ways = self._ways(unusable)
        if ways.tier < 0:
            return None
        tier = self._tiers[ways.tier]
        key = tier.picks.pick(ways.blocked) if draw is None else ways.at(draw)
        assert key is not None  # noqa: S101 - some option of the tier is open
        members = tuple([self._pick(place, ways.skipped[place]) for place in ways.places[key]])
        return ChosenRoute(tier.options[key].route, members)

    def next_of(self, place: Place, unusable: Collection[str] = _NOBODY) -> RoutedInstance | None:
        """The next in turn of those who do a leg's work in its zone; None: nobody there can be used."""
        picks = self._picks.get(place)
        chosen = None if picks is None else picks.pick(frozenset(unusable).intersection(picks.weights))
        return None if chosen is None else self._members[chosen]

    def can_choose(self, unusable: Collection[str] = _NOBODY) -> bool:
        """Tell whether `choose` finds a way."""
        return self._ways(unusable).tier >= 0

    def _pick(self, place: Place, skipped: frozenset[str]) -> RoutedInstance:
        chosen = self._picks[place].pick(skipped)
        assert chosen is not None  # noqa: S101 - `choose` asked for open options only
        return self._members[chosen]

    def _ways(self, unusable: Collection[str]) -> _Ways:
        """The options that are open now, kept: what can be used changes far less often than choices are made."""
        unusable, seen = frozenset(unusable), self._seen
        if seen is None or (unusable is not seen.unusable and unusable != seen.unusable):
            seen = self._seen = self._seek(unusable)
        return seen

    def _seek(self, unusable: frozenset[str]) -> _Ways:
        skipped = {place: unusable.intersection(picks.weights) for place, picks in self._picks.items()}
        open_places = {place for place, skip in skipped.items() if len(skip) < len(self._picks[place].weights)}
        for number, tier in enumerate(self._tiers):
            places = tier.places | {key: tier.options[key].places(open_places, self._widest) for key in tier.loose}
            blocked = frozenset(key for key, own in places.items() if not open_places.issuperset(own))
            if len(blocked) < len(places):
                free = sorted(places.keys() - blocked)
                shares = zip(free, accumulate(tier.options[key].requests_per_s for key in free), strict=True)
                return _Ways(unusable, number, blocked, places, skipped, tuple(shares))
        return _Ways(unusable, -1, _NOBODY, {}, skipped)


class PathRouter(ModelRouter):
    """Takes the route and its zones by the planned split as a function of the request's id (request-static routing of
    Cornserve, section 5.3), and members in turn: a request that is routed again, after a lost leg or by another
    gateway, takes the same route while it is open."""

    def __init__(self, model: RoutedModel) -> None:
        self._unnamed = 0
        super().__init__(model)

    def choose(self, unusable: Collection[str] = _NOBODY, request_id: str | None = None) -> ChosenRoute | None:
        """`request_id`: None in simulations, where requests have the number of the choice."""
        if request_id is None:
            self._unnamed += 1
            request_id = f"{self.model.id} {self._unnamed}"
        return self._chosen(unusable, path_draw(request_id))


def path_draw(request_id: str) -> float:
    """Return where in [0, 1) a request falls among the routes of its type."""
    digest = blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=_DRAW_BYTES).digest()
    return int.from_bytes(digest, "big") / (1 << (8 * _DRAW_BYTES))


class _Tier:
    """Options that are as good as each other."""

    def __init__(self) -> None:
        self.options: Mapping[str, _Option] = {}
        self.places: dict[str, tuple[Place, ...]] = {}
        """Places of each option, by its key, as far as they are the same whatever can be used."""
        self.loose: frozenset[str] = frozenset()
        """Keys of the other options."""
        self.picks = SmoothWrr()

    def twin(self) -> "_Tier":
        other = copy(self)
        other.picks = self.picks.twin()
        return other

    def update(self, options: Iterable[_Option]) -> None:
        self.options = {option.key: option for option in options}
        self.places = {key: option.places() for key, option in self.options.items()}
        self.loose = frozenset(key for key, option in self.options.items() if "" in option.zones)
        self.picks.set_weights({key: option.requests_per_s for key, option in self.options.items()})


def _possible(model: RoutedModel, rates: Mapping[Place, float]) -> tuple[list[_Option], list[_Option]]:
    """Every way that the members allow: within a zone, as wide as its narrowest leg, and across zones, by those of the
    first and the last leg, as wide as the narrower. All combinations of zones would be too many to list."""
    near: list[_Option] = []
    far: list[_Option] = []
    for route in model.routes:
        able: list[dict[str, float]] = [
            {zone: rate / leg.units_per_request for (zone, of), rate in rates.items() if of == leg.work_class}
            for leg in route.legs
        ]
        near += [
            _Option(route, (zone,) * len(able), min(rate[zone] for rate in able))
            for zone in set(able[0]).intersection(*able)
        ]
        for start, end in product(able[0], able[-1]) if len(able) > 1 else ():
            if start != end or len(able) > 2:  # two legs in one zone are near each other
                zones = (start, *("" for _ in able[2:]), end)
                far.append(_Option(route, zones, min(able[0][start], able[-1][end])))
    return near, far


BY_SLACK = "slack-v1"
"""The policy of `policies.slack`. What of it a router decides by itself, where no queue is asked, is as in `wrr-v1`."""
BY_ID = DISPATCH
"""The policy that templates of any-to-any models name: `PathRouter`."""
BY_LOAD = LATE_PULL
"""The policy of `policies.pools`: routes as `BY_ID` has them; of the members of a leg who is done first."""
ROUTING_POLICIES = {"wrr-v1": ModelRouter, BY_SLACK: ModelRouter, BY_ID: PathRouter, BY_LOAD: PathRouter}
"""The registry of routing policies: what chooses members, by the name that a model's table gives
(`RoutedModel.policy`) and under which capacity is certified."""


def router_of(model: RoutedModel, before: ModelRouter | None = None) -> ModelRouter:
    """The router that a model's table names; `before` goes on with the new table if it is of the same policy."""
    if before is None or before.model.policy != model.policy:
        return ROUTING_POLICIES[model.policy](model)
    before.update(model)
    return before

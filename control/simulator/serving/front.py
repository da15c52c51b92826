"""What gateways do with requests of one app before an instance has them: which can be used, and where they go."""

from collections.abc import Collection, Iterable

from control.simulator.serving.fleet_timeline import InstanceLife
from policies.routing import router_of
from policies.routing_table import RoutedModel

_NOBODY: frozenset[str] = frozenset()


class Front:
    """Its table and what of it can be used change together, and seldom."""

    def __init__(self, app: str, lives: Iterable[InstanceLife], classes: tuple[str, ...] = ()) -> None:
        """`classes`: work classes that admission counts; none for an app that only makes text, whose prompt and output
        tokens it counts."""
        self._lives = {life.id: life for life in lives}
        self.router = router_of(RoutedModel(app))
        self.is_known = False
        """The routing table has the app."""
        self.unusable: frozenset[str] = _NOBODY
        self.closed: frozenset[str] = _NOBODY
        """Those, and who is full."""
        self._classes = classes
        self.rates: tuple[float, ...] = (0.0,) * max(len(classes), 2)
        """Units/s that admission reckons with: by class, or of prompt and output tokens."""
        self.units: tuple[float, ...] = ()
        """By class: of a mean request."""

    def take_table(self, models: Collection[RoutedModel]) -> None:
        """A table that does not name it any more serves it no more."""
        own = next((model for model in models if model.id == self.router.model.id), None)
        self.is_known = own is not None
        self.router = router_of(own or RoutedModel(self.router.model.id), self.router)

    def take_usable(self, usable: Collection[str]) -> None:
        model = self.router.model
        self.unusable = frozenset(member.id for member in model.members if member.id not in usable)
        if self._classes:
            found = model.rates(self.unusable)
            rates = {rate.leg.work_class: rate.units_per_s for rate in found}
            self.rates = tuple(rates.get(name, 0.0) for name in self._classes)
            shares = [(rate.leg.work_class, rate.share * rate.leg.units_per_request) for rate in found]
            self.units = tuple(sum(units for of, units in shares if of == name) for name in self._classes)
            return
        counted = [self._lives[member.id] for member in model.members if member.id in usable]
        counted = counted or [self._lives[member.id] for member in model.members]
        self.rates = sum(i.prompt_tokens_per_s for i in counted), sum(i.output_tokens_per_s for i in counted)

    def take_full(self, full: Collection[str]) -> None:
        self.closed = self.unusable.union(full)

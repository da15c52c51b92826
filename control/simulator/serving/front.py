"""What gateways do with requests of one app before an instance has them: which can be used, and where they go."""

from collections.abc import Collection, Iterable

from control.simulator.serving.fleet_timeline import InstanceLife
from policies.routing import ModelRouter
from policies.routing_table import RoutedModel

_NOBODY: frozenset[str] = frozenset()


class Front:
    """Its table and what of it can be used change together, and seldom."""

    def __init__(self, app: str, lives: Iterable[InstanceLife]) -> None:
        self._lives = {life.id: life for life in lives}
        self.router = ModelRouter(RoutedModel(app))
        self.is_known = False
        """The routing table has the app."""
        self.unusable: frozenset[str] = _NOBODY
        self.closed: frozenset[str] = _NOBODY
        """Those, and who is full."""
        self.rates = (0.0, 0.0)
        """Prompt and output tokens/s that admission reckons with."""

    def take_table(self, models: Collection[RoutedModel]) -> None:
        """A table that does not name it any more serves it no more."""
        own = next((model for model in models if model.id == self.router.model.id), None)
        self.is_known = own is not None
        self.router.update(own or RoutedModel(self.router.model.id))

    def take_usable(self, usable: Collection[str]) -> None:
        model = self.router.model
        self.unusable = frozenset(member.id for member in model.members if member.id not in usable)
        counted = [self._lives[member.id] for member in model.members if member.id in usable]
        counted = counted or [self._lives[member.id] for member in model.members]
        self.rates = sum(i.prompt_tokens_per_s for i in counted), sum(i.output_tokens_per_s for i in counted)

    def take_full(self, full: Collection[str]) -> None:
        self.closed = self.unusable.union(full)

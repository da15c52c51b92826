"""What gateways do with requests of one app before an instance has them: which can be used, and where they go."""

from collections.abc import Collection

from policies.admission import WorkRule, work_rules
from policies.routing import router_of
from policies.routing_table import RoutedModel

_NOBODY: frozenset[str] = frozenset()


class Front:
    """Its table and what of it can be used change together, and seldom."""

    def __init__(self, app: str, classes: tuple[str, ...]) -> None:
        """`classes`: work classes that requests of the app are charged, whichever table holds."""
        self.router = router_of(RoutedModel(app))
        self.is_known = False
        """The routing table has the app."""
        self.unusable: frozenset[str] = _NOBODY
        self.closed: frozenset[str] = _NOBODY
        """Those, and who is full."""
        self.rules = tuple(WorkRule(name) for name in classes)
        """What a request is charged now, by class."""

    def take_table(self, models: Collection[RoutedModel]) -> None:
        """A table that does not name it any more serves it no more."""
        own = next((model for model in models if model.id == self.router.model.id), None)
        self.is_known = own is not None
        self.router = router_of(own or RoutedModel(self.router.model.id), self.router)

    def take_usable(self, usable: Collection[str]) -> None:
        model = self.router.model
        self.unusable = frozenset(member.id for member in model.members if member.id not in usable)
        found = work_rules(model.rates(self.unusable))
        self.rules = tuple(found.get(rule.work, WorkRule(rule.work)) for rule in self.rules)

    def take_full(self, full: Collection[str]) -> None:
        self.closed = self.unusable.union(full)

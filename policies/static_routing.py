"""Request-static routing of any-to-any models (Cornserve, section 5.3): a request's type, then its path by the planned
split (`PathRouter`), then a member for each leg by smooth round-robin. Members are asked nothing, so that a choice
costs a hash and a search.
"""

from collections.abc import Collection, Mapping

from policies.routing import ChosenRoute, PathRouter
from policies.routing_table import RoutedModel

_NOBODY: frozenset[str] = frozenset()


class StaticRouter:
    """Routes the requests of one app; its table may change at any time."""

    def __init__(self, types: Mapping[str, RoutedModel]) -> None:
        """`types`: request types of the app, each a model of the routing table (`serving_id`)."""
        self._routers: dict[str, PathRouter] = {}
        self.update(types)

    def update(self, types: Mapping[str, RoutedModel]) -> None:
        """Take a new table; what the members of the old one have had counts on."""
        before, self._routers = self._routers, {}
        for name, model in types.items():
            router = self._routers[name] = before.get(name) or PathRouter(model)
            if router.model is not model:
                router.update(model)

    def choose(self, request_type: str, request_id: str, unusable: Collection[str] = _NOBODY) -> ChosenRoute | None:
        """A path and a member for each of its legs; None when `unusable` member ids leave no way to serve. Raises
        LookupError for a type that the plan does not serve."""
        if (router := self._routers.get(request_type)) is None:
            raise LookupError(f"the plan serves no {request_type!r}; it serves {', '.join(self._routers) or 'nothing'}")
        return router.choose(unusable, request_id)

"""Roles: the work of one visit as a work class, and routes as roles one after another (Cornserve, appendix B).

A component that is computed alone has one class for all request types, whatever runs it. Components that an executor
computes together have a class for each type: were they classes of their own, one executor's share of them could be
matched with another's. An executor on a node that nothing reaches computes whole requests, and has classes of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.path import Path, Traffic, Visit, traffic_of
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType


@dataclass(frozen=True, slots=True)
class Role:
    components: tuple[str, ...]
    """In the graph's order."""
    request_type: str = ""
    """Empty: those of all types that visit its only component."""

    @property
    def name(self) -> str:
        """`vision`, `vision+language/image-text-to-text`."""
        return "+".join(self.components) + (f"/{self.request_type}" if self.request_type else "")


@dataclass(frozen=True, slots=True)
class RoleRoute:
    """One way to serve a request type."""

    request_type: str
    roles: tuple[Role, ...]
    """In the order in which requests visit them."""
    traffic: tuple[Traffic, ...]
    """Bytes between them."""

    @property
    def name(self) -> str:
        """`vision-language`; `closed` where one component alone is computed on a node that nothing reaches."""
        if len(self.roles) == 1 and len(self.roles[0].components) == 1 and self.roles[0].request_type:
            return "closed"
        return "-".join("+".join(role.components) for role in self.roles)

    def id_of(self, app: str) -> str:
        """Return its name among all routes of a plan."""
        return f"{app}/{self.request_type}/{self.name}"


@dataclass(frozen=True, slots=True)
class Offered:
    """A role that some path has an option do for requests of a type."""

    role: Role
    request_type: str


@dataclass(frozen=True, slots=True)
class RolePlay:
    """Roles of a graph's request types, when these sets of components may run together."""

    routes: tuple[RoleRoute, ...]
    offered: dict[tuple[str, ...], tuple[Offered, ...]]
    """Components of an executor → roles that it has on some path."""


def roles_of(
    graph: ModelGraph, types: Sequence[GraphRequestType], executors: ExecutorGraph, *, closed: bool
) -> RolePlay:
    """`closed`: some nodes are reached by no other, and whole requests are a way of their own."""
    routes: list[RoleRoute] = []
    offered: dict[tuple[str, ...], list[Offered]] = {option.components: [] for option in executors.options}
    for kind in types:
        ways: dict[frozenset[Role], RoleRoute] = {}
        for path in executors.paths[kind.name]:
            roles = tuple(role_of(visit.components, kind) for visit in path.visits)
            # Orders that compute the same roles are one way.
            ways.setdefault(frozenset(roles), RoleRoute(kind.name, roles, traffic_of(graph, kind, path)))
            for components, role in zip(_options(executors, path), roles, strict=True):
                offered[components].append(Offered(role, kind.name))
        whole = Role(graph.order(kind.components), kind.name)
        if closed:  # of one executor, or of a cell
            ways.setdefault(frozenset((whole,)), RoleRoute(kind.name, (whole,), ()))
            for components, own in offered.items():
                if set(whole.components) <= set(components):
                    own.append(Offered(whole, kind.name))
        routes += ways.values()
    return RolePlay(tuple(routes), {names: tuple(dict.fromkeys(each)) for names, each in offered.items()})


def role_of(components: tuple[str, ...], kind: GraphRequestType) -> Role:
    return Role(components) if len(components) == 1 else Role(components, kind.name)


def crossing_bytes(graph: ModelGraph, kind: GraphRequestType, components: Sequence[str]) -> tuple[float, float]:
    """(bytes in, bytes out) of one request for these of its components, were all others elsewhere."""
    others = tuple(name for name in graph.order(kind.components) if name not in components)
    inner = graph.order(components)
    apart = Path((Visit("", inner), *(Visit(name, (name,)) for name in others)))
    sent = traffic_of(graph, kind, apart)
    into = sum(each.bytes_per_request for each in sent if each.target == 0)
    return into, sum(each.bytes_per_request for each in sent if each.source == 0)


def _options(executors: ExecutorGraph, path: Path) -> list[tuple[str, ...]]:
    return [executors.option(visit.option).components for visit in path.visits]

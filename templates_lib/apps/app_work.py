"""The work of an app's requests on the nodes that are sold: work classes, routes, and what executors sustain.

Requests of several types share the class of a component that is computed alone. What a request counts there is its time
beside that of others, so that an executor sustains one number of units whatever the mix: of a type that takes twice as
long for a token, a token counts twice. The ratios of types are nearly, and not quite, the same on every node: each
executor is given what it sustains of the type that is worst for it.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from templates_lib.apps.graph_app import GraphApp
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.cost.estimated import usable_bytes_per_s
from templates_lib.executors.estimate import TENSOR_PARALLEL, Estimate
from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Visit
from templates_lib.executors.remembered import RememberedCosts
from templates_lib.executors.role import Role, RolePlay, RoleRoute, crossing_bytes, roles_of
from templates_lib.graphs.model_graph import GraphError
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import GIB
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.work import Edge, Leg, Route, Unit, WorkClass


@dataclass(frozen=True, slots=True)
class Replica:
    """An executor on as many GPUs of a node as it takes, and what it sustains when it does nothing else."""

    option: DeploymentOption
    units_per_s: Mapping[str, float]
    """Work class → units per second."""
    together: Mapping[str, int]
    """`COMPONENT/TYPE` → requests that are served at once, where any are in time."""
    stay_s: Mapping[str, float]
    """The same → seconds that each of them stays."""


class AppWork:
    """What an app asks of nodes, and what executors on them sustain, by `costs`. Nothing is reckoned before it is asked
    for."""

    def __init__(self, app: GraphApp, nodes: Sequence[NodeConfig], costs: ComponentCostModel) -> None:
        self.app, self.nodes, self.costs = app, tuple(nodes), RememberedCosts(costs)
        self._kinds = {kind.name: kind for kind in app.types}
        self._replicas: dict[str, tuple[Replica, ...]] = {}
        self._problems: dict[str, CellProblem | None] = {}
        self._options: dict[str, tuple[DeploymentOption, ...]] = {}
        self._seconds: dict[tuple[NodeConfig, tuple[str, ...], str, str], float] = {}

    @property
    def shape_id(self) -> str:
        """Names the lengths of its requests and their mix: another one for every change to them."""
        content = [(k.name, k.share, sorted(k.work.items())) for k in self.app.types]
        return f"{self.app.name}/{hashlib.blake2b(msgspec.json.encode(content), digest_size=4).hexdigest()}"

    @cached_property
    def play(self) -> RolePlay:
        """Roles on these nodes. Raises GraphError for a type that no path serves."""
        return roles_on(self.app, closed=any(not node.joins_others for node in self.nodes))

    def options(self, node: NodeConfig) -> tuple[DeploymentOption, ...]:
        """List the executors that a node holds, on each number of its GPUs."""
        if node.id not in self._options:
            estimate = self._estimate(node)
            found = (option for components in self.play.offered for option in estimate.holding(components))
            self._options[node.id] = tuple(found)
        return self._options[node.id]

    def refusal(self, component: str) -> str | None:
        """Say that no node holds a component, with what it takes; None: one does."""
        estimates = (self._estimate(node) for node in self.nodes)
        if any(next(each.holding((component,)), None) is not None for each in estimates):
            return None
        part = self.app.graph.component(component)
        works = [kind.work[component] for kind in self.app.types if component in kind.components]
        held = (max(self.costs.held_bytes(part, part_of(node, 1), work) for work in works) for node in self.nodes)
        return f"component {component!r} takes {min(held) / GIB:.3g} GiB or more, and fits no node on offer"

    def routes(self) -> tuple[Route, ...]:
        return tuple(
            Route(
                route.id_of(self.app.name),
                self.app.name,
                route.request_type,
                tuple(Leg(self.class_id(role), self._units(role, route.request_type)) for role in route.roles),
                tuple(Edge(each.source, each.target, each.bytes_per_request) for each in route.traffic),
            )
            for route in self._usable_routes
        )

    def class_id(self, role: Role) -> str:
        return f"{self.app.name}/{role.name}"

    @cached_property
    def classes(self) -> tuple[WorkClass, ...]:
        """Those of all routes: what is computed together first, and else as the graph has it."""
        shape, found = self.shape_id, dict[str, WorkClass]()
        for role in sorted(self._roles, key=self._order):
            phase, name = "+".join(role.components), self.class_id(role)
            unit = Unit.INVOCATION if role.request_type else self.app.graph.component(role.components[0]).unit
            found[name] = WorkClass(name, self.app.name, phase, unit, shape, 0.0)
        return tuple(found.values())

    def replicas(self, node: NodeConfig) -> tuple[Replica, ...]:
        """List the executors that a node may run, each with a class of work at least. On a node that no other reaches
        they serve whole requests alone."""
        if node.id not in self._replicas:
            self._replicas[node.id] = tuple(self._found(node))
        return self._replicas[node.id]

    def _found(self, node: NodeConfig) -> Iterator[Replica]:
        for option in self.options(node):
            roles = dict.fromkeys(each.role for each in self.play.offered[option.components])
            units = {self.class_id(role): self._sustained(node, option, role) for role in roles if role in self._roles}
            if not node.joins_others:
                whole = {self.class_id(role) for role in roles if self._is_whole(role)}
                units = {name: rate for name, rate in units.items() if name in whole}
            units = {name: rate for name, rate in units.items() if rate > 0}
            if units:
                yield self.replica(node, option, units)

    def replica(self, node: NodeConfig, option: DeploymentOption, units_per_s: Mapping[str, float]) -> Replica:
        estimate, together, stay_s = self._estimate(node), dict[str, int](), dict[str, float]()
        for name, kind in ((n, k) for n in option.components for k in self.app.types if n in k.components):
            if at_once := int(estimate.together(option, name, kind)):
                key = f"{name}/{kind.name}"
                together[key], stay_s[key] = at_once, estimate.lasting_s(option, name, kind, at_once)
        return Replica(option, units_per_s, together, stay_s)

    def at_once(self, replica: Replica, work_class: str) -> float:
        """Requests of a work class that a replica has at once when it does nothing else, of the type that has most."""
        role = next(role for role in self._roles if self.class_id(role) == work_class)
        found = [1.0]
        for kind in (role.request_type,) if role.request_type else self._counted[role.components[0]]:
            keys = [f"{name}/{kind}" for name in role.components]
            if all(key in replica.stay_s for key in keys):
                busy_s = sum(replica.stay_s[key] / replica.together[key] for key in keys)
                found.append(sum(replica.stay_s[key] for key in keys) / busy_s)
        return max(found)

    @property
    def promised(self) -> frozenset[str]:
        """Work classes that requests visit of which a percentile is promised."""
        kinds = {kind.name for kind in self.app.types if kind.objective is not None and kind.objective.percentile}
        return frozenset(leg.work_class for route in self.routes() for leg in route.legs if route.request_type in kinds)

    def problem(self, node: NodeConfig) -> CellProblem | None:
        """The paper's problem on the GPUs of a node, with each set of components on the fewest that hold it; None: it
        serves some type nowhere in time."""
        if node.id not in self._problems:
            self._problems[node.id] = self._problem(node)
        return self._problems[node.id]

    def _problem(self, node: NodeConfig) -> CellProblem | None:
        least: dict[tuple[str, ...], DeploymentOption] = {}
        for option in self.options(node):
            least.setdefault(option.components, option)
        try:
            executors = self.app.executors(tuple(least.values()))
        except GraphError:  # a component that the node does not hold
            return None
        timed = [
            TimedPath(name, path, tuple(self._visit_s(node, executors, visit, name) for visit in path.visits))
            for name, paths in executors.paths.items()
            for path in paths
        ]
        able = tuple(each for each in timed if all(map(math.isfinite, each.seconds)))
        if {each.request_type for each in able} != self._kinds.keys():
            return None
        return CellProblem(executors.options, {kind.name: kind.share for kind in self.app.types}, able)

    def whole_class(self, request_type: str) -> str | None:
        """The work class of whole requests of a type; None: nothing computes them together."""
        role = Role(self.app.graph.order(self._kinds[request_type].components), request_type)
        return self.class_id(role) if role in self._roles else None

    def _visit_s(self, node: NodeConfig, executors: ExecutorGraph, visit: Visit, request_type: str) -> float:
        option, kind = executors.option(visit.option), self._kinds[request_type]
        return sum(self._request_s(node, option, name, kind) for name in visit.components)

    def network_units_per_s(self, node: NodeConfig) -> Mapping[str, float]:
        """Work class → units per second that the network of a node carries, when it does nothing else; a class that
        sends nothing is not there."""
        found, usable = dict[str, float](), usable_bytes_per_s(node)
        for role in self._roles:
            most = max(self._bytes_per_unit(role))
            if most > 0:
                found[self.class_id(role)] = usable / most
        return found

    @cached_property
    def _roles(self) -> frozenset[Role]:
        return frozenset(role for route in self._usable_routes for role in route.roles)

    @cached_property
    def _usable_routes(self) -> tuple[RoleRoute, ...]:
        """Those whose roles some executor does in time: a type that a component serves nowhere in time when it is
        alone takes no such route, so that it does not decide what others get of its class."""
        return tuple(
            route for route in self.play.routes if all(self._is_done(r, route.request_type) for r in route.roles)
        )

    def _is_done(self, role: Role, request_type: str) -> bool:
        kind = self._kinds[request_type]
        closed = (node for node in self.nodes if not node.joins_others and node.gpu_count > 1)
        if self._is_whole(role) and any(self.problem(node) is not None for node in closed):
            return True
        return any(
            math.isfinite(sum(self._request_s(node, option, name, kind) for name in role.components))
            for node, option in self._holding(role)
        )

    def _holding(self, role: Role) -> Iterator[tuple[NodeConfig, DeploymentOption]]:
        """Yield nodes with an executor that has the role."""
        for node in self.nodes:
            if node.joins_others or self._is_whole(role):
                for option in self.options(node):
                    if any(each.role == role for each in self.play.offered[option.components]):
                        yield node, option

    def _is_whole(self, role: Role) -> bool:
        """Tell whether all of its requests is computed, and none of it elsewhere."""
        return bool(role.request_type) and set(role.components) == self._kinds[role.request_type].components

    def _order(self, role: Role) -> tuple[int, list[int], str]:
        place = [component.name for component in self.app.graph.components]
        return -len(role.components), [place.index(name) for name in role.components], role.request_type

    def _sustained(self, node: NodeConfig, option: DeploymentOption, role: Role) -> float:
        """Units per second of one replica."""
        if role.request_type:
            kind = self._kinds[role.request_type]
            return 1 / sum(self._request_s(node, option, name, kind) for name in role.components)
        (name,) = role.components
        counted = self._counted[name]
        return min(units / self._request_s(node, option, name, self._kinds[kind]) for kind, units in counted.items())

    def _units(self, role: Role, request_type: str) -> float:
        """Units of a request of a type."""
        return 1.0 if role.request_type else self._counted[role.components[0]][request_type]

    @cached_property
    def _counted(self) -> dict[str, dict[str, float]]:
        """Component → request type → units of one request, of those types that it serves alone."""
        alone: dict[str, dict[str, GraphRequestType]] = {}
        for route in self._usable_routes:
            for role in route.roles:
                if not role.request_type:
                    alone.setdefault(role.components[0], {})[route.request_type] = self._kinds[route.request_type]
        return {name: self._counts(name, tuple(kinds.values())) for name, kinds in alone.items()}

    def _counts(self, component: str, kinds: tuple[GraphRequestType, ...]) -> dict[str, float]:
        """Request type → units of one request: in the mean over the mix as many as the component counts, from type to
        type in proportion to their times (their mean over executors, in logarithms)."""
        shares = [kind.share for kind in kinds]
        mean = sum(s * kind.work[component].units for s, kind in zip(shares, kinds, strict=True)) / sum(shares)
        logs, seen = [0.0] * len(kinds), 0
        for node, option in self._holding(Role((component,))):
            times = [self._request_s(node, option, component, kind) for kind in kinds]
            if all(map(math.isfinite, times)):
                usual = sum(s * time for s, time in zip(shares, times, strict=True)) / sum(shares)
                logs = [so_far + math.log(time / usual) for so_far, time in zip(logs, times, strict=True)]
                seen += 1
        if not seen:  # nothing does all of them in time, so nothing has capacity for the class
            return {kind.name: kind.work[component].units for kind in kinds}
        ratios = [math.exp(each / seen) for each in logs]
        usual = sum(s * ratio for s, ratio in zip(shares, ratios, strict=True)) / sum(shares)
        return {kind.name: mean * ratio / usual for kind, ratio in zip(kinds, ratios, strict=True)}

    def _bytes_per_unit(self, role: Role) -> tuple[float, float]:
        """Bytes in and out for each unit, of the type that sends most."""
        names = (role.request_type,) if role.request_type else tuple(self._counted[role.components[0]])
        found = []
        for name in names:
            into, out = crossing_bytes(self.app.graph, self._kinds[name], role.components)
            units = self._units(role, name)
            found.append((into / units, out / units))
        return max(into for into, _ in found), max(out for _, out in found)

    def _request_s(self, node: NodeConfig, option: DeploymentOption, component: str, kind: GraphRequestType) -> float:
        key = part_of(node, option.gpus), option.components, component, kind.name
        if key not in self._seconds:
            self._seconds[key] = self._estimate(node).request_seconds(option, component, kind)
        return self._seconds[key]

    def _estimate(self, node: NodeConfig) -> Estimate:
        engine = self.app.engine
        most = node.gpu_count if not engine or support_of(engine).tensor_parallel else 1
        sizes = tuple(gpus for gpus in TENSOR_PARALLEL if gpus <= most)
        return Estimate(self.app.graph, self.app.types, lambda gpus: part_of(node, gpus), self.costs, sizes)


def part_of(node: NodeConfig, gpus: int) -> NodeConfig:
    """Some GPUs of a node, as far as times depend on it: they are alike on all nodes whose GPUs are joined alike."""
    return NodeConfig(f"{node.gpu}:{gpus}", node.gpu, gpus, node.intra_node_gbps, 0.0, 0.0)


def roles_on(app: GraphApp, *, closed: bool) -> RolePlay:
    """Roles of an app's requests; `closed` as of `roles_of`. Raises GraphError for a type that no path serves."""
    executors = app.executors([DeploymentOption(components) for components in app.sets])
    return roles_of(app.graph, app.types, executors, closed=closed)

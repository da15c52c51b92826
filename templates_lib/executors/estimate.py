"""Deployment options that fit a GPU, and what their visits take, by a cost model of components."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path
from templates_lib.graphs.component import ComponentKind
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.values.gpu import GIB
from templates_lib.values.node_config import NodeConfig

TENSOR_PARALLEL = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Costs of a graph's components on one kind of GPU."""

    graph: ModelGraph
    types: Sequence[GraphRequestType]
    node: Callable[[int], NodeConfig]
    """GPUs → a node of as many."""
    costs: ComponentCostModel

    def options(self, wanted: Iterable[Sequence[str]]) -> tuple[tuple[DeploymentOption, ...], dict[str, str]]:
        """(options, components that no number of GPUs is enough for → why): each set of components on the fewest GPUs
        that hold it and a request of each type."""
        found, refused = [], {}
        for components in wanted:
            option = next((o for o in self._sizes(components) if self._fits(o)), None)
            if option is not None:
                found.append(option)
            else:
                largest = self.node(TENSOR_PARALLEL[-1])
                weights = sum(self.graph.component(name).weight_bytes for name in components)
                lacking = f"{weights / GIB:.0f} GiB of weights and a request do not fit {largest.id}"
                refused["+".join(components)] = lacking
        return tuple(found), refused

    def seconds(self, executors: ExecutorGraph) -> dict[tuple[str, Path], tuple[float, ...]]:
        """Seconds of each visit of every path, in which a replica does nothing else."""
        kinds = {kind.name: kind for kind in self.types}
        options = {option.name: option for option in executors.options}

        @cache
        def of_visit(option: str, components: tuple[str, ...], kind: str) -> float:
            return sum(self.request_seconds(options[option], name, kinds[kind]) for name in components)

        return {
            (name, path): tuple(of_visit(visit.option, visit.components, name) for visit in path.visits)
            for name, paths in executors.paths.items()
            for path in paths
        }

    def request_seconds(self, option: DeploymentOption, component: str, kind: GraphRequestType) -> float:
        """Seconds that one request takes of a replica for one component, when it serves as many at once as it holds."""
        part, node, work = self.graph.component(component), self.node(option.gpus), kind.work[component]
        together = max(self._together(option, component, kind), 1.0)
        return self.costs.seconds(part, node, work, together) / together

    def _together(self, option: DeploymentOption, component: str, kind: GraphRequestType) -> float:
        """Requests that a replica holds at once, beside its other components. Decoders that run together share what is
        left for KV caches evenly."""
        node = self.node(option.gpus)
        reserved = sum(self._held(name, node) for name in option.components if name != component)
        held = self.costs.most_requests(self.graph.component(component), node, kind.work[component], reserved)
        decoders = [n for n in option.components if self.graph.component(n).kind is ComponentKind.DECODER]
        return held / len(decoders) if component in decoders else held

    def _held(self, component: str, node: NodeConfig) -> float:
        """Bytes of each GPU for a component, under the type that asks most of it."""
        works = [kind.work[component] for kind in self.types if component in kind.components]
        return max((self.costs.held_bytes(self.graph.component(component), node, work) for work in works), default=0.0)

    def _fits(self, option: DeploymentOption) -> bool:
        visits = [(name, kind) for kind in self.types for name in option.components if name in kind.components]
        return all(self._together(option, name, kind) >= 1 for name, kind in visits)

    def _sizes(self, components: Sequence[str]) -> tuple[DeploymentOption, ...]:
        return tuple(DeploymentOption(self.graph.order(components), gpus) for gpus in TENSOR_PARALLEL)


def neighbours(graph: ModelGraph, visited: Iterable[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Sets of components to deploy together: each run of neighbours in the graph's order of those that some type
    visits, from one to all. That is not all 2^n - 1 subsets (section 4.2)."""
    used = frozenset().union(*visited)
    names = [component.name for component in graph.components if component.name in used]
    count = len(names)
    return tuple(tuple(names[a : a + size]) for size in range(1, count + 1) for a in range(count - size + 1))

"""Deployment options that fit a GPU, and what their visits take, by a cost model of components."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from templates_lib.executors.executor_graph import ExecutorGraph
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path
from templates_lib.graphs.component import ComponentKind
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.request_type import GraphRequestType, due_of
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.values.gpu import GIB
from templates_lib.values.node_config import NodeConfig
from templates_lib.values.work import Unit

TENSOR_PARALLEL = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Costs of a graph's components on one kind of GPU."""

    graph: ModelGraph
    types: Sequence[GraphRequestType]
    node: Callable[[int], NodeConfig]
    """GPUs → a node of as many."""
    costs: ComponentCostModel
    sizes: tuple[int, ...] = TENSOR_PARALLEL
    """GPUs of a replica, of which the least and all that hold a set of components are tried."""

    def options(self, wanted: Iterable[Sequence[str]]) -> tuple[tuple[DeploymentOption, ...], dict[str, str]]:
        """(options, components that no number of GPUs is enough for → why): each set of components on the fewest GPUs
        that hold it and a request of each type."""
        found, refused = [], {}
        for components in wanted:
            option = next(self.holding(components), None)
            if option is not None:
                found.append(option)
            else:
                largest = self.node(self.sizes[-1])
                weights = sum(self.graph.component(name).weight_bytes for name in components)
                lacking = f"{weights / GIB:.0f} GiB of weights and a request do not fit {largest.id}"
                refused["+".join(components)] = lacking
        return tuple(found), refused

    def holding(self, components: Sequence[str]) -> Iterator[DeploymentOption]:
        """Yield the option of each size that holds these components and a request of each type, the least first."""
        options = (DeploymentOption(self.graph.order(components), gpus) for gpus in self.sizes)
        return (option for option in options if self._fits(option))

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
        """Seconds that one request takes of a replica for one component, when it serves as many at once as it holds and
        as the objective of the type allows; infinite where that is none."""
        together = self.together(option, component, kind)
        return self.lasting_s(option, component, kind, together) / together if together else math.inf

    def together(self, option: DeploymentOption, component: str, kind: GraphRequestType) -> float:
        """Requests of a type that a replica serves at once of one component: what it holds, and as many as are done in
        time; 0: not even one is."""
        most = max(self._held_at_once(option, component, kind), 1.0)
        if kind.objective is None:
            return most
        least, late = 0, math.floor(most) + 1  # of whole numbers, the first is in time and the second is not
        while late - least > 1:
            middle = (least + late) // 2
            if self._is_in_time(option, component, kind, middle):
                least = middle
            else:
                late = middle
        return float(least)

    def lasting_s(self, option: DeploymentOption, component: str, kind: GraphRequestType, together: float) -> float:
        """Seconds in which a replica is done with one component of `together` requests, and each of them stays."""
        part, node = self.graph.component(component), self.node(option.gpus)
        return self.costs.seconds(part, node, kind.work[component], together)

    def _is_in_time(self, option: DeploymentOption, component: str, kind: GraphRequestType, together: int) -> bool:
        """Tell whether `together` requests are done in time. What reads a request has until its answer begins; what
        makes the answer has from then until it ends. A decoder that writes reads one prompt until then, and the others'
        while it writes."""
        part, due = self.graph.component(component), due_of(self.graph, kind)
        lasting_s = self.lasting_s(option, component, kind, together)
        if part.kind is ComponentKind.DECODER and part.unit is not Unit.PROMPT_TOKEN:
            alone = replace(kind.work[component], units=0.0)
            reading_s = self.costs.seconds(part, self.node(option.gpus), alone, 1)
            return reading_s <= due.first_s and lasting_s - reading_s <= due.rest_s
        makes = part.kind is ComponentKind.GENERATOR and due.rest_s > 0
        return lasting_s <= (due.rest_s if makes else due.first_s)

    def _held_at_once(self, option: DeploymentOption, component: str, kind: GraphRequestType) -> float:
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
        return all(self._held_at_once(option, name, kind) >= 1 for name, kind in visits)


def neighbours(graph: ModelGraph, visited: Iterable[frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Sets of components to deploy together: each run of neighbours in the graph's order of those that some type
    visits, from one to all. That is not all 2^n - 1 subsets (section 4.2)."""
    used = frozenset().union(*visited)
    names = [component.name for component in graph.components if component.name in used]
    count = len(names)
    return tuple(tuple(names[a : a + size]) for size in range(1, count + 1) for a in range(count - size + 1))

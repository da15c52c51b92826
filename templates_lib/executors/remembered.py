"""Costs of components that are asked for once each: one search asks for the same ones over and over."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from templates_lib.graphs.component import Component, ComponentWork
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.values.node_config import NodeConfig


@dataclass(frozen=True, slots=True, eq=False)
class RememberedCosts:
    """A `ComponentCostModel` of one graph, whose components have names of their own."""

    costs: ComponentCostModel
    _known: dict[Hashable, float] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.costs.source

    @property
    def fingerprint(self) -> str:
        return self.costs.fingerprint

    def seconds(self, component: Component, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        key = "seconds", component.name, node, work, requests
        if key not in self._known:
            self._known[key] = self.costs.seconds(component, node, work, requests)
        return self._known[key]

    def held_bytes(self, component: Component, node: NodeConfig, work: ComponentWork) -> float:
        key = "held", component.name, node, work
        if key not in self._known:
            self._known[key] = self.costs.held_bytes(component, node, work)
        return self._known[key]

    def most_requests(
        self, component: Component, node: NodeConfig, work: ComponentWork, reserved_bytes: float
    ) -> float:
        key = "most", component.name, node, work, reserved_bytes
        if key not in self._known:
            self._known[key] = self.costs.most_requests(component, node, work, reserved_bytes)
        return self._known[key]

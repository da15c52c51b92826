"""The cost of components where encoders and generators were measured: their times, and the estimate for all else."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from templates_lib.graphs.component import Component, ComponentWork, DecoderSpec
from templates_lib.ports.component_cost import ComponentCostModel
from templates_lib.values.component_profile import ComponentProfile, UnitTime
from templates_lib.values.node_config import NodeConfig


def component_key(component: Component) -> str:
    """Name a component by all that its times depend on: equal ones of two graphs have one key."""
    content = msgspec.json.encode(component, order="sorted")
    return f"{component.name}/{hashlib.blake2b(content, digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredComponentCost:
    """A `ComponentCostModel`. Units of a request are computed one after the other: on processors a batch takes as long
    as its units do alone."""

    estimate: ComponentCostModel
    profiles: tuple[ComponentProfile, ...]
    _times: Mapping[tuple[str, str], tuple[UnitTime, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_times", {(each.component, each.gpu): each.times for each in self.profiles})

    @property
    def source(self) -> str:
        return "measured"

    @property
    def fingerprint(self) -> str:
        text = msgspec.json.encode((self.estimate.fingerprint, sorted(each.subject for each in self.profiles)))
        return hashlib.blake2b(text, digest_size=16).hexdigest()

    def is_measured(self, component: Component, node: NodeConfig) -> bool:
        return self._of(component, node) is not None

    def seconds(self, component: Component, node: NodeConfig, work: ComponentWork, requests: float) -> float:
        """See `ComponentCostModel`."""
        times = self._of(component, node)
        if times is None:
            return self.estimate.seconds(component, node, work, requests)
        items = max(work.items, 1e-9)  # a request may bring a part of one in the mean
        size = work.units / items * (work.item_rows or 1.0)
        return requests * items * unit_seconds(times, size)

    def held_bytes(self, component: Component, node: NodeConfig, work: ComponentWork) -> float:
        """See `ComponentCostModel`."""
        return self.estimate.held_bytes(component, node, work)

    def most_requests(
        self, component: Component, node: NodeConfig, work: ComponentWork, reserved_bytes: float
    ) -> float:
        """See `ComponentCostModel`."""
        return self.estimate.most_requests(component, node, work, reserved_bytes)

    def _of(self, component: Component, node: NodeConfig) -> tuple[UnitTime, ...] | None:
        if isinstance(component.spec, DecoderSpec) or node.gpu_count != 1:
            return None
        return self._times.get((component_key(component), node.gpu))


def unit_seconds(times: tuple[UnitTime, ...], rows: float) -> float:
    """Interpolate between the sizes that were measured; beyond them a row takes as long as at the nearest."""
    sizes = np.array([each.rows for each in times])
    known = np.array([each.seconds for each in times])
    nearest = float(np.clip(rows, sizes[0], sizes[-1]))
    return float(np.interp(nearest, sizes, known)) * rows / nearest

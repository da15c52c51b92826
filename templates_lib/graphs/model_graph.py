"""An any-to-any model: components, and what they send each other (Cornserve, sections 2.1 and 4.1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from templates_lib.graphs.component import ELEMENT_BYTES, Component, ComponentWork
from templates_lib.values.nearest_name import nearest_name


class GraphError(ValueError):
    """The graph cannot be served: the message names the component, edge or request type, and what to change."""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """Rows that `source` gives `target`."""

    source: str
    target: str
    width: int
    """Elements of a row."""
    rows_per_unit: float = 1.0
    """Rows for each unit of the source's work."""
    element_bytes: float = ELEMENT_BYTES
    stream: bool = False
    """True: rows are sent as they are made, and the target begins before the source ends; else they go at once."""
    required: bool = True
    """The target cannot work without; else requests may have it or not."""
    with_context: bool = False
    """Rows are sent of what the source read first, too (its prompt)."""

    @property
    def bytes_per_unit(self) -> float:
        return self.width * self.rows_per_unit * self.element_bytes

    def bytes_of(self, work: ComponentWork) -> float:
        """Bytes that a request sends which asks `work` of the source."""
        return self.bytes_per_unit * (work.units + (work.context_tokens if self.with_context else 0.0))

    @property
    def name(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """Raises GraphError for names that are given twice or unknown, for edges between ends of other widths, and for
    cycles."""

    id: str
    revision: str
    components: tuple[Component, ...]
    """In an order in which none comes before what it takes rows from."""
    edges: tuple[GraphEdge, ...]

    def __post_init__(self) -> None:
        names = [component.name for component in self.components]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise GraphError(f"{self.id}: component {twice[0]!r} is there twice; give each a name of its own")
        if not names:
            raise GraphError(f"{self.id}: has no component; name at least one")
        for edge in self.edges:
            self._check(edge)
        object.__setattr__(self, "components", tuple(self.component(name) for name in self._in_order()))

    def component(self, name: str) -> Component:
        """Raises GraphError with the nearest name."""
        found = next((component for component in self.components if component.name == name), None)
        if found is None:
            known = [component.name for component in self.components]
            raise GraphError(f"{self.id}: there is no component {name!r}; {nearest_name(name, known)}")
        return found

    def sources(self, name: str) -> tuple[GraphEdge, ...]:
        """Return the edges that lead to a component."""
        return tuple(edge for edge in self.edges if edge.target == name)

    def order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Sort components as the graph has them. Raises GraphError with the nearest name for others."""
        wanted = {self.component(name).name for name in names}
        return tuple(component.name for component in self.components if component.name in wanted)

    @property
    def weight_bytes(self) -> float:
        return sum(component.weight_bytes for component in self.components)

    def _check(self, edge: GraphEdge) -> None:
        source, target = self.component(edge.source), self.component(edge.target)
        for end, width, does in ((source, source.gives, "gives"), (target, target.takes, "takes")):
            if width != edge.width:
                stated = f"rows of {width}" if width else "no rows"
                raise GraphError(
                    f"{self.id}: edge {edge.name} carries rows of {edge.width}, but {end.name!r} {does} {stated}; "
                    f"both ends and the edge need one width"
                )

    def _in_order(self) -> tuple[str, ...]:
        """Sort so that rows are made before they are taken, and else as given."""
        place = {component.name: number for number, component in enumerate(self.components)}
        sorter = TopologicalSorter({name: {e.source for e in self.edges if e.target == name} for name in place})
        try:
            sorter.prepare()
        except CycleError as error:
            circle = " -> ".join(error.args[1])
            raise GraphError(f"{self.id}: components wait for each other: {circle}; leave one edge out") from None
        ordered: list[str] = []
        while sorter.is_active():
            ready = sorted(sorter.get_ready(), key=place.__getitem__)
            ordered += ready
            sorter.done(*ready)
        return tuple(ordered)

"""The names that a spec file may use, gathered before it is read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    models: frozenset[str]
    gpus: frozenset[str]
    shapes: frozenset[str]
    """Shipped workload shapes."""
    rates: frozenset[str]
    """Shipped rate series."""
    regions: dict[str, frozenset[str]]
    """Cloud → its regions, over every offer source that the file asks for."""
    graphs: frozenset[str] = frozenset()
    """Any-to-any models that ship."""

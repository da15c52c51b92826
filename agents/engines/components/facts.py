"""Facts of a component's engine, for those who send it work and those who place it."""

from dataclasses import dataclass

from agents.engines.components.codes import Codes
from agents.engines.components.unit_kinds import UnitKind


@dataclass(frozen=True, slots=True)
class ComponentFacts:
    engine: str
    """`torch`: cost models are keyed by it."""
    family: str
    """`model_type` of the model that it is part of."""
    component: str
    """Its name in the model's graph (`templates_lib.graphs`)."""
    most_units: int
    """Of a batch."""
    most_rows: int
    """`takes.rows_in` of a batch, at most; a single unit may not have more, either."""
    weight_bytes: int
    """Of the device's memory that it takes as long as it is loaded."""
    row_bytes: int
    """What a row of a batch takes on top while it is computed: an estimate, without what attention keeps for itself."""
    dtype: str
    """In which it computes; what it gives is fp32 whatever it is."""
    device: str
    loaded_bytes: int
    """Read from the checkpoint, as stored."""
    load_s: float
    fingerprint: str
    """Hash of its config and its tensors: what it makes of a unit is the same wherever this is."""

    @property
    def most_memory_bytes(self) -> int:
        """Weights, and a batch as large as may be."""
        return self.weight_bytes + self.most_rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class EncoderFacts(ComponentFacts):
    takes: UnitKind
    row_width: int
    """Of the rows that it gives."""


@dataclass(frozen=True, slots=True)
class GeneratorFacts(ComponentFacts):
    takes: Codes

"""Part of a model that one engine holds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayerRange:
    """Consecutive layers [first_layer, first_layer + layers) of a model, and the ends they come with."""

    first_layer: int
    layers: int
    first: bool
    """Holds the token embedding: a step takes token ids."""
    last: bool
    """Holds the final norm and LM head: a step returns samples."""

    def __post_init__(self) -> None:
        if self.first_layer < 0 or self.layers < 1:
            raise ValueError(f"a stage holds at least one layer, from 0 on: got {self.layers} from {self.first_layer}")
        if self.first and self.first_layer:
            raise ValueError(f"the first stage begins at layer 0, not at {self.first_layer}")

    @property
    def end(self) -> int:
        return self.first_layer + self.layers

    @classmethod
    def whole(cls, layers: int) -> "LayerRange":
        return cls(0, layers, first=True, last=True)

"""A network without a KV cache, as far as its cost needs to know it: transformer layers, and products around them."""

from dataclasses import dataclass
from enum import StrEnum


class Rows(StrEnum):
    """Rows of activations that a product is applied to."""

    OWN = "own"
    """Those that the network is for: patches, audio frames, latents."""
    CONTEXT = "context"
    """Those of the text that steers a denoiser (the second stream of its blocks)."""
    ITEM = "item"
    """One an item, such as the time embedding that modulates a denoiser's blocks."""


@dataclass(frozen=True, slots=True)
class Product:
    """Rows times a weight matrix of `depth` by `columns`. A convolution is one whose depth is its taps times channels
    (im2col), with `rows` output positions for each row of the network."""

    columns: float
    depth: float
    rows: float = 1.0
    """Rows for each row of the network (of `of`)."""
    of: Rows = Rows.OWN
    count: int = 1
    """Equal products one after another."""

    @property
    def weights(self) -> float:
        return self.count * self.columns * self.depth


@dataclass(frozen=True, slots=True)
class Stack:
    """Equal transformer layers with non-causal attention."""

    layers: int
    products: tuple[Product, ...]
    """Those of one layer."""
    heads: int
    head_dim: int
    window_rows: int = 0
    """Rows that each row attends to; 0: all rows of its item, and its context's."""
    vectors: float = 0.0
    """Weights of one layer's norms and biases."""

    @property
    def weights(self) -> float:
        return self.layers * (sum(product.weights for product in self.products) + self.vectors)


@dataclass(frozen=True, slots=True)
class Network:
    rows_per_unit: float
    """Rows inside for each unit of the component: patches that are merged into one image token."""
    stacks: tuple[Stack, ...]
    products: tuple[Product, ...]
    """Those before, between and behind the stacks."""
    other_weights: float = 0.0
    """Embeddings, norms and biases outside of the stacks: held, and hardly computed with."""

    @property
    def weights(self) -> float:
        """Number of weights."""
        outside = sum(product.weights for product in self.products)
        return sum(stack.weights for stack in self.stacks) + outside + self.other_weights

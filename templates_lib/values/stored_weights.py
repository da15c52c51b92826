"""A checkpoint as it is stored, kind of weights by kind: what an engine makes of it is reckoned from here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredMatrices:
    """Matrices of one kind in one layer."""

    dtype: str
    """Storage format, such as mxfp4."""
    weights: float
    bytes_per_weight: float
    """Scales included."""


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The checkpoint that a model was described by."""

    family: str
    """`model_type` of its config.json; empty: it names none."""
    attention: StoredMatrices
    dense_ffn: StoredMatrices
    """Of each layer that has a dense feed-forward block."""
    shared_experts: StoredMatrices
    experts: StoredMatrices
    head_size: int = 0
    """Numbers of a cached key of one attention head, or of the latent of latent attention; 0: not known."""
    is_latent: bool = False
    """Its attention is latent (`ModelSpec.latent_attention`)."""
    mixes_windows: bool = False
    """Its layers see unlike stretches of a text: some through a sliding window, others all of it."""

    @property
    def matrices(self) -> tuple[StoredMatrices, ...]:
        """Those that there are any of."""
        kinds = (self.attention, self.dense_ffn, self.shared_experts, self.experts)
        return tuple(kind for kind in kinds if kind.weights)

    @property
    def formats(self) -> tuple[str, ...]:
        """Storage formats that occur, in the order of the kinds."""
        return tuple(dict.fromkeys(kind.dtype for kind in self.matrices))

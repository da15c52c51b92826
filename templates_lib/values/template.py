"""The serving template: integer hardware in, linear capacity out."""

import hashlib
from dataclasses import dataclass

import msgspec

from templates_lib.values.placement import Placement


@dataclass(frozen=True, slots=True)
class Software:
    """Identity of a template's software, besides its hardware and its placement."""

    model: str
    model_revision: str
    dtype: str
    engine: str
    dispatch: str
    served_as: str = ""
    """The name that it is served under, where that is not the model's id: a fleet may serve one model under several,
    with objectives of their own, and an instance is of one of them."""


@dataclass(frozen=True, slots=True)
class ServingTemplate:
    """Hardware and placement of one instance. Capacity is apart: a new profile re-certifies, it never renames."""

    id: str
    model: str
    """Model id, or a name for the set of components that the template runs."""
    model_revision: str
    dtype: str
    engine: str
    dispatch: str
    """Dispatch policy under which its capacity is certified, such as `lockstep-v1`."""
    nodes: dict[str, int]
    """Node configuration → how many, all in one zone."""
    placement: Placement
    served_as: str = ""

    @property
    def software(self) -> Software:
        return Software(self.model, self.model_revision, self.dtype, self.engine, self.dispatch, self.served_as)


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Units per second of each work class that one instance sustains at once; mixtures and less are allowed."""

    units_per_s: dict[str, float]


Limit = dict[str, float]
"""Work class → what one unit per second of it uses of something that there is 1 of: time, bandwidth, KV cache. All
classes of an instance together use no more than 1 of each limit."""


@dataclass(frozen=True, slots=True)
class Capacity:
    template_id: str
    points: tuple[OperatingPoint, ...]
    shape_id: str
    slo_ms: float
    percentile: float
    cost_model_fingerprint: str
    queueing: bool = False
    """True where the capacity allows for requests that wait for each other (`Slo.queueing`)."""
    limits: tuple[Limit, ...] = ()
    """What bounds its classes together, where it is a region: the only point then has the most of each class alone."""


def template_id(
    model: str,
    model_revision: str,
    dtype: str,
    engine: str,
    dispatch: str,
    nodes: dict[str, int],
    placement: Placement,
    served_as: str = "",
) -> str:
    """Content hash (128 bits of BLAKE2b, hex) of everything that makes a template what it is."""
    content = (model, model_revision, dtype, engine, dispatch, nodes, placement, *((served_as,) if served_as else ()))
    return hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).hexdigest()

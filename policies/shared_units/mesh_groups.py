"""Mesh groups: the ways to cut a cluster into meshes (MuxServe, section 3.2)."""

from collections.abc import Iterator
from functools import cache

MeshGroup = tuple[int, ...]
"""GPUs of each mesh, falling."""


def mesh_groups(gpus: int, gpus_per_node: int, models: int) -> tuple[MeshGroup, ...]:
    """All groups of meshes of 1, 2, 4, ... GPUs that use all of `gpus`, in order. No mesh reaches across nodes; the
    last node may have fewer GPUs.

    Groups of more meshes than models, some of which would be empty, are left out, as in the authors' code. Raises
    ValueError for a node whose GPUs are no power of two.
    """
    if gpus_per_node < 1 or gpus_per_node & (gpus_per_node - 1):
        raise ValueError(f"nodes of {gpus_per_node} GPUs cannot be cut into halves: give 1, 2, 4, 8, ...")
    return _cuts(gpus, gpus_per_node, models)


@cache
def _cuts(gpus: int, largest: int, most: int) -> tuple[MeshGroup, ...]:
    """Cuts of `gpus` into at most `most` powers of two, none above `largest`. Whole nodes hold them: powers of two fill
    larger powers of two without a rest."""
    return tuple(_each_cut(gpus, largest, most))


def _each_cut(gpus: int, largest: int, most: int) -> Iterator[MeshGroup]:
    if gpus == 0:
        yield ()
        return
    if gpus > largest * most:
        return
    size = largest
    while size:
        if size <= gpus:
            for rest in _cuts(gpus - size, size, most - 1):
                yield (size, *rest)
        size //= 2

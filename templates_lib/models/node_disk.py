"""Disk of a rented node: what it is launched with, and pays for."""

import math
from collections.abc import Iterable
from typing import Protocol

from templates_lib.values.engines import environments

IMAGE_BYTES = 60e9
"""What the cloud's image, the agent's environment and our logs may take: an assumption, on the large side."""
SPARE = 0.05
"""Share of a checkpoint that its files may have beside the weights that are planned, such as alignment and indices."""
STEP_GIB, LEAST_GIB = 10, 100
"""Sizes are multiples of one, and at least the other: images of clouds are not taken on smaller disks."""
GIB = 2**30


class Weighed(Protocol):
    """A model, or a graph of components, by what its checkpoint takes."""

    @property
    def weight_bytes(self) -> float: ...


def beside_weights_bytes(engines: Iterable[str]) -> float:
    """Return what a node's disk holds beside weights: image, agent, and the environments of these engines."""
    return IMAGE_BYTES + sum(each.disk_bytes for each in environments(engines).values())


def disk_gib(models: Iterable[Weighed], engines: Iterable[str] = ()) -> int:
    """Return the GiB of a node that runs stages or components of these models in these engines. Each model is reckoned
    whole: a node fetches the files that its layers are in, and where a checkpoint is cut into files is known when it is
    fetched."""
    needed = beside_weights_bytes(engines) + sum((1 + SPARE) * model.weight_bytes for model in models)
    return max(LEAST_GIB, STEP_GIB * math.ceil(needed / GIB / STEP_GIB))

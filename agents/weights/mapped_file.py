"""A file of weights, mapped into memory: pages are read when they are touched."""

import mmap
from pathlib import Path

from agents.weights.errors import CorruptWeightsError, MissingWeightsError


def map_file(path: Path) -> mmap.mmap:
    """Map it for reading. Raises MissingWeightsError, and CorruptWeightsError for an empty one, which has no map."""
    if not path.is_file():
        raise MissingWeightsError(f"{path} does not exist")
    if path.stat().st_size == 0:
        raise CorruptWeightsError(path, "is empty")
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

"""Checks that a batch is what its source promised: what is stored must be readable for good."""

import numpy as np
from numpy.typing import NDArray

from templates_lib.ports.source import TemplateBatch


def check_batch(batch: TemplateBatch, config_count: int, class_count: int) -> None:
    """Raise ValueError that names the unit and what is wrong with it."""
    size, points, entries = len(batch.ids), len(batch.point_template), len(batch.entry_point)
    complaints = {
        "ids are not 32 hexadecimal digits each": not _all_hex(batch.ids),
        "a template comes twice": len(np.unique(batch.ids)) != size,
        f"nodes are not uint8 of shape ({size}, {config_count})": (
            batch.nodes.shape != (size, config_count) or batch.nodes.dtype != np.uint8
        ),
        "a template has no nodes": bool((batch.nodes.sum(axis=1) == 0).any()),
        f"records are not {size}": len(batch.records) != size,
        "a template has no operating point": not _covers(batch.point_template, size),
        "an operating point has no capacity": not _covers(batch.entry_point, points),
        "capacity arrays differ in length": len(batch.entry_class) != entries
        or len(batch.entry_units_per_s) != entries,
        "a work class is unknown": bool(((batch.entry_class < 0) | (batch.entry_class >= class_count)).any()),
        "a capacity is not a positive number": not bool(
            (np.isfinite(batch.entry_units_per_s) & (batch.entry_units_per_s > 0)).all()
        ),
    }
    for complaint, is_true in complaints.items():
        if is_true:
            raise ValueError(f"unit {batch.unit!r} of the template source cannot be stored: {complaint}")


def _all_hex(ids: NDArray[np.bytes_]) -> bool:
    if ids.dtype != np.dtype("S32"):
        return False
    digits = ids.view(np.uint8)
    return bool((((digits >= ord("0")) & (digits <= ord("9"))) | ((digits >= ord("a")) & (digits <= ord("f")))).all())


def _covers(parents: NDArray[np.int32], count: int) -> bool:
    """Tell whether non-decreasing `parents` name each of 0 … count - 1 at least once, and nothing else."""
    if count == 0:
        return len(parents) == 0
    steps = np.diff(parents)
    return bool(
        len(parents) > 0 and parents[0] == 0 and parents[-1] == count - 1 and ((steps == 0) | (steps == 1)).all()
    )

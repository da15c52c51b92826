"""Masks over the role axis; arrays of this package have axes (role, variant, layer count, level)."""

import numpy as np

from templates_lib.values.throughput_table import StageRole


def _mask(*roles: StageRole) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.array([role in roles for role in StageRole])[:, None, None, None]


HAS_EMBEDDING = _mask(StageRole.FIRST, StageRole.ONLY)
HAS_HEAD = _mask(StageRole.LAST, StageRole.ONLY)
IS_ALONE = _mask(StageRole.ONLY)
"""A stage without peers: no hop, and nobody to wait for."""

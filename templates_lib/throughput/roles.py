"""Masks over the role axis; arrays of this package have axes (role, variant, layer count, level)."""

import numpy as np

from templates_lib.values.throughput_table import Role


def _mask(*roles: Role) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.array([role in roles for role in Role])[:, None, None, None]


HAS_EMBEDDING = _mask(Role.FIRST, Role.ONLY)
HAS_HEAD = _mask(Role.LAST, Role.ONLY)
IS_ALONE = _mask(Role.ONLY)
"""A stage without peers: no hop, and nobody to wait for."""

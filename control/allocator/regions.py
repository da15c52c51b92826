"""Templates whose capacity is a region of limits, as templates of operating points, which the allocator reads.

A region {x ≥ 0: Σ use · x ≤ 1 for every limit} is clipped at the load that there is at most: what one instance could do
of a class beyond the whole of its load counts for nothing, and lowering a component stays in the region. For whole
instances nothing is lost (the multi-class form of `Columns`' clipping), and the linear relaxation becomes honest.
(Corners of the region itself have all of an instance for one class: a tenth would do for each of ten classes.)
Where the whole load of all of its classes fits, a template has a single point.

What is left are the maximal corners of the region within that box; all else is a mixture of them, or less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from control.allocator.columns import Floats, Ints
from templates_lib.values.library import Library

ROUNDING = 1e-9
MOST_CLASSES = 10
"""Classes of one template with limits: corners double with each."""


def with_points(library: Library, usable_share: Floats) -> tuple[Library, Floats]:
    """The library with points instead of limits, and `usable_share` (entries,) for its entries.

    `usable_share` turns units per second into shares of the most load that a class can have; 0 where it has none.
    Raises ValueError for limits on templates of several points, and on more than `MOST_CLASSES` classes.
    """
    limited = _limited(library)
    if not len(limited):
        return library, usable_share
    start = np.searchsorted(library.point_template, np.arange(library.size + 1))
    entry_start = np.searchsorted(library.entry_point, np.arange(len(library.point_template) + 1))
    parts = _Parts(library, usable_share)
    for (classes, _), templates in _alike(library, limited, start, entry_start).items():
        point = start[templates]
        entry = entry_start[point][:, None] + np.arange(classes)
        most, rows = _box(library, usable_share, templates, entry)
        for of, x in maximal_corners(most, rows):
            parts.add(templates[of], entry[of], x)
    return parts.joined(limited)


def _limited(library: Library) -> Ints:
    """(templates,) those with limits."""
    if not library.limits:
        return np.zeros(0, np.int64)
    names = np.array([name.encode() for name in library.limits], dtype=library.ids.dtype)
    return np.flatnonzero(np.isin(library.ids, names))


def _alike(
    library: Library, limited: Ints, start: Ints, entry_start: Ints
) -> Mapping[tuple[int, int], NDArray[np.int64]]:
    """(classes, limits) → templates."""
    found: dict[tuple[int, int], list[int]] = {}
    for template in limited.tolist():
        name = library.template_id(template)
        point = start[template]
        if start[template + 1] - point != 1:
            raise ValueError(f"template {name} has limits and several operating points: give it one, of the most alone")
        classes = int(entry_start[point + 1] - entry_start[point])
        if classes > MOST_CLASSES:
            raise ValueError(
                f"template {name} has limits on {classes} work classes, of which {MOST_CLASSES} are planned"
            )
        found.setdefault((classes, len(library.limits[name])), []).append(template)
    return {key: np.array(templates) for key, templates in found.items()}


def _box(library: Library, usable_share: Floats, templates: Ints, entry: Ints) -> tuple[Floats, Floats]:
    """(T, m) the most units/s of each class that count, and (T, R, m) what one of them uses of each limit."""
    share = usable_share[entry]
    with np.errstate(divide="ignore"):
        most = np.minimum(library.entry_units_per_s[entry], np.where(share > 0, 1.0 / share, np.inf))
    rows = []
    for template, entries in zip(templates.tolist(), entry, strict=True):
        names = [library.classes[k].id for k in library.entry_class[entries].tolist()]
        limits = library.limits[library.template_id(template)]
        rows.append([[limit.get(name, 0.0) for name in names] for limit in limits])
    return most, np.array(rows, dtype=np.float64)


def maximal_corners(most: Floats, rows: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Corners of {0 ≤ x ≤ most, rows · x ≤ 1} that no other point of it exceeds, as (which of T, (corners, m)).

    `most` (T, m), `rows` (T, R, m), none below 0. At a corner as many classes are between nothing and their most as
    limits hold tightly; each choice of these is solved for all T at once. A point is maximal where every class below
    its most is held by a tight limit that it uses.
    """
    use = rows * most[:, None, :]  # of shares z = x / most
    fits = (use.sum(axis=2) <= 1 + ROUNDING).all(axis=1)
    if fits.any():
        yield np.flatnonzero(fits), most[fits]
    left = np.flatnonzero(~fits)
    if not len(left):
        return
    use, found = use[left], []
    for between, full in _patterns(most.shape[1], rows.shape[1]):
        for tight in combinations(range(rows.shape[1]), len(between)):
            of, z = _solved(use, list(between), full, list(tight))
            good = _is_maximal(use[of], z)
            found.append((of[good], z[good]))
    of, z = (np.concatenate(parts) for parts in zip(*found, strict=True))
    _, first = np.unique(np.column_stack([of, np.round(z, 9)]), axis=0, return_index=True)
    yield left[of[first]], most[left[of[first]]] * z[first]


def _patterns(classes: int, limits: int) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """(classes between nothing and their most, (m,) 1 for those at their most)."""
    for count in range(min(classes, limits) + 1):
        for between in combinations(range(classes), count):
            others = [k for k in range(classes) if k not in between]
            for chosen in product((0.0, 1.0), repeat=len(others)):
                full = np.zeros(classes)
                full[others] = chosen
                yield between, full


def _solved(use: Floats, between: list[int], full: Floats, tight: list[int]) -> tuple[Ints, Floats]:
    """(which, (corners, m) shares) with `full` at their most and `tight` limits held exactly by those `between`."""
    z = np.broadcast_to(full, (len(use), len(full))).copy()
    which = np.arange(len(use))
    if between:
        matrix = use[:, tight][:, :, between]
        size = np.abs(matrix).max(axis=(1, 2), initial=ROUNDING)
        which = np.flatnonzero(np.abs(np.linalg.det(matrix / size[:, None, None])) > ROUNDING)
        rest = 1.0 - (use[which][:, tight] * full).sum(axis=2)
        z = z[which]
        z[:, between] = np.linalg.solve(matrix[which], rest[:, :, None])[:, :, 0]
    inside = ((z >= -ROUNDING) & (z <= 1 + ROUNDING)).all(axis=1)
    inside &= ((use[which] * z[:, None, :]).sum(axis=2) <= 1 + ROUNDING).all(axis=1)
    return which[inside], np.clip(z[inside], 0.0, 1.0)


def _is_maximal(use: Floats, z: Floats) -> NDArray[np.bool_]:
    """(corners,)"""
    tight = (use * z[:, None, :]).sum(axis=2) >= 1 - ROUNDING
    held = (tight[:, :, None] & (use > 0)).any(axis=1)
    return np.asarray((held | (z >= 1 - ROUNDING)).all(axis=1))


class _Parts:
    """Points of a library under construction."""

    def __init__(self, library: Library, usable_share: Floats) -> None:
        self._library, self._share = library, usable_share
        self._template: list[Ints] = []
        self._entry: list[Ints] = []
        self._units: list[Floats] = []

    def add(self, template: Ints, entry: Ints, units: Floats) -> None:
        """Points (P, m) of templates, by the entries that they are of."""
        self._template += list(template)
        self._entry += list(entry)
        self._units += list(units)

    def joined(self, limited: Ints) -> tuple[Library, Floats]:
        """The library with these points for `limited` templates and its own for all others, in order of templates."""
        library = self._library
        is_limited = np.zeros(library.size, dtype=bool)
        is_limited[limited] = True
        plain_points = np.flatnonzero(~is_limited[library.point_template])
        plain_entries = np.flatnonzero(~is_limited[library.point_template[library.entry_point]])
        new = len(plain_points) + np.repeat(np.arange(len(self._template)), [len(each) for each in self._entry])
        position = np.zeros(len(library.point_template), np.int64)
        position[plain_points] = np.arange(len(plain_points))
        template = np.concatenate([library.point_template[plain_points], np.array(self._template, np.int64)])
        point = np.concatenate([position[library.entry_point[plain_entries]], new])
        entry = np.concatenate([plain_entries, *self._entry])
        units = np.concatenate([library.entry_units_per_s[plain_entries], *self._units])
        some = units > 0
        point, entry, units = point[some], entry[some], units[some]
        order = np.argsort(template, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        sorted_entries = np.argsort(rank[point], kind="stable")
        entry, units, point = entry[sorted_entries], units[sorted_entries], rank[point][sorted_entries]
        return replace(
            library,
            point_template=template[order].astype(np.int32),
            entry_point=point.astype(np.int32),
            entry_class=library.entry_class[entry],
            entry_units_per_s=units,
            limits={},
        ), self._share[entry]

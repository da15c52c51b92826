"""Dropping templates that no allocation needs, whatever the prices, for templates of any kind.

A template goes when its nodes, or some of them, used as one or more other templates, serve at least as much: every
vertex of its capacity region lies in the sum of the regions of those parts. Then a plan that uses it costs no less
than one with the parts instead, as long as nodes are paid for one by one (rent, and a start-up cost that is a constant
per node) and instances are not counted. Pipeline templates of one work class are pruned as they are placed, by the same
rule (`placement_solver.bag_kernel`). This module compares regions of several classes and operating points, in time that
grows fast with the number of templates: it is for small libraries, written by hand or by other systems.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from templates_lib.library import Library

ROUNDING = 1e-9
"""Share of a capacity that a sum of parts may lack, since sums are rounded."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    nodes: NDArray[np.int64]
    """(C,)"""
    points: Floats
    """(points, classes) units/s; its capacity is what lies below their mixtures."""


def redundant(library: Library, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(n,) the templates that go; never one of `keep` (n,): those that run, and of models whose instances are counted.

    Of several that serve the same on the same nodes the last stays.
    """
    templates = [_template(library, row) for row in range(library.size)]
    gone = np.zeros(library.size, dtype=np.bool_)
    for row, template in enumerate(templates):
        if keep[row]:
            continue
        parts = [
            other
            for place, other in enumerate(templates)
            if place != row and not gone[place] and (other.nodes <= template.nodes).all() and _shares(other, template)
        ]
        gone[row] = any(_covers(chosen, template) for chosen in _packings(parts, template.nodes))
    return gone


def _template(library: Library, row: int) -> _Template:
    points = np.flatnonzero(library.point_template == row)
    units = np.zeros((len(points), len(library.classes)))
    for place, point in enumerate(points):
        entries = library.entry_point == point
        units[place, library.entry_class[entries]] = library.entry_units_per_s[entries]
    return _Template(library.nodes[row].astype(np.int64), units)


def _shares(other: _Template, template: _Template) -> bool:
    """Whether they have a work class in common."""
    return bool((other.points.any(axis=0) & template.points.any(axis=0)).any())


def _packings(parts: list[_Template], nodes: NDArray[np.int64], first: int = 0) -> Iterator[list[_Template]]:
    """Every way to use `nodes` as some of `parts`, repeats allowed, such that no part from `first` on fits beside."""
    full = True
    for place in range(first, len(parts)):
        left = nodes - parts[place].nodes
        if (left >= 0).all():
            full = False
            for others in _packings(parts, left, place):
                yield [parts[place], *others]
    if full:
        yield []


def _covers(parts: list[_Template], template: _Template) -> bool:
    """Whether each vertex of the template's capacity lies in the sum of the parts' capacities."""
    if not parts:
        return False
    most = np.sum([part.points.max(axis=0) for part in parts], axis=0)
    wanted = template.points * (1 - ROUNDING)
    if (wanted > most).any():
        return False
    return all(np.count_nonzero(vertex) <= 1 or _reaches(parts, vertex) for vertex in wanted)


def _reaches(parts: list[_Template], vertex: Floats) -> bool:
    """Whether mixtures of each part's points, added up, serve `vertex` (classes,)."""
    classes = np.flatnonzero(vertex)
    points = np.concatenate([part.points for part in parts])[:, classes]
    owner = np.repeat(np.arange(len(parts)), [len(part.points) for part in parts])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for _ in range(len(points)):
        solver.addVar(0.0, 1.0)
    for part in range(len(parts)):
        own = np.flatnonzero(owner == part).astype(np.int32)
        solver.addRow(-highspy.kHighsInf, 1.0, len(own), own, np.ones(len(own)))
    every = np.arange(len(points), dtype=np.int32)
    for place, units in enumerate(vertex[classes]):
        # Scaled to 1, since tokens per second and requests per second differ by orders of magnitude.
        solver.addRow(1.0, highspy.kHighsInf, len(every), every, points[:, place] / units)
    solver.run()
    return bool(solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

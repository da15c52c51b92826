"""Which templates of several classes and operating points are redundant."""

from collections.abc import Mapping, Sequence

import numpy as np

from templates_lib.pruning import redundant
from tests.factories import Point, library, work_class

CLASSES = [work_class("a/serve"), work_class("b/serve")]


def _gone(templates: Mapping[str, tuple[Mapping[str, int], Sequence[Point]]], *, keep: Sequence[str] = ()) -> set[str]:
    made = library(CLASSES, templates)
    gone = redundant(made, np.array([made.template_id(i) in keep for i in range(made.size)]))
    return {made.template_id(i) for i in np.flatnonzero(gone)}


def test_a_shared_template_goes_when_apart_its_nodes_serve_every_vertex() -> None:
    parts = {"a": ({"x": 1}, [{"a/serve": 5.0}]), "b": ({"x": 1}, [{"b/serve": 5.0}])}
    assert _gone({**parts, "both": ({"x": 2}, [{"a/serve": 5.0, "b/serve": 4.0}])}) == {"both"}


def test_a_shared_template_stays_when_one_vertex_is_out_of_reach() -> None:
    parts = {"a": ({"x": 1}, [{"a/serve": 5.0}]), "b": ({"x": 1}, [{"b/serve": 5.0}])}
    points = [{"a/serve": 5.0, "b/serve": 4.0}, {"a/serve": 1.0, "b/serve": 5.5}]
    assert _gone({**parts, "both": ({"x": 2}, points)}) == set()


def test_vertices_must_all_be_reached_by_the_same_parts() -> None:
    """Two nodes of `a` reach one vertex, two of `b` the other; no pair reaches both, so no fixed fleet does."""
    parts = {"a": ({"x": 1}, [{"a/serve": 5.0}]), "b": ({"x": 1}, [{"b/serve": 5.0}])}
    assert _gone({**parts, "both": ({"x": 2}, [{"a/serve": 10.0}, {"b/serve": 10.0}])}) == set()


def test_mixtures_of_a_part_count() -> None:
    part = {"unit": ({"x": 1}, [{"a/serve": 4.0}, {"b/serve": 4.0}])}
    assert _gone({**part, "both": ({"x": 2}, [{"a/serve": 6.0, "b/serve": 2.0}])}) == {"both"}
    assert _gone({**part, "both": ({"x": 2}, [{"a/serve": 6.0, "b/serve": 2.1}])}) == set()


def test_some_of_the_nodes_may_idle_but_never_more_be_used() -> None:
    small = {"small": ({"x": 1}, [{"a/serve": 5.0}])}
    assert _gone({**small, "large": ({"x": 1, "y": 1}, [{"a/serve": 5.0}])}) == {"large"}
    assert _gone({**small, "other": ({"y": 1}, [{"a/serve": 1.0}])}) == set()


def test_of_equal_templates_one_stays() -> None:
    twins = {"one": ({"x": 1}, [{"a/serve": 5.0}]), "two": ({"x": 1}, [{"a/serve": 5.0}])}
    assert _gone(twins) == {"one"}


def test_what_runs_stays() -> None:
    twins = {"one": ({"x": 1}, [{"a/serve": 5.0}]), "two": ({"x": 2}, [{"a/serve": 10.0}])}
    assert _gone(twins) == {"two"}
    assert _gone(twins, keep=["two"]) == set()

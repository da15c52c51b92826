from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from templates_lib.sources.json_source import JsonSourceError, read_json_source
from templates_lib.sources.listed_source import read_listed
from templates_lib.values.template import template_id


def document() -> dict[str, Any]:
    """Two models on one mesh: two classes, two operating points, a placement of a kind nobody has built yet."""
    return {
        "classes": [
            {"id": f"{m}/serve", "component": m, "phase": "serve", "unit": "invocation", "shape_id": "s",
             "slo_share_ms": 500.0}
            for m in ("chat", "code")
        ],
        "templates": [
            {
                "software": {"model": "chat+code", "model_revision": "1", "dtype": "bf16", "engine": "mux",
                             "dispatch": "quota-v1"},
                "nodes": {"A100:2/n100": 1, "L4:1/n25": 2},
                "placement": {"kind": "shared-mesh", "version": 1, "payload": {"quota": {"chat": 0.5}}},
                "points": [{"units_per_s": {"chat/serve": 9.0, "code/serve": 1.0}},
                           {"units_per_s": {"code/serve": 7.0}}],
                "shape_id": "s", "slo_ms": 500.0, "percentile": 99.0,
            }
        ],
    }  # fmt: skip


def write(folder: Path, content: Any) -> Path:
    path = folder / "templates.json"
    path.write_bytes(content if isinstance(content, bytes) else msgspec.json.encode(content))
    return path


def test_any_placement_several_classes_and_points_become_arrays_and_come_back(tmp_path: Path) -> None:
    source = read_json_source(write(tmp_path, document()))
    (batch,) = source.build(source.units(), lambda *_: None)
    assert source.configs == ("A100:2/n100", "L4:1/n25")
    assert batch.nodes.tolist() == [[1, 2]]
    assert batch.point_template.tolist() == [0, 0]
    assert batch.entry_point.tolist() == [0, 0, 1]
    assert batch.entry_class.tolist() == [0, 1, 1]
    assert batch.entry_units_per_s.tolist() == [9, 1, 7]
    template, capacity = read_listed(batch.records[0], {"A100:2/n100": 1, "L4:1/n25": 2})
    assert template.placement.payload == {"quota": {"chat": 0.5}}
    again = template_id("chat+code", "1", "bf16", "mux", "quota-v1", template.nodes, template.placement)
    assert template.id == again == np.bytes_(batch.ids[0]).decode()
    assert [p.units_per_s for p in capacity.points] == [{"chat/serve": 9.0, "code/serve": 1.0}, {"code/serve": 7.0}]


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    first = read_json_source(write(tmp_path, document())).fingerprint
    assert read_json_source(write(tmp_path, document())).fingerprint == first
    faster = document()
    faster["templates"][0]["points"][0]["units_per_s"]["chat/serve"] = 10.0
    assert read_json_source(write(tmp_path, faster)).fingerprint != first


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    content = document()
    place: Any = content
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (changed(("templates", 0, "node"), {}), r"unknown key 'node' at \$.templates\[0\]; did you mean 'nodes'"),
        (changed(("templates", 0, "software", "dtyp"), "x"), r"'dtyp' at \$.templates\[0\].software; .*'dtype'"),
        (changed(("colour",), 1), r"unknown key 'colour' at \$; valid: classes, templates"),
        (changed(("templates", 0, "nodes"), None), r"missing required field `nodes` - at `\$.templates\[0\]`"),
        (changed(("templates", 0, "nodes", "L4:1/n25"), "two"), r"Expected `int`, got `str`"),
        (changed(("templates", 0, "nodes", "L4:1/n25"), 0), "no count below 1"),
        (changed(("templates", 0, "nodes"), {}), "at least one node"),
        (changed(("templates", 0, "points"), []), "at least one operating point"),
        (changed(("templates", 0, "points", 0, "units_per_s", "chat/serv"), 1.0), "unknown work class 'chat/serv'"),
        (changed(("templates", 0, "points", 0, "units_per_s", "chat/serve"), -1.0), "no capacity"),
        (changed(("classes", 0, "unit"), "potato"), "Invalid enum value 'potato'"),
        (changed(("classes", 1, "id"), "chat/serve"), "work class 'chat/serve' is given twice"),
        (b'{"classes": [', "truncated or no JSON"),
        (b'{"classes": [], "templates": NaN}', "truncated or no JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content: Any, problem: str) -> None:
    with pytest.raises(JsonSourceError, match=problem):
        read_json_source(write(tmp_path, content))


def test_a_template_given_twice_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    twice = document()
    twice["templates"] *= 2
    with pytest.raises(JsonSourceError, match="given twice"):
        read_json_source(write(tmp_path, twice))
    with pytest.raises(JsonSourceError, match="cannot be read"):
        read_json_source(tmp_path / "none.json")

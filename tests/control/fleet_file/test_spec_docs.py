"""docs/spec.md says what the schema says."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from control.fleet_file.schema import FleetFile
from control.planning.world import read_world

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "spec.md").read_text()
NAMED = set(re.findall(r"`([A-Za-z_.0-9]+)(?:\[\])?`", TEXT))


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = [t for t in (field.annotation, *get_args(field.annotation)) if isinstance(t, type)]
        inner = [t for t in inner if issubclass(t, BaseModel)]
        yield from fields(inner[0], f"{name}.") if inner else [f"{prefix}{name}"]


@pytest.mark.parametrize("field", sorted(set(fields(FleetFile)) - {"apiVersion", "kind", "name"}))
def test_every_field_is_documented(field: str) -> None:
    assert {field, field.partition(".")[2]} & NAMED


def test_the_example_is_a_valid_spec(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    (tmp_path / "spec.yaml").write_text(example.group(1))
    assert read_world(tmp_path / "spec.yaml").name == "support-bots"

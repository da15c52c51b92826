"""Bills of materials: whole, of what is there, and the same each time."""

import importlib.metadata
import json
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from control.bill_of_materials import Part, bill_of_materials
from control.cli.main import app


@pytest.mark.parametrize("part", Part)
def test_every_package_is_named_once_by_its_version(part: Part) -> None:
    document = bill_of_materials(part)
    refs = [each["bom-ref"] for each in document["components"]]
    assert len(refs) == len(set(refs)) > 20
    assert refs == sorted(refs)
    assert all(each["version"] and each["purl"].startswith("pkg:pypi/") for each in document["components"])
    known = {*refs, document["metadata"]["component"]["bom-ref"]}
    assert {ref for each in document["dependencies"] for ref in (each["ref"], *each["dependsOn"])} <= known
    assert document == bill_of_materials(part)


def test_the_control_planes_is_of_what_is_installed_here() -> None:
    document = bill_of_materials(Part.CONTROL)
    found = {each["name"].lower(): each for each in document["components"]}
    for name in ("sqlalchemy", "msgspec", "numpy"):
        assert found[name]["version"] == importlib.metadata.version(name)
        assert found[name]["licenses"]
    by_ref = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    assert found["numpy"]["bom-ref"] in by_ref[document["metadata"]["component"]["bom-ref"]]
    assert any("typing-extensions" in ref for ref in by_ref[found["sqlalchemy"]["bom-ref"]])


@pytest.mark.parametrize("part", [Part.AGENT, Part.VLLM])
def test_a_nodes_has_the_hashes_that_its_lock_has(part: Part) -> None:
    lock = (files("templates_lib") / f"data/engines/{part}.lock").read_text()
    document = bill_of_materials(part)
    assert len(document["components"]) == sum(line[:1].isalnum() for line in lock.splitlines())
    hashes = [each["content"] for component in document["components"] for each in component["hashes"]]
    assert len(hashes) == lock.count("--hash=sha256:")
    assert all(component["hashes"] for component in document["components"])


def test_the_command_prints_the_document() -> None:
    done = CliRunner().invoke(app, ["sbom", "agent"])
    assert json.loads(done.output) == bill_of_materials(Part.AGENT)

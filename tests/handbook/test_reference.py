"""Reference pages name all that there is."""

import json

import typer.main

from control.api.app import routed
from control.cli.main import app
from control.fleet_file.json_schema import json_schema
from handbook.command_reference import command_reference
from handbook.operation_reference import operation_reference
from handbook.spec_reference import spec_reference


def test_every_key_of_the_spec_is_on_its_page() -> None:
    schema = json.loads(json_schema())
    page = spec_reference(schema)
    for name, section in schema["$defs"].items():
        if name.endswith("Section"):
            assert f"## {name} " in page
            assert all(f"| `{key}` |" in page for key in section["properties"]), name
    assert "[ModelSection](#modelsection)" in page
    assert all(line.count("|") - line.count("\\|") == 5 for line in page.splitlines() if line.startswith("| `"))


def test_every_command_and_its_options_are_on_a_page() -> None:
    page = command_reference(typer.main.get_command(app))
    for name in ("plan", "fleets mode", "token create", "db upgrade", "top"):
        assert f"\n## medley {name} " in page
    assert "`--message`" in page
    assert "[MODEL]" in page, "what may be left out is marked"
    assert "\b" not in page


def test_every_operation_is_on_a_page_with_its_role() -> None:
    document = routed().openapi()
    page = operation_reference(document)
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page
    assert "| operator |" in page

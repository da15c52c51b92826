"""Pages are what the schemas say, schemas say what a spec file can, and examples are in order."""

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from control.fleet_file.schema import FleetFile
from tests.conftest import TERRAFORM_PYTHON
from tests.terraform.conftest import REPOSITORY, Make

pytestmark = pytest.mark.needs("terraform")
PACKAGE = REPOSITORY / "terraform" / "provider"
NOT_SENT = {
    "apiVersion",
    "kind",
    "models.name",  # the key of the map
    "offers.files",  # paths are of the machine that reads them
    "offers.availability",
    "clouds.hosts.key_file",
}


def test_the_pages_are_what_the_schemas_say(tmp_path: Path) -> None:
    subprocess.run((TERRAFORM_PYTHON, "-m", "medley_terraform", "docs", str(tmp_path)), check=True)
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.md")}
    kept = {path.relative_to(PACKAGE / "docs"): path.read_text() for path in (PACKAGE / "docs").rglob("*.md")}
    assert made == kept, "run: .venv-terraform/bin/terraform-provider-medley docs terraform/provider/docs"


def test_whatever_a_spec_file_says_of_a_fleet_terraform_can_say(make: Make) -> None:
    shown = json.loads(make(text=" ").ok("providers", "schema", "-json"))
    schemas = shown["provider_schemas"]["registry.terraform.io/medley/medley"]
    fleet = schemas["resource_schemas"]["medley_fleet"]["block"]["attributes"]
    assert of_document(FleetFile.model_json_schema()) - NOT_SENT <= of_attributes(fleet)
    token = schemas["resource_schemas"]["medley_api_token"]["block"]["attributes"]["token"]
    assert (token["sensitive"], token["computed"], token.get("optional")) == (True, True, None)


def test_examples_are_as_terraform_formats_them(make: Make) -> None:
    make(text=" ").ok("fmt", "-check", "-recursive", "-diff", str(REPOSITORY / "examples" / "terraform"))


def test_the_package_and_the_provider_are_of_one_version() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    line = f'VERSION = "{project["version"]}"'
    assert line in (PACKAGE / "medley_terraform" / "__init__.py").read_text()


def of_attributes(attributes: dict[str, Any], above: str = "") -> set[str]:
    """Paths of all, however deep."""
    found = set()
    for name, each in attributes.items():
        found.add(f"{above}{name}")
        found |= of_attributes(each.get("nested_type", {}).get("attributes", {}), f"{above}{name}.")
    return found


def of_document(schema: dict[str, Any]) -> set[str]:
    """Paths of all keys of a JSON schema; keys of maps are not named."""

    def below(part: dict[str, Any], above: str) -> set[str]:
        if "$ref" in part:
            return below(schema["$defs"][part["$ref"].rpartition("/")[2]], above)
        found = set()
        for each in (*part.get("anyOf", ()), *part.get("allOf", ())):
            found |= below(each, above)
        for inner in (part.get("items"), part.get("additionalProperties")):
            if isinstance(inner, dict):
                found |= below(inner, above)
        for name, each in part.get("properties", {}).items():
            found |= {f"{above}{name}"} | below(each, f"{above}{name}.")
        return found

    return below(schema, "")

"""One declaration says who reaches whom at which ports: documentation and Terraform modules say the same."""

import re
from pathlib import Path

import pytest

from templates_lib.values.ways import DEMAND_PORT, HUB_PORT, REGISTRY_PORT, WAYS

ROOT = Path(__file__).resolve().parents[2]


def test_the_documentation_lists_every_way() -> None:
    rows = re.findall(r"^\| (\S.*?) → (.*?) \| (\d+(?:-\d+)?) \|", (ROOT / "docs/clouds.md").read_text(), re.M)
    assert rows == [(way.source.value, way.target.value, way.ports) for way in WAYS]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_terraform_opens_the_ports_of_the_control_plane(cloud: str) -> None:
    text = (ROOT / f"terraform/modules/{cloud}/main.tf").read_text()
    ports = dict(re.findall(r"(hub|registry|demand)\s*=\s*(\d+)", text))
    assert ports == {"hub": str(HUB_PORT), "registry": str(REGISTRY_PORT), "demand": str(DEMAND_PORT)}

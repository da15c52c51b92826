"""The modules under Checkov: nothing is found that is not explained where it stands."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import IAC_VENV
from tests.terraform.modules import MODULES, copied

pytestmark = [pytest.mark.slow, pytest.mark.needs("iac")]


def found(folder: Path) -> list[dict[str, Any]]:
    command = [IAC_VENV / "bin" / "checkov", "--skip-download", "--framework", "terraform", "--output", "json"]
    done = subprocess.run(
        [*command, "--directory", folder], capture_output=True, text=True, timeout=900, check=False, cwd=folder
    )
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 50, done.stderr
    return list(report["results"]["failed_checks"])


def test_nothing_is_found_that_is_not_explained() -> None:
    assert [(one["check_id"], one["check_name"], one["resource"]) for one in found(MODULES)] == []


def test_every_exception_has_a_reason() -> None:
    for file in MODULES.glob("*/*.tf"):
        for check, reason in re.findall(r"checkov:skip=(\w+)(.*)", file.read_text()):
            assert len(reason.removeprefix(":").split()) >= 4, f"{file}: {check}{reason}"


def test_a_database_that_is_open_to_the_world_is_found(tmp_path: Path) -> None:
    module = copied("aws", tmp_path)
    file = module / "database.tf"
    text = file.read_text()
    for right, wrong in (
        ("publicly_accessible    = false", "publicly_accessible    = true"),
        ("storage_encrypted     = true\n", ""),
    ):
        assert right in text
        text = text.replace(right, wrong)
    file.write_text(text)
    assert {"CKV_AWS_16", "CKV_AWS_17"} <= {one["check_id"] for one in found(module)}

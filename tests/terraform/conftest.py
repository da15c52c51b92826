"""The real `terraform`, the real provider, and the real `medley api` on a database of its own."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import URL

from bench.api_process import serving
from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import open_database
from tests.conftest import TERRAFORM_PYTHON, fresh_database
from tests.control.api.conftest import now

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = (REPOSITORY / "examples" / "terraform" / "fleet" / "main.tf").read_text()
OF_THROUGHPUT = EXAMPLE.replace("tpot_ms = 62.5 }", "tpot_ms = 62.5, keep = { throughput = true } }")
"""The example without its promise of a percentile, which takes each of its plans ten times as long."""
PROVIDER = "terraform-provider-medley"
REQUIRED = (
    'terraform {\n  required_providers {\n    medley = { source = "medley/medley" }\n  }\n}\nprovider "medley" {}\n'
)
PATIENCE_S = 240.0


@dataclass
class Terraform:
    """In a directory of its own. What starts with `ok` fails the test when Terraform does."""

    directory: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def write(self, text: str) -> None:
        (self.directory / "main.tf").write_text(text)

    def run(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(*arguments), cwd=self.directory, env=self.environment | changes, capture_output=True,
            text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """In a process group of its own, as a shell does it: Ctrl-C goes to all of it."""
        process = subprocess.Popen(
            self._command(*arguments), cwd=self.directory, env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip
        self.started.append(process)
        return process

    def ok(self, *arguments: str, **changes: str) -> str:
        done = self.run(*arguments, **changes)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def apply(self, *variables: str) -> str:
        return self.ok("apply", "-auto-approve", *variables)

    def refused(self, *arguments: str, **changes: str) -> str:
        """What it says, on one line: it wraps to the width of a terminal."""
        done = self.run(*arguments, **changes)
        assert done.returncode == 1, done.stdout
        return " ".join((done.stdout + done.stderr).split())

    def is_clean(self, *variables: str) -> bool:
        done = self.run("plan", "-detailed-exitcode", *variables)
        assert done.returncode in (0, 2), done.stderr
        return done.returncode == 0

    def planned(self, *variables: str) -> dict[str, Any]:
        """Changes by address; the plan is in the file `plan`."""
        self.ok("plan", "-out=plan", *variables)
        shown = json.loads(self.ok("show", "-json", "plan"))
        return {each["address"]: each["change"] for each in shown["resource_changes"]}

    def state(self) -> dict[str, Any]:
        """Attributes by address."""
        shown = json.loads(self.ok("show", "-json")).get("values", {"root_module": {"resources": []}})
        return {each["address"]: each["values"] for each in shown["root_module"].get("resources", [])}

    def _command(self, *arguments: str) -> list[str]:
        first, *rest = arguments
        return [
            "terraform",
            first,
            *(["-no-color"] if first not in ("show", "state", "init", "providers") else []),
            *rest,
        ]


@dataclass(frozen=True)
class ControlPlane:
    database_url: str
    url: str
    token: str

    def client(self) -> httpx.Client:
        """As somebody who does not use Terraform."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE_S)


Make = Callable[..., Terraform]


@pytest.fixture(scope="session")
def control_plane(server_url: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One for all tests, each of which cleans up or has names of its own: it builds its libraries once."""
    with fresh_database(server_url) as database_url:
        with open_database(database_url) as database:
            token = PostgresApiTokens(database).create("terraform", Role.ADMIN, now())[1].reveal()
        with serving(database_url, tmp_path_factory.mktemp("medley"), workers=1) as (_, url):
            yield ControlPlane(database_url, url, token)


def environment_of(url: str, token: str, configuration: Path) -> dict[str, str]:
    """`configuration`: of the command, with what a user's own may say left out."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MEDLEY_", "TF_", "PYTHON"))}
    return kept | {
        "TF_CLI_CONFIG_FILE": str(configuration),
        "CHECKPOINT_DISABLE": "1",
        "TF_INPUT": "0",
        "MEDLEY_ENDPOINT": url,
        "MEDLEY_TOKEN": token,
    }


def overridden(folder: Path) -> Path:
    """A configuration of the command that takes the provider of this tree, as its developers do."""
    path = folder / "dev.tfrc"
    program = f'"medley/medley" = "{TERRAFORM_PYTHON.parent}"'
    path.write_text(f"provider_installation {{\n  dev_overrides {{\n    {program}\n  }}\n  direct {{}}\n}}\n")
    return path


@pytest.fixture
def make(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Make]:
    """A directory for Terraform, by its name."""
    made: list[Terraform] = []

    def of(name: str = "work", text: str = OF_THROUGHPUT, url: str = control_plane.url) -> Terraform:
        directory = tmp_path / name
        directory.mkdir()
        terraform = Terraform(directory, environment_of(url, control_plane.token, overridden(directory)))
        terraform.write(text if "required_providers" in text else REQUIRED + text)
        made.append(terraform)
        return terraform

    yield of
    for terraform in made:
        for process in terraform.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
    shutil.rmtree(tmp_path, ignore_errors=True)

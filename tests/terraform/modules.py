"""What tests of the modules share: Terraform at a copy of them, and the official providers' schemas for it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "terraform" / "modules"
CLOUDS = ("aws", "gcp")
IMAGE = "us-docker.pkg.dev/project/repository/medley@sha256:" + 64 * "0"


@dataclass(frozen=True, slots=True)
class Terraform:
    folder: Path
    """What it is run in."""
    environment: dict[str, str]

    @classmethod
    def at(cls, folder: Path, scratch: Path, **more: str) -> "Terraform":
        """`scratch`: for what it keeps, and in place of the user's own settings."""
        settings = scratch / "terraform.rc"
        settings.write_text("")
        own = {"TF_CLI_CONFIG_FILE": str(settings), "TF_DATA_DIR": str(scratch / "data"), "CHECKPOINT_DISABLE": "1"}
        return cls(folder, {**os.environ, **own, **more})

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["terraform", *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=900, check=False,
        )  # fmt: skip

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def official_schemas(python: Path, wheels: Path, module: Path) -> Iterator[str]:
    """Providers of what `module` uses, for Terraform to attach to: the value of TF_REATTACH_PROVIDERS."""
    command = [python, "-m", "tests.terraform.official.provider", wheels, module]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as served:
        try:
            assert served.stdout is not None
            line = served.stdout.readline().decode()
            json.loads(line)  # a provider that has ended instead has said why on stderr
            yield line.strip()
        finally:
            assert served.stdin is not None
            served.stdin.close()


def copied(cloud: str, folder: Path) -> Path:
    """The module, with its example, in a folder of its own."""
    return Path(shutil.copytree(MODULES / cloud, folder / cloud))

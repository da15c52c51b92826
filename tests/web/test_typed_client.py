"""The console's client is made from the API's document: where the two differ nothing is built."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs("web"), pytest.mark.slow]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of what the console is built from, with the packages of the real one."""
    web = tmp_path / "web"
    web.mkdir()
    for name in ("client.mjs", "package.json", "tsconfig.json", "vite.config.ts"):
        shutil.copy(REPOSITORY / "web" / name, web / name)
    shutil.copytree(REPOSITORY / "web" / "src", web / "src")
    (web / "node_modules").symlink_to(REPOSITORY / "web" / "node_modules")
    (web / "generated").mkdir()
    return web


def build(web: Path, document: str) -> "subprocess.CompletedProcess[str]":
    """All but the bundle, as `npm run build` begins, with another API that describes itself by `document`."""
    described, python = web.parent / "document.json", web.parent / "python"
    described.write_text(document)
    python.write_text(f'#!/bin/sh\ncp "{described}" "$3"\n')
    python.chmod(0o755)
    node = shutil.which("node") or "node"
    check = f'"{node}" client.mjs && "{node}" node_modules/typescript/bin/tsc --noEmit'
    environment = os.environ | {"MEDLEY_PYTHON": str(python)}
    return subprocess.run(["sh", "-c", check], cwd=web, env=environment, capture_output=True, text=True, check=False)


def test_a_document_that_has_changed_fails_the_build_and_names_the_place(sources: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.json"
    subprocess.run([sys.executable, "-m", "control.api.document", str(now)], cwd=REPOSITORY, check=True)
    document = now.read_text()
    same = build(sources, document)
    assert same.returncode == 0, same.stdout + same.stderr
    changed = json.loads(document)
    view = changed["components"]["schemas"]["InstanceView"]
    view["properties"]["usd_an_hour"] = view["properties"].pop("usd_per_hour")
    view["required"] = ["usd_an_hour" if name == "usd_per_hour" else name for name in view["required"]]
    del changed["paths"]["/api/v1/instances/{instance}:drain"]
    failed = build(sources, json.dumps(changed))
    assert failed.returncode != 0
    assert re.search(r"^src/pages/fleet/InstanceRow\.tsx.* error .*usd_per_hour", failed.stdout, re.MULTILINE)
    assert re.search(r"^src/\S*InstanceDrawer\.tsx.* error ", failed.stdout, re.MULTILINE)

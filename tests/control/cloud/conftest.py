"""The adapters that have to keep the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.cloud.harness import FakeHarness, Harness, LocalHarness
from tests.control.lifecycle.worlds import START


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path / "local-cloud")
    yield harness
    cloud = harness.cloud()
    for node in cloud.list({}, START):
        cloud.terminate(node.name, START)
    assert cloud.list({}, START) == ()


@pytest.fixture(params=["fake", "local"])
def harness(request: pytest.FixtureRequest) -> Harness:
    return FakeHarness() if request.param == "fake" else request.getfixturevalue("local")

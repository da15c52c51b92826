from collections.abc import Iterator
from pathlib import Path

import pytest

from control.db.database import Database
from tests.agents.engines.tiny_models import save_model
from tests.agents.node.sites import Site


@pytest.fixture
def site(database: Database, tmp_path: Path) -> Iterator[Site]:
    made = Site(database, tmp_path)
    yield made
    for agent in made.agents:
        agent.stop()


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-llama")
    save_model("llama", folder)
    return folder

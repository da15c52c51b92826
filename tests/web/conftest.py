"""The real API over a fleet of a thousand instances, and a real browser that looks at its console."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy.engine import URL

from bench.api_process import serving
from bench.console_browser import launched
from bench.console_world.world import ConsoleWorld, fill_console_world
from control.access.role import Role
from control.db.database import Database, open_database
from tests.conftest import fresh_database
from tests.web.watched import Watched

SMALL = 0.05
"""Of a thousand instances: planning takes as long, looking does not."""


@dataclass(frozen=True)
class Console:
    """A served console, and the world behind it."""

    url: str
    database: Database
    world: ConsoleWorld

    def api(self, path: str, role: Role = Role.ADMIN) -> Any:
        headers = {"Authorization": f"Bearer {self.world.tokens[role]}"}
        answer = httpx.get(f"{self.url}/api/v1{path}", headers=headers, timeout=120)
        answer.raise_for_status()
        return answer.json()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not of the session: as long as it is there an event loop runs, and other tests have their own."""
    with sync_playwright() as playwright, launched(playwright) as browser:
        yield browser


@pytest.fixture(scope="session")
def console(server_url: URL, short_tmp: Path) -> Iterator[Console]:
    """Shared by all tests: one that changes something changes what is its own."""
    with fresh_database(server_url) as url, open_database(url) as database:
        world = fill_console_world(database, short_tmp, datetime.now(UTC), SMALL)
        with serving(url, short_tmp) as (_, base):
            yield Console(base, database, world)


@pytest.fixture
def look(browser: Browser, console: Console) -> Iterator[Callable[..., Watched]]:
    """`look(path, role)`: a page of somebody who is signed in; no page may have complained when the test ends."""
    pages: list[Watched] = []

    def opened(path: str = "/", role: Role = Role.ADMIN, **options: Any) -> Watched:
        watched = Watched.open(browser, console.url, console.world.tokens[role], **options)
        pages.append(watched)
        watched.go(path)
        return watched

    yield opened
    for each in pages:
        each.close()

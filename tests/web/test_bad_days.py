"""The console of a control plane that has nothing yet, and of one that goes away."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser
from sqlalchemy.engine import URL

from bench.api_process import serving
from control.access.role import Role
from control.db.api_tokens import PostgresApiTokens
from control.db.database import open_database
from tests.conftest import fresh_database
from tests.web.test_pages import PATHS
from tests.web.watched import Watched

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@pytest.fixture
def empty(server_url: URL, short_tmp: Path) -> Iterator[tuple[psutil.Process, str, str]]:
    """Process, URL and an admin's token of an API that knows nothing."""
    with fresh_database(server_url) as url, open_database(url) as database:
        token = PostgresApiTokens(database).create("ada", Role.ADMIN, datetime.now(UTC))[1].reveal()
        with serving(url, short_tmp) as (process, base):
            yield process, base, token


def test_nothing_yet_and_then_nobody_there(browser: Browser, empty: tuple[psutil.Process, str, str]) -> None:
    process, url, token = empty
    watched = Watched.open(browser, url, token)
    silent = []
    for path in PATHS:
        watched.go(path)
        if path not in ("/market", "/tokens", "/events") and watched.page.locator(".empty, .first-steps").count() == 0:
            silent.append(path)
    assert silent == [], "pages that do not say that there is nothing, and what to do"
    assert watched.complaints == []
    watched.go("/tokens")
    process.terminate()
    process.wait(120)
    watched.page.get_by_role("link", name="Cost").click()
    watched.page.locator(".banner").wait_for()
    watched.page.get_by_role("link", name="Tokens and roles").click()
    watched.page.get_by_role("region", name="Tokens").get_by_text("ada").first.wait_for()
    watched.context.close()

"""The machine's Chromium, without a window and without calls of its own."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Playwright

_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic", "--no-first-run",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """Raises FileNotFoundError where there is no Chromium."""
    found = shutil.which("chromium")
    if found is None:
        raise FileNotFoundError("there is no chromium on the path: apt-get install chromium")
    browser = playwright.chromium.launch(executable_path=found, args=list(_FLAGS))
    try:
        yield browser
    finally:
        browser.close()

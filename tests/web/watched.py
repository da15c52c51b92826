"""A page that is looked at while everything that it says and asks is kept."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, Response, expect

from tests.web.figures import Known, numbers_of, says

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = ("serious", "critical")
PATIENCE_MS = 120_000
AGREE_S = 60.0


@dataclass
class Watched:
    context: BrowserContext
    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    """Errors that the browser's console or a script had, and requests that left this machine."""
    answers: list[Response] = field(default_factory=list)
    """Every one that is a JSON document."""

    @classmethod
    def open(cls, browser: Browser, url: str, token: str = "", **options: Any) -> "Watched":
        """Signed in with `token`; without one nobody is."""
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
        context.set_default_timeout(PATIENCE_MS)
        if token:
            assert context.request.post(f"{url}/api/v1/session", data={"token": token}).status == 201
        self = cls(context, context.new_page(), url)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.page.on("response", self._answered)
        return self

    def go(self, path: str) -> None:
        """Until what the page reads is there."""
        self.page.goto(self.url + path)
        self.settle()

    def settle(self) -> None:
        self.page.locator("#main").wait_for()
        expect(self.page.locator("#main :is(.skeleton, [aria-busy=true])")).to_have_count(0, timeout=PATIENCE_MS)

    def figures(self, within: str = "#main") -> list[tuple[str, str]]:
        """(value, text) of every number that is shown."""
        script = "all => all.map(each => [each.getAttribute('value'), each.textContent])"
        found = self.page.locator(f"{within} data[value]").evaluate_all(script)
        return [(value, text) for value, text in found]

    def untrue(self) -> list[tuple[float, str]]:
        """Numbers that are shown and that no answer holds, or whose text says another.

        A page asks again by itself: answers and page are compared until they are of the same moment."""
        give_up_s = time.monotonic() + AGREE_S
        while True:
            known = Known(n for document in self.documents() for n in numbers_of(document))
            shown = [(float(value), text) for value, text in self.figures()]
            wrong = [(v, t) for v, t in shown if not known.has(v) or not says(t, v)]
            if not wrong or time.monotonic() > give_up_s:
                return wrong
            self.page.wait_for_timeout(100)

    def documents(self) -> list[Any]:
        """What the API has answered, the pages of a list together, and the newest of what was asked again."""
        found: dict[str, dict[str, Any]] = {}
        for answer in self.answers:
            asked = urlsplit(answer.url)
            query = [pair for pair in parse_qsl(asked.query) if pair[0] != "cursor"]
            pages = found.setdefault(f"{asked.path}?{query}", {})
            with suppress(Error):  # of a page that is gone: what only that one knew counts as untrue
                pages[asked.query] = json.loads(answer.body())
        documents = {asked: _together(list(pages.values())) for asked, pages in found.items() if pages}
        # Documents of one kind, such as the plans that several fleets are held to, are added up as a list is.
        kinds: dict[str, list[Any]] = {}
        for asked, document in documents.items():
            kinds.setdefault(asked.partition("?")[0].rpartition("/")[0], []).append(document)
        return [*documents.values(), *kinds.values()]

    def serious(self) -> list[str]:
        """What axe finds that keeps people from using the page."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {each['help']} at {[node['target'] for node in each['nodes']][:3]}"
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.complaints.append(f"asked {request.url}")

    def _answered(self, response: Response) -> None:
        kind = response.headers.get("content-type", "")
        if kind.startswith("application/json"):
            self.answers.append(response)


def _together(pages: list[Any]) -> Any:
    if len(pages) == 1:
        return pages[0]
    return {"items": [item for page in pages for item in page["items"]]}

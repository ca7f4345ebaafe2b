"""What `mainstay bench dashboard --visits` sees: the largest pages as Chromium shows them.

Playwright is no dependency of the product. It is looked for when a browser is asked for.
"""

import importlib
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from mainstay.bench.dashboard_pages import Seen
from mainstay.dashboard.access import COOKIE
from mainstay.model.errors import Rejected

PACKAGE: Final = "playwright"
BROWSER: Final = "chromium"
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
"""It sees no page but our own, and this user may be root."""

SIZE: Final = {"width": 1200, "height": 750}
PATIENCE_MS: Final = 60_000

CONTENT: Final[Mapping[str, str]] = {
    "overview": "main svg.bar rect",
    "machines": "main tbody tr",
    "racks": "main svg.grid rect",
    "money by class": "main tbody tr",
}
"""The pages, and what is on each of them once there is something to read."""

TOLD: Final = """async ([content, patience]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const is_there = () => document.querySelector(content) !== null;
  while (!is_there() && performance.now() < patience) await frame();
  await frame();  // this one is drawn with it
  await frame();  // and this one begins when it is
  const shown = performance.now();
  const [asked] = performance.getEntriesByType("navigation");
  return [shown, asked.responseStart, document.querySelectorAll("body *").length, is_there()];
}"""


class BrowserMissing(Rejected):
    """There is no browser to look with, or nothing that drives it."""

    code = "browser_missing"
    what_to_do = "make install-dev packages, or leave --visits out"


@dataclass(frozen=True, slots=True)
class Look:
    """One page as it was shown; times are the browser's own, from when it was gone to."""

    content_ms: float
    answered_ms: float
    """Until the first byte of the answer."""

    elements: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a browser, who is signed in."""

    page: Any
    url: str
    version: str

    async def leave(self) -> None:
        """The page before, whose live parts would have what the next one is to ask for."""
        await self.page.goto("about:blank")

    async def visit(self, path: str, content: str) -> Look:
        """Go there, and stay until there is something to read."""
        await self.page.goto(f"{self.url}{path}", wait_until="commit")
        told = await self.page.evaluate(TOLD, [content, PATIENCE_MS])
        shown, answered, elements, is_there = told
        seen = Seen(200, (await self.page.content()).encode())
        return Look(shown, answered, elements, is_there and seen.is_whole)


@asynccontextmanager
async def visitor(address: str, cookie: str) -> AsyncIterator[Visitor]:
    """A browser at `address`, as long as the block runs."""
    async with driver() as drives:
        launched = await drives.chromium.launch(executable_path=program(), args=list(FLAGS))
        context = await launched.new_context(viewport=SIZE)
        url = f"http://{address}"
        await context.add_cookies([{"name": COOKIE, "value": cookie, "url": url}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        yield Visitor(page, url, str(launched.version))
        await launched.close()


def driver() -> Any:
    """What drives a browser, or an error that says how to get it."""
    try:
        return importlib.import_module(f"{PACKAGE}.async_api").async_playwright()
    except ImportError as error:
        raise BrowserMissing(f"the package {PACKAGE} is not installed") from error


def program() -> str:
    """The browser, or an error that says how to get it."""
    found = shutil.which(BROWSER)
    if found is None:
        raise BrowserMissing(f"{BROWSER} is not on PATH")
    return found

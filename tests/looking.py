"""A person at the dashboard: a page that fails when anything went wrong in it, or when it asks
anybody but its own address for anything, and pictures.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

import outside

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

PICTURES: Final = outside.ROOT / "site" / "screenshots"
DOCUMENTED: Final = outside.ROOT / "docs" / "images"
SIZE: Final = {"width": 1200, "height": 750}
PATIENCE_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Fleet:
    """Everything that runs, and the page over it."""

    home: Path
    url: str
    tokens: dict[str, str]
    said: str = ""
    """What `mainstay up` has printed."""


class Looking:
    """A page of its own, that fails if anything went wrong in it."""

    def __init__(self, browser: "Browser", **options: Any) -> None:
        given = {"viewport": SIZE, **options}
        self._context = browser.new_context(**given)
        self._own = ""
        self._context.route(self._is_elsewhere, self._refuse)
        self.wrong: list[str] = []

    def __enter__(self) -> "Page":
        page = self._context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda told: self._heard(told.type, told.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("requestfailed", lambda asked: self._failed(asked.url, str(asked.failure)))
        return page

    def __exit__(self, *_: object) -> None:
        self._context.close()
        assert self.wrong == [], self.wrong

    def _is_elsewhere(self, url: str) -> bool:
        """Whether it is not the address that was gone to first."""
        asked = urlsplit(url)
        self._own = self._own or asked.netloc
        return asked.netloc != self._own

    def _refuse(self, route: "Route") -> None:
        self.wrong.append(f"asked for elsewhere: {route.request.url}")
        route.abort()

    def _heard(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(f"{kind}: {text}")

    def _failed(self, url: str, why: str) -> None:
        if "ERR_ABORTED" not in why:  # what is under way ends when its page is left
            self.wrong.append(f"{url}: {why}")


def sign_in(page: "Page", fleet: Fleet, role: str) -> None:
    """As a person does."""
    page.goto(fleet.url)
    page.get_by_label("Token").fill(fleet.tokens[role])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Overview").wait_for()
    page.wait_for_load_state()


def go(page: "Page", name: str) -> None:
    """By the navigation."""
    menu = page.get_by_role("navigation", name="Main")
    menu.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name, level=1).wait_for()
    page.wait_for_load_state()  # or what is not there has only not come yet


def allocate(page: "Page", gpus: int) -> str:
    """From the form to the page of an active allocation; its path."""
    go(page, "Allocations")
    page.get_by_text("New allocation").click()
    page.get_by_label("What").select_option(f"h200-sxm-slice@region-1@{gpus}")
    page.get_by_label("SSH key").select_option(label="laptop")
    page.get_by_role("button", name="Create allocation").click()
    page.get_by_text("is asked for.").wait_for()
    page.locator(".steps li.now", has_text="active").wait_for()
    return urlsplit(page.url).path


def are(found: "Locator", count: int) -> None:
    """So many are there, or will be: a page may come before the numbers on it."""
    expect = pytest.importorskip("playwright.sync_api").expect
    expect(found).to_have_count(count, timeout=PATIENCE_MS)


def picture(page: "Page", name: str) -> None:
    """The whole page, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def documented(page: "Page", name: str) -> None:
    """What fits into the window, for the documentation."""
    DOCUMENTED.mkdir(parents=True, exist_ok=True)
    page.locator("#live-state", has_text="live").wait_for()
    page.screenshot(path=DOCUMENTED / f"{name}.png")

"""A tenant whose machine goes to somebody more important sees on the page for whom."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridging import staged
from looking import Fleet, Looking, picture, sign_in
from mainstay.tenancy.database.embedded import Server
from postgres import server  # noqa: F401 - a fixture
from readable import unreadable
from running import Process

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]

TAKER = 1_000_000
WHY = f"taken by demand of priority {TAKER}, with 10 s of grace"


def _fleet(home: Path, dashboard: Process) -> Fleet:
    lines = Path(dashboard.facts["tokens"]).read_text().splitlines()
    return Fleet(home, dashboard.facts["addresses"]["page"], dict(map(str.split, lines)))


def test_who_looks_at_an_allocation_sees_that_it_is_taken_and_by_what_priority(
    tmp_path: Path,
    server: Server,  # noqa: F811
    browser: "Browser",
) -> None:
    with staged(tmp_path / "home", server, slots=1, holds_grace=True) as stage:
        stage.bridge()
        allocation = stage.placed(stage.ordered())
        dashboard = stage.home.start("dashboard", "dashboard", "--listen", "127.0.0.1:0")
        fleet = _fleet(stage.home.path, dashboard)
        with Looking(browser) as page:
            sign_in(page, fleet, "readonly")
            page.goto(f"{fleet.url}/allocations/{allocation}")
            page.locator(".steps li.now", has_text="active").wait_for()

            stage.rival(1, TAKER)

            releasing = page.locator("#timeline li", has_text=WHY)
            releasing.wait_for()
            assert "releasing" in releasing.inner_text()
            page.locator(".steps li.now", has_text="released").wait_for()
            assert unreadable(page) == []
            picture(page, "33-taken")

"""The page over HTTPS, in a browser that takes the certificate on trust."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from certificates import Authority
from looking import Fleet, Looking, sign_in
from running import at_home

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]


def test_over_https_the_cookie_is_for_https_only_and_the_page_is_live(
    tmp_path: Path, browser: "Browser"
) -> None:
    cert, key = Authority(tmp_path).write([], name="page")
    with at_home(tmp_path / "home") as home:
        served = home.start("dashboard", "dashboard", "--listen", "127.0.0.1:0",
                            "--page-cert", str(cert), "--page-key", str(key))  # fmt: skip
        tokens = dict(
            line.split() for line in Path(served.facts["tokens"]).read_text().splitlines()
        )
        fleet = Fleet(home.path, served.facts["addresses"]["page"], tokens)
        assert fleet.url.startswith("https://")
        with Looking(browser, ignore_https_errors=True) as page:
            sign_in(page, fleet, "admin")
            page.locator("#live-state", has_text="live").wait_for()
            (cookie,) = [c for c in page.context.cookies() if c["name"] == "mainstay_dashboard"]
            assert (cookie["secure"], cookie["httpOnly"]) == (True, True)

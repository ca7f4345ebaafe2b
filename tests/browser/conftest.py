"""One fleet, one browser and whoever looks, for all tests of this folder.

`pytest tests/browser --pictures` also writes the pictures that the documentation shows.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import outside
from looking import Fleet, Looking, sign_in
from running import until
from tree import BIN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_S: Final = 240.0
FLAGS: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pictures", action="store_true", help="write the pictures of the documentation"
    )


@pytest.fixture(scope="session")
def fleet() -> Iterator[Fleet]:
    """All that `mainstay up` starts, as large as it is by itself."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-browser-"))
    folder.chmod(0o755)  # an embedded database may run as somebody else
    home, log = folder / "home", folder / "up.log"
    env = outside.environment(MAINSTAY_HOME=str(home), NO_COLOR="1")
    with log.open("wb") as written:
        up = subprocess.Popen(
            [str(BIN / "mainstay"), "up", "--free-ports"],
            env=env, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
        )  # fmt: skip
    try:
        until(lambda: "Ctrl-C stops everything." in log.read_text() or _ended(up, log),
              patience_s=PATIENCE_S)  # fmt: skip
        facts = _announced(home)
        tokens = dict(line.split() for line in Path(facts["tokens"]).read_text().splitlines())
        yield Fleet(home, facts["addresses"]["page"], tokens, log.read_text())
    finally:
        up.kill()  # what it has started ends with it
        up.wait()
        until(lambda: _is_gone(folder))


def _ended(up: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert up.poll() is None, log.read_text()
    return False


def _announced(home: Path) -> dict[str, Any]:
    """The dashboard of `mainstay up`."""
    (path,) = (home / "run").glob("dashboard-*.json")
    return dict(json.loads(path.read_text()))


def _is_gone(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Closed with the module: an event loop runs in this thread as long as it is open."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(FLAGS)
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def pictured(request: pytest.FixtureRequest) -> bool:
    """Whether the pictures of the documentation are to be written."""
    return bool(request.config.getoption("--pictures", default=False))


@pytest.fixture
def admin(fleet: Fleet, browser: "Browser") -> "Iterator[Page]":
    """Somebody who is signed in; at the end nothing must have been said to the console."""
    with Looking(browser) as page:
        sign_in(page, fleet, "admin")
        yield page

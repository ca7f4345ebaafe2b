"""`mainstay dashboard` as a process: it needs nobody, and nobody needs it."""

import ssl
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from certificates import Authority
from running import at_home


def test_it_runs_alone_says_where_its_tokens_are_and_not_what_they_are(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        page = home.start("dashboard", "dashboard", "--listen", "127.0.0.1:0")
        assert page.page("/healthz") == (200, "ok\n")
        assert "Sign in" in page.page("/")[1]
        tokens = Path(page.facts["tokens"])
        assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
        said = page.log.read_text()
        assert str(tokens) in said
        assert [line.split()[1] in said for line in tokens.read_text().splitlines()] == [False] * 2
        assert page.stop() == 0
        assert list((tmp_path / "run").iterdir()) == []
        kept = tokens.read_text()
        again = home.start("dashboard", "dashboard", "--listen", "127.0.0.1:0")
        assert tokens.read_text() == kept

        taken = home.run("dashboard", "--listen", again.http)
        assert (taken.returncode, taken.stderr.count("\n")) == (1, 1)
        assert "cannot listen at" in taken.stderr


def test_without_a_certificate_it_is_on_loopback_only(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        ended = home.run("dashboard", "--listen", "0.0.0.0:0")
        assert ended.returncode != 0
        assert "--page-cert" in ended.stderr


def test_over_https_it_is_known_by_whom_its_certificate_was_signed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.write([], name="page")
    with at_home(tmp_path / "home") as home:
        served = home.start("dashboard", "dashboard", "--listen", "127.0.0.1:0",
                            "--page-cert", str(cert), "--page-key", str(key))  # fmt: skip
        url = f"{served.facts['addresses']['page']}/sign-in"
        trusting = ssl.create_default_context(cafile=authority.path)
        with urllib.request.urlopen(url, timeout=10, context=trusting) as answer:
            assert (answer.status, "Sign in" in answer.read().decode()) == (200, True)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(url, timeout=10, context=ssl.create_default_context())


def test_a_certificate_without_its_key_is_one_clear_line(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        ended = home.run("dashboard", "--listen", "127.0.0.1:0", "--page-cert", "page.crt")
        assert (ended.returncode != 0, "page_key belong together" in ended.stderr) == (True, True)
        ended = home.run("dashboard", "--listen", "127.0.0.1:0", "--page-cert", "page.crt",
                         "--page-key", "page.key")  # fmt: skip
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
        assert "page.crt" in ended.stderr

"""`mainstay dashboard` as a process: it needs nobody, and nobody needs it."""

import stat
from pathlib import Path

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

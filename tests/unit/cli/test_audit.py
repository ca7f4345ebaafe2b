"""`mainstay audit verify`: what it prints and how it ends."""

from pathlib import Path

import pytest

from mainstay.cli import audit, exits
from mainstay.shard.audit.files import AuditFiles, Sizes, files_of

Captured = pytest.CaptureFixture[str]


def check(directory: Path) -> int:
    return exits.run(audit.app, ["verify", str(directory)], name="mainstay audit")


@pytest.fixture(name="log")
def a_log(tmp_path: Path) -> Path:
    """Three lines."""
    return a_log_in(tmp_path)


def a_log_in(directory: Path) -> Path:
    log = AuditFiles(directory, Sizes())
    log.append({"number": number} for number in range(3))
    log.close()
    return directory


def test_a_whole_log_is_done(log: Path, capsys: Captured) -> None:
    assert check(log) == exits.DONE
    assert capsys.readouterr() == ("whole: 3 lines in 1 files, 1 to 3\n", "")


def test_a_broken_one_is_a_failure_that_names_the_line(log: Path, capsys: Captured) -> None:
    [path] = files_of(log)
    path.write_text(path.read_text().replace('"number":1', '"number":7'))

    assert check(log) == exits.FAILED
    told = capsys.readouterr().out
    assert told.startswith(f"broken: {path} line 2: ")
    assert "1 lines before it" in told


def test_a_log_of_which_the_end_is_gone_is_a_failure(log: Path, capsys: Captured) -> None:
    files_of(log)[0].unlink()

    assert check(log) == exits.FAILED
    assert f"broken: {log / 'head.json'}: lines 1 to 3 are missing" in capsys.readouterr().out


def test_what_was_set_aside_is_told(log: Path, capsys: Captured) -> None:
    (log / "audit-000000000001.torn-1").write_bytes(b"x")

    assert check(log) == exits.DONE
    assert "1 half-written ends were set aside" in capsys.readouterr().out


def test_no_log_is_one_line_and_a_failure(tmp_path: Path, capsys: Captured) -> None:
    nowhere = tmp_path / "nowhere"
    assert check(nowhere) == exits.FAILED
    assert capsys.readouterr().err == (
        f"mainstay: no audit log in {nowhere}, nor in an `audit` below it\n"
    )


@pytest.mark.parametrize("given", ["", "shards", "shards/shard-0"])
def test_a_log_is_found_by_its_shard_and_by_those_that_are_here(
    given: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    log = a_log_in(tmp_path / "shards/shard-0/audit")
    words = ["verify", str(tmp_path / given)] if given else ["verify"]

    assert exits.run(audit.app, words, name="mainstay audit") == exits.DONE
    assert capsys.readouterr() == (f"{log}: whole: 3 lines in 1 files, 1 to 3\n", "")


def test_of_several_shards_each_log_is_told_of_and_one_that_is_broken_is_a_failure(
    tmp_path: Path, capsys: Captured
) -> None:
    broken, whole = (a_log_in(tmp_path / name / "audit") for name in ("shard-0", "shard-1"))
    [path] = files_of(broken)
    path.write_text(path.read_text().replace('"number":1', '"number":7'))

    assert check(tmp_path) == exits.FAILED
    told = capsys.readouterr().out
    assert f"{broken}: broken: {path} line 2: " in told
    assert f"{whole}: whole: 3 lines" in told

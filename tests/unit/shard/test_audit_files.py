"""The audit log on the disk: what it survives, and what a check finds."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.model.errors import Rejected
from mainstay.shard.audit.chain import GENESIS, START, Link, plain, read, sealed
from mainstay.shard.audit.files import HEAD, AuditFiles, Sizes, files_of
from mainstay.shard.audit.verify import Verified, verify

SMALL = Sizes(file_bytes=1_000)
"""About four lines a file."""


def written(directory: Path, count: int, *, sizes: Sizes = SMALL, close: bool = True) -> AuditFiles:
    """A log with so many more lines, each a batch of its own."""
    log = AuditFiles(directory, sizes)
    for number in range(count):
        log.append([{"what": "test", "number": number, "text": "x" * 50}])
    if close:
        log.close()
    return log


def killed(log: AuditFiles) -> None:
    """The process is gone: its lock is, and nothing was said."""
    assert log._lock is not None
    os.close(log._lock)
    log._lock = None
    log._close_file()


def lines_of(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(x) for path in files_of(directory) for x in path.read_text().splitlines()]


def whole(directory: Path) -> Verified:
    seen = verify(directory)
    assert seen.broken == ""
    return seen


class TestLine:
    def test_a_line_carries_its_number_the_hash_before_it_and_its_own(self) -> None:
        line, link = sealed({"what": "test"}, START)

        told = json.loads(line)
        assert (told["n"], told["prev"], told["what"]) == (1, GENESIS, "test")
        assert told["hash"] == link.hash
        assert read(line) == (link, GENESIS, {"n": 1, "prev": GENESIS, "what": "test"})

    def test_the_same_content_elsewhere_in_a_chain_has_another_hash(self) -> None:
        _, first = sealed({"what": "test"}, START)
        _, second = sealed({"what": "test"}, first)

        assert first.hash != second.hash

    @pytest.mark.parametrize("key", ["n", "prev", "hash"])
    def test_no_content_can_pass_for_the_chain(self, key: str) -> None:
        with pytest.raises(ValueError, match="these keys are the chain's own"):
            sealed({key: 1}, START)

    def test_what_json_has_no_word_for_becomes_text_and_long_texts_are_cut(self) -> None:
        assert plain(float("nan")) == "nan"
        assert plain(Path("x")) == "x"
        assert plain({"a": (1, True, None, 0.5)}) == {"a": [1, True, None, 0.5]}
        assert plain("é" * 5_000) == "é" * 2_000
        assert plain(b"ab") == "b'ab'"

    def test_a_line_is_ascii_and_one_line_whatever_it_says(self) -> None:
        line, _ = sealed({"detail": "two\nlines \u2028 \ud800"}, START)

        assert line.isascii()
        assert line.count(b"\n") == 1
        read(line)

    @pytest.mark.parametrize("line", [b"", b"\n", b"{}\n", b"x" * 200 + b"\n"])
    def test_what_was_never_sealed_is_refused(self, line: bytes) -> None:
        with pytest.raises(Rejected):
            read(line)


class TestGoingOn:
    def test_a_chain_goes_on_over_files(self, tmp_path: Path) -> None:
        written(tmp_path, 20)

        assert len(files_of(tmp_path)) > 3
        assert whole(tmp_path).lines == 20
        assert [line["n"] for line in lines_of(tmp_path)] == [*range(1, 21)]

    def test_a_chain_goes_on_over_a_restart(self, tmp_path: Path) -> None:
        for _ in range(5):
            written(tmp_path, 3)

        assert (whole(tmp_path).first_n, whole(tmp_path).last_n) == (1, 15)

    def test_a_chain_goes_on_when_the_process_was_killed(self, tmp_path: Path) -> None:
        for _ in range(5):
            killed(written(tmp_path, 3, close=False))

        assert whole(tmp_path).lines == 15

    def test_an_empty_batch_writes_nothing(self, tmp_path: Path) -> None:
        log = AuditFiles(tmp_path, SMALL)

        assert log.append([]) == 0
        assert files_of(tmp_path) == []

    def test_only_one_process_writes(self, tmp_path: Path) -> None:
        first = AuditFiles(tmp_path, SMALL)

        with pytest.raises(Rejected, match="another process writes the audit log in"):
            AuditFiles(tmp_path, SMALL)

        first.close()
        AuditFiles(tmp_path, SMALL).close()

    def test_a_directory_that_cannot_be_one_is_refused_in_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")

        with pytest.raises(Rejected, match=r"cannot use the audit log in .* \(set shard.audit_dir"):
            AuditFiles(tmp_path / "file" / "audit", SMALL)


class TestTorn:
    @pytest.mark.parametrize("cut", [1, 2, 30, 100])
    def test_a_line_that_was_half_written_is_set_aside_and_the_chain_goes_on(
        self, cut: int, tmp_path: Path
    ) -> None:
        killed(written(tmp_path, 6, close=False))
        last = files_of(tmp_path)[-1]
        torn = last.read_bytes().splitlines(keepends=True)[-1][:-cut]
        last.write_bytes(last.read_bytes()[:-cut])
        assert "has no end" in verify(tmp_path).broken

        log = written(tmp_path, 1)

        [(beside, size)] = log.found.torn
        assert (beside.read_bytes(), size) == (torn, len(torn))
        assert (log.found.broken, whole(tmp_path).lines, whole(tmp_path).torn) == ("", 6, 1)

    def test_a_file_of_which_only_half_a_line_was_written_is_given_up(self, tmp_path: Path) -> None:
        killed(written(tmp_path, 5, close=False))
        (tmp_path / "audit-000000000006.jsonl").write_bytes(b'{"n":6,')

        log = written(tmp_path, 1)

        assert log.found.torn[0][1] == 7
        assert (whole(tmp_path).lines, log.last.n) == (6, 6)

    def test_zeroes_that_a_crash_of_the_host_left_are_set_aside(self, tmp_path: Path) -> None:
        killed(written(tmp_path, 2, close=False))
        last = files_of(tmp_path)[-1]
        last.write_bytes(last.read_bytes() + b"\0" * 4_096)

        assert written(tmp_path, 1).found.torn[0][1] == 4_096
        assert whole(tmp_path).lines == 3

    def test_what_was_set_aside_before_is_kept(self, tmp_path: Path) -> None:
        for times in (1, 2, 3):
            killed(written(tmp_path, 1, close=False))
            last = files_of(tmp_path)[-1]
            last.write_bytes(last.read_bytes() + b"half")
            written(tmp_path, 0)
            assert whole(tmp_path).torn == times


class TestFullDisk:
    """Half of what is given is written, then there is no room."""

    class Disk:
        def __init__(self) -> None:
            self.full = False

        def write(self, file: int, content: memoryview) -> int:
            if self.full:
                os.write(file, content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return os.write(file, content[:100])  # never all at once

    def test_a_batch_is_written_whole_or_not_at_all(self, tmp_path: Path) -> None:
        disk = self.Disk()
        log = AuditFiles(tmp_path, SMALL, write=disk.write)
        log.append([{"number": 1}, {"number": 2}])
        disk.full = True
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                log.append([{"number": 3}, {"number": 4}])
        assert whole(tmp_path).lines == 2

        disk.full = False
        log.append([{"number": 3}])
        log.close()

        assert [line["number"] for line in lines_of(tmp_path)] == [1, 2, 3]
        assert whole(tmp_path).lines == 3


class TestKept:
    @pytest.mark.parametrize("files_max", [1, 2, 3])
    def test_the_oldest_files_are_deleted_and_the_rest_is_whole(
        self, files_max: int, tmp_path: Path
    ) -> None:
        written(tmp_path, 30, sizes=Sizes(file_bytes=1_000, files_max=files_max))

        seen = whole(tmp_path)
        assert seen.files == files_max
        assert seen.first_n > 1
        assert seen.last_n == 30

    def test_a_log_of_one_file_still_follows_from_what_was_deleted(self, tmp_path: Path) -> None:
        one = Sizes(file_bytes=1_000, files_max=1)
        killed(written(tmp_path, 10, sizes=one, close=False))
        [path] = files_of(tmp_path)
        first = read(path.read_bytes().splitlines(keepends=True)[0]).link.n
        assert whole(tmp_path).first_n == first

        path.write_bytes(sealed({"what": "never happened"}, Link(first - 1, GENESIS))[0])

        assert f"head.json knows another line {first}" in verify(tmp_path).broken

    def test_an_altered_line_does_not_keep_the_oldest_files_from_being_deleted(
        self, tmp_path: Path
    ) -> None:
        written(tmp_path, 12)
        for path in files_of(tmp_path):
            path.write_bytes(b"{" + path.read_bytes())

        written(tmp_path, 12, sizes=Sizes(file_bytes=1_000, files_max=4))

        assert len(files_of(tmp_path)) <= 4
        assert verify(tmp_path).broken != ""

    def test_a_file_beyond_them_that_a_crash_left_is_no_fault(self, tmp_path: Path) -> None:
        written(tmp_path, 12)
        before = {path: path.read_bytes() for path in files_of(tmp_path)}
        written(tmp_path, 12, sizes=Sizes(file_bytes=1_000, files_max=4))
        gone = [path for path in before if not path.exists()]

        gone[-1].write_bytes(before[gone[-1]])

        assert whole(tmp_path).first_n == int(gone[-1].stem.removeprefix("audit-"))


def swap(lines: list[bytes]) -> None:
    lines[5], lines[6] = lines[6], lines[5]


def reseal(lines: list[bytes]) -> None:
    """A line in the middle, sealed anew with other words."""
    lines[5] = sealed({"what": "never happened"}, read(lines[4]).link)[0]


def remake(lines: list[bytes]) -> None:
    """The last line, sealed anew with other words."""
    link = read(lines[-2]).link
    lines[-1] = sealed({"what": "never happened"}, link)[0]


class TestFound:
    """Each of these by somebody who may write to the files."""

    @pytest.mark.parametrize(
        ("harm", "complaint", "line"),
        [
            (lambda lines: lines.pop(5), "line 5 is followed by line 7", 6),
            (lambda lines: lines.pop(0), "lines 1 to 1 are missing at the beginning", 1),
            (lambda lines: lines.pop(), "lines 12 to 12 are missing at the end", 0),
            (lambda lines: lines.clear(), "lines 1 to 12 are missing at the end", 0),
            (lambda lines: lines.insert(5, lines[5]), "line 6 is followed by line 6", 7),
            (lambda lines: lines.insert(5, b"{}\n"), "it was altered", 6),
            (swap, "line 5 is followed by line 7", 6),
            (reseal, "line 6 was made anew before this one", 7),
            (remake, "head.json knows another line 12", 12),
        ],
    )
    def test_harm_is_found_at_its_line(
        self, harm: Callable[[list[bytes]], object], complaint: str, line: int, tmp_path: Path
    ) -> None:
        written(tmp_path, 12, sizes=Sizes())
        [path] = files_of(tmp_path)
        lines = path.read_bytes().splitlines(keepends=True)

        harm(lines)
        path.write_bytes(b"".join(lines))

        seen = verify(tmp_path)
        assert complaint in seen.broken
        assert seen.at is not None
        assert (seen.at.line, seen.at.path.name) == (line, path.name if line else HEAD)

    def test_a_file_that_is_gone_is_found(self, tmp_path: Path) -> None:
        written(tmp_path, 20)
        first, second, *_, last = files_of(tmp_path)
        contents = {path: path.read_bytes() for path in (first, second, last)}

        for path, complaint in ((first, "at the beginning"), (second, "is followed by"),
                                (last, "missing at the end")):  # fmt: skip
            path.unlink()
            assert complaint in verify(tmp_path).broken
            path.write_bytes(contents[path])
        whole(tmp_path)

    def test_a_file_under_another_name_is_found(self, tmp_path: Path) -> None:
        written(tmp_path, 20)
        last = files_of(tmp_path)[-1]
        last.rename(tmp_path / "audit-000000000099.jsonl")

        assert "the file begins with line" in verify(tmp_path).broken

    def test_a_chain_made_anew_from_the_first_line_on_is_found_by_the_head(
        self, tmp_path: Path
    ) -> None:
        written(tmp_path, 3)
        head = (tmp_path / HEAD).read_bytes()
        for path in tmp_path.iterdir():
            path.unlink()
        written(tmp_path, 4, sizes=Sizes(file_bytes=4_000))
        [path] = files_of(tmp_path)
        path.write_bytes(path.read_bytes().replace(b"xxx", b"yyy"))
        link, remade = START, b""
        for line in path.read_bytes().splitlines():
            line_, link = sealed({"number": json.loads(line)["number"]}, link)
            remade += line_
        path.write_bytes(remade)

        (tmp_path / HEAD).write_bytes(head)

        assert "knows another line 3" in verify(tmp_path).broken

    def test_a_head_that_is_not_one_is_found(self, tmp_path: Path) -> None:
        written(tmp_path, 3)
        (tmp_path / HEAD).write_text("{}\n")

        assert verify(tmp_path).broken == "head.json is not as it was written"

    def test_where_there_is_no_log_there_is_nothing_to_check(self, tmp_path: Path) -> None:
        with pytest.raises(Rejected, match="no audit log in"):
            verify(tmp_path)

    def test_lines_cut_off_after_the_last_head_are_not_seen(self, tmp_path: Path) -> None:
        """This is what a chain alone cannot show; the documentation says so."""
        written(tmp_path, 3, sizes=Sizes())
        killed(written(tmp_path, 3, sizes=Sizes(), close=False))
        [path] = files_of(tmp_path)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))

        assert whole(tmp_path).lines == 4


class TestHarmWhileDown:
    """A start must not cover it up."""

    def test_lines_that_are_missing_stay_missing(self, tmp_path: Path) -> None:
        written(tmp_path, 8, sizes=Sizes())
        [path] = files_of(tmp_path)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))

        log = written(tmp_path, 2, sizes=Sizes())

        assert log.found.broken == "lines 6 to 8 are missing"
        assert (log.last.n, verify(tmp_path).lines) == (10, 5)
        assert "line 5 is followed by line 9" in verify(tmp_path).broken

    def test_a_log_that_is_gone_stays_gone(self, tmp_path: Path) -> None:
        written(tmp_path, 8)
        for path in files_of(tmp_path):
            path.unlink()

        assert written(tmp_path, 1).found.broken == "lines 1 to 8 are missing"
        assert "lines 1 to 8 are missing at the beginning" in verify(tmp_path).broken

    def test_a_last_line_that_was_altered_is_told_and_stays(self, tmp_path: Path) -> None:
        killed(written(tmp_path, 3, sizes=Sizes(), close=False))
        [path] = files_of(tmp_path)
        path.write_bytes(path.read_bytes().replace(b'"number":2', b'"number":7'))

        log = written(tmp_path, 1, sizes=Sizes())

        assert log.found.broken == "the last line of audit-000000000001.jsonl was altered"
        assert log.found.torn == ()
        seen = verify(tmp_path)
        assert "it was altered" in seen.broken
        assert seen.at is not None
        assert seen.at.line == 3

    def test_a_head_that_was_altered_is_told(self, tmp_path: Path) -> None:
        written(tmp_path, 3)
        (tmp_path / HEAD).write_text("x")

        assert written(tmp_path, 1).found.broken == "head.json is not as it was written"

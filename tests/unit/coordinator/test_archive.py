"""A snapshot on disk: what is read is whole and as it was written, or it is refused."""

import json
import tarfile
from pathlib import Path

import pytest

from mainstay.coordinator import archive
from mainstay.coordinator.archive import Archive, Meta
from mainstay.model.errors import Rejected

GOOD = archive.packed(Meta("20260101-7", 7, 3), b'{"shards": []}')


def test_what_is_written_is_read_from_a_tar_and_from_a_folder(tmp_path: Path) -> None:
    archive.written(GOOD, tmp_path / "a.tar")
    archive.exported(GOOD, tmp_path / "exports", "20260101-7", kept=3)

    assert archive.read(tmp_path / "a.tar") == GOOD
    assert archive.read(tmp_path / "exports" / "latest") == GOOD
    assert archive.checked(GOOD) == Meta("20260101-7", 7, 3)
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == ["meta.json", "state"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (GOOD._replace(state=b'{"shards": [1]}'), "15 bytes of state, meta.json says 14"),
        (GOOD._replace(state=b'{"shardz": []}'), "sha256 .*, meta.json says"),
        (GOOD._replace(meta=b"[]"), "meta.json is not a JSON object"),
        (GOOD._replace(meta=b"\xff"), "meta.json is not JSON"),
        (GOOD._replace(meta=b'{"Index": 0, "Term": 1}'), "index 0"),
        (GOOD._replace(meta=b"{}"), "index 0"),
        (GOOD._replace(meta=b'{"Index": -1}'), "Index in meta.json: -1"),
        (GOOD._replace(meta=b'{"Index": true}'), "Index in meta.json: True"),
        (GOOD._replace(meta=b'{"Index": 1, "Term": "x"}'), "Term in meta.json: x"),
    ],
)
def test_what_is_damaged_is_refused(damage: Archive, why: str) -> None:
    with pytest.raises(Rejected, match=why):
        archive.checked(damage)


def test_a_snapshot_of_bigfleet_has_no_checksum_and_is_taken() -> None:
    theirs = GOOD._replace(meta=json.dumps({"ID": "2-9", "Index": 9, "Term": 2}).encode())

    assert archive.checked(theirs) == Meta("2-9", 9, 2)


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\0" * 2048])
def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(content)

    with pytest.raises(Rejected, match=r"x\.tar is no tar with meta\.json and state"):
        archive.read(path)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"cannot read a snapshot from .*: No such file"):
        archive.read(tmp_path / "nothing.tar")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Rejected, match=r"cannot read a snapshot from .*: No such file"):
        archive.read(tmp_path / "empty")


def test_latest_is_whole_at_every_instant_and_the_oldest_exports_go(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("not a snapshot")

    for number in range(5):
        archive.exported(GOOD, tmp_path, f"2026-{number}", kept=2)

    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["2026-3", "2026-4", "latest", "mine"]
    assert (tmp_path / "latest").is_symlink()
    assert archive.read(tmp_path / "latest") == GOOD

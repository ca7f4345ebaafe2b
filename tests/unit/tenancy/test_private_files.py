"""Keys lie where nobody else can read them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainstay.model.errors import Rejected
from mainstay.tenancy.private_files import private_folder, read_private, write_once


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_is_made_so_that_only_we_can_enter(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "a/keys")) == 0o700


@pytest.mark.parametrize("loose", [0o750, 0o705, 0o777])
def test_a_folder_that_others_can_enter_is_refused_and_left_as_it_is(
    tmp_path: Path, loose: int
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys").chmod(loose)

    with pytest.raises(Rejected, match="chmod 700"):
        private_folder(tmp_path / "keys")

    assert mode(tmp_path / "keys") == loose


def test_a_file_where_the_folder_should_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("")

    with pytest.raises(Rejected, match="cannot use"):
        private_folder(tmp_path / "keys")


def test_a_file_is_written_once_for_us_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"

    assert write_once(path, b"first") == b"first"
    assert write_once(path, b"second") == b"first"

    assert (mode(path), path.read_bytes()) == (0o600, b"first")
    assert list(tmp_path.iterdir()) == [path]


def test_many_that_write_at_once_all_read_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as workers:
        found = set(
            workers.map(lambda index: write_once(tmp_path / "key", b"%d" % index), range(20))
        )

    assert len(found) == 1


def test_a_file_that_others_can_read_is_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_once(path, b"x")
    path.chmod(0o640)

    with pytest.raises(Rejected, match="chmod 600"):
        read_private(path)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot read"):
        read_private(tmp_path / "key")

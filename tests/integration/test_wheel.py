"""The wheel holds everything that a process reads beside its code."""

import zipfile
from pathlib import Path
from typing import Final

import outside
from tree import BIN

SOURCES: Final = outside.ROOT / "src"


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    ended = outside.run(
        [BIN / "uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--offline",
         "--python", BIN / "python", "--out-dir", tmp_path]
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr

    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mainstay/")}
    there = {
        str(path.relative_to(SOURCES))
        for path in (SOURCES / "mainstay").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there
    assert "mainstay/tenancy/migrations/sql/0001_ground.sql" in packed

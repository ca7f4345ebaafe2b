"""The wheel holds everything that a process reads beside its code, and is enough for `up`."""

import sysconfig
import zipfile
from pathlib import Path
from typing import Final

import pytest

import outside
from tree import BIN

SOURCES: Final = outside.ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    ended = outside.run(
        [BIN / "uv", "build", "--quiet", "--wheel", "--no-build-isolation", "--offline",
         "--python", BIN / "python", "--out-dir", folder]
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mainstay/")}
    there = {
        str(path.relative_to(SOURCES))
        for path in (SOURCES / "mainstay").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there
    assert "mainstay/tenancy/migrations/sql/0001_ground.sql" in packed


def test_an_environment_with_the_wheel_alone_comes_to_a_first_node(
    wheel: Path, tmp_path: Path
) -> None:
    """What it depends on is taken from here: no source of ours, and none of the scripts."""
    fresh = tmp_path / "fresh"
    python = fresh / "bin" / "python"
    commands: list[list[str | Path]] = [
        ["venv", "--quiet", "--offline", "--python", BIN / "python", fresh],
        ["pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel],
    ]
    for command in commands:
        ended = outside.run([BIN / "uv", *command])
        assert ended.returncode == 0, ended.stderr
    asked = [str(python), "-c", "import mainstay, sysconfig as s; print(s.get_path('purelib'))"]
    own = outside.run(asked, cwd=tmp_path).stdout.strip()
    (Path(own) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = [str(python), "-c", "import mainstay.processes.up as up; print(up.__file__)"]
    assert outside.run(where, cwd=tmp_path).stdout.startswith(f"{own}/mainstay/")

    ended = outside.run(
        [fresh / "bin" / "mainstay", "up", "--free-ports", "--fleet", "120", "--no-tenancy",
         "--once"],
        cwd=tmp_path,
        env=outside.environment(MAINSTAY_HOME=str(tmp_path / "home")),
        timeout_s=720.0,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "The first node serves after" in ended.stdout

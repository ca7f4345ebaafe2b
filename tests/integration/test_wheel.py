"""What `make wheel` makes holds everything that a process reads, and is enough for `up`."""

import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import outside
from mainstay.bench.up import BUDGET, PROMISED_AT
from tree import BIN
from ups import an_up, home_below

pytestmark = pytest.mark.needs("make")

SOURCES: Final = outside.ROOT / "src"
BESIDE: Final = ("CHANGELOG.md", "LICENSE", "NOTICE", "README.md", "pyproject.toml")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the verb makes it, in this very tree, whose set-up is done."""
    folder = tmp_path_factory.mktemp("dist")
    verb = ["make", "-o", "install-dev", "wheel", f"DIST={folder}", f"BIN={BIN}"]
    ended = outside.run(verb, env=outside.environment(UV_OFFLINE="1"))
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (made,) = dist.glob("*.whl")
    return made


def modules() -> set[str]:
    return {
        str(path.relative_to(SOURCES))
        for path in (SOURCES / "mainstay").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mainstay/")}

    assert packed == modules()
    assert "mainstay/tenancy/migrations/sql/0001_ground.sql" in packed


def test_the_source_archive_has_all_of_that_and_its_changelog_and_licence(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    top = archive.name.removesuffix(".tar.gz")

    with tarfile.open(archive) as packed:
        names = {name.removeprefix(f"{top}/") for name in packed.getnames()}
        changes = packed.extractfile(f"{top}/CHANGELOG.md")
        assert changes is not None
        assert b"\n### Safety\n" in changes.read()

    wanted = {*BESIDE, *(f"src/{name}" for name in modules())}
    assert wanted - names == set()


def test_an_environment_with_the_wheel_alone_comes_to_a_first_node_and_serves_tenants(
    wheel: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What it depends on is taken from here: no source of ours, and none of the scripts.

    Nothing is warm: it compiles its loops in the time to the first node.
    """
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

    cold = {"program": fresh / "bin" / "mainstay", "fleet": PROMISED_AT}
    with home_below(0o755) as home, an_up(home, **cold) as up:
        up.ready()
        assert up.first_node_s() > 0
        record_property("measured", f"first node of a cold start: {up.first_node_s()} s")
        if outside.soak_factor() > 1:
            assert up.first_node_s() <= BUDGET["first_node_s"]
        assert up.rows("alloc", "list") == []
        assert up.stop() == 0

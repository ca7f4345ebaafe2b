"""What is in the repository, and what never is."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

import tree
from outside import ROOT

VAGUE: Final = frozenset({
    "utils", "helpers", "common", "core", "base", "manager", "services", "types",
})  # fmt: skip
"""Names that tell a reader nothing; whatever is in there has a better place."""

SOMEBODYS_MACHINE: Final = re.compile(r"(?<![\w.~/}])/(?:work|root|home/\w+|Users/\w+)/")
PACKAGE_INDEX: Final = re.compile(r"https?://\S*(?:/simple\b|pythonhosted|devpi|artifactory|nexus)")

REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(.*)$")


def locked(text: str) -> dict[tuple[str, str], int]:
    """(name and marker, version) of each requirement of a lock, to the number of its hashes."""
    hashes: dict[tuple[str, str], int] = {}
    current = None
    for line in text.splitlines():
        if line.startswith("    --hash=sha256:") and current is not None:
            hashes[current] += 1
        elif found := REQUIREMENT.match(line):
            marker = found[3].rstrip(" \\")
            current = (found[1] + marker, found[2])
            hashes[current] = 0
        elif line.strip() and not line.startswith("#"):
            raise ValueError(f"not a line of a lock: {line}")
    return hashes


def leaks(text: str) -> list[str]:
    """Places and addresses that hold on one machine only."""
    return [found.group() for rule in (SOMEBODYS_MACHINE, PACKAGE_INDEX)
            for found in rule.finditer(text)]  # fmt: skip


def vague(paths: Iterable[Path]) -> list[Path]:
    """Python modules whose name, or whose folder's, says nothing."""
    return [path for path in paths if path.suffix in {".py", ".pyi"}
            if VAGUE & {*path.parts[:-1], path.stem}]  # fmt: skip


def text_of(path: Path) -> str:
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


LOCKS: Final = ("requirements.lock", "requirements-dev.lock")


class TestLocks:
    @pytest.mark.parametrize("name", LOCKS)
    def test_every_requirement_has_hashes(self, name: str) -> None:
        hashes = locked((ROOT / name).read_text())

        assert len(hashes) > 10
        assert [requirement for requirement, count in hashes.items() if count == 0] == []

    @pytest.mark.parametrize("name", LOCKS)
    def test_no_index_is_named(self, name: str) -> None:
        text = (ROOT / name).read_text()

        assert "index-url" not in text
        assert "://" not in text

    def test_the_dev_lock_holds_all_of_the_other_at_the_same_versions(self) -> None:
        runtime, dev = [locked((ROOT / name).read_text()).keys() for name in LOCKS]

        assert sorted(runtime - dev) == []

    def test_a_requirement_without_a_hash_would_be_seen(self) -> None:
        text = "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\nb==2 ; os_name == 'nt'\n"

        assert locked(text) == {("a", "1"): 2, ("b ; os_name == 'nt'", "2"): 0}

    @pytest.mark.parametrize("line", ["--index-url x", "a>=1", "-e ."])
    def test_anything_else_in_a_lock_is_an_error(self, line: str) -> None:
        with pytest.raises(ValueError, match=f"not a line of a lock: {line}"):
            locked(line)


@pytest.mark.needs("git")
class TestFiles:
    def test_there_is_no_lock_but_ours(self) -> None:
        assert [path for path in tree.files() if path.name == "uv.lock"] == []

    def test_no_file_names_a_place_on_somebodys_machine_or_a_package_index(self) -> None:
        found = {str(path): names for path in tree.files() if (names := leaks(text_of(path)))}

        assert len(tree.files()) > 20
        assert found == {}

    def test_every_module_says_what_it_is_for(self) -> None:
        modules = [path for path in tree.files() if path.suffix == ".py" and path.parts[0] == "src"]

        silent = [path for path in modules if ast.get_docstring(ast.parse(text_of(path))) is None]

        assert len(modules) > 10
        assert silent == []

    def test_no_module_has_a_name_that_says_nothing(self) -> None:
        assert vague(tree.files()) == []


class TestRules:
    @pytest.mark.parametrize("place", ["work/main", "root/x", "home/me/x", "Users/me/x"])
    def test_an_absolute_path_of_a_machine_is_a_leak(self, place: str) -> None:
        assert leaks(f'open("/{place}")\n') != []

    @pytest.mark.parametrize(
        "address", ["pypi.org/simple", "files.pythonhosted.org/a", "mirror.local/devpi/x"]
    )
    def test_the_address_of_a_package_index_is_a_leak(self, address: str) -> None:
        assert leaks("see https:" + f"//{address}\n") != []

    @pytest.mark.parametrize(
        "text", ["~/work/x", "docs/root/x", "/usr/bin/env", "https:" + "//example.org/work/x"]
    )
    def test_other_paths_and_addresses_are_none(self, text: str) -> None:
        assert leaks(text) == []

    @pytest.mark.parametrize("name", sorted(VAGUE))
    def test_a_vague_name_is_seen_as_module_and_as_folder(self, name: str) -> None:
        module, folder = Path(f"src/a/{name}.py"), Path(f"src/{name}/a.py")

        assert vague([module, folder, Path(f"src/{name}ball.py"), Path(f"docs/{name}.md")]) == [
            module, folder,
        ]  # fmt: skip

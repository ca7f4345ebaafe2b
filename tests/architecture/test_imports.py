"""The import contracts of pyproject.toml hold, and each is proved able to break.

A skeleton of the package is copied, one import is added that must not be, and the real contracts
are run on it.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import outside
from tree import BIN, project

SOURCE: Final = outside.ROOT / "src/mainstay"
LAYERS: Final = "Layers: a package imports only what is drawn below it"
PURE: Final = "Pure core: no I/O, no clock, no randomness, no plumbing"
PROTOBUF: Final = "Protobuf types stay inside wire"
MESSAGES: Final = "mainstay.wire.pb.bigfleet.v1alpha1"

Contract = Mapping[str, Any]


class Lint(NamedTuple):
    """How lint-imports ended."""

    code: int
    text: str


def skeleton(root: Path) -> Path:
    """Every module of ours by name, without its contents."""
    for path in SOURCE.rglob("*.py"):
        copy = root / "mainstay" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text('"""Empty."""\n')
    return root / "mainstay"


def lint(root: Path) -> Lint:
    """Run the real contracts on the package in `root`."""
    config = str(outside.ROOT / "pyproject.toml")
    command = [str(BIN / "lint-imports"), "--no-cache", "--no-logo", "--config", config]
    ended = outside.run(command, cwd=root, env=outside.environment(COLUMNS="200"))
    return Lint(ended.returncode, ended.stdout + ended.stderr)


def add(package: Path, module: str, line: str) -> None:
    path = package / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'"""Broken on purpose."""\n\n{line}\n')


def test_a_skeleton_of_the_package_keeps_every_contract(tmp_path: Path) -> None:
    skeleton(tmp_path)

    ended = lint(tmp_path)

    assert ended.code == 0, ended.text
    assert f"{LAYERS} KEPT" in ended.text
    assert f"{PURE} KEPT" in ended.text
    assert f"{PROTOBUF} KEPT" in ended.text


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("model/broken", "import mainstay.runtime", PURE),
        ("model/broken", "import time", PURE),
        ("model/broken", "from random import choice", PURE),
        ("inventory/broken", "import logging", PURE),
        ("model/broken", "from mainstay import inventory", LAYERS),
        ("inventory/broken", "import mainstay.providers", LAYERS),
        ("providers/broken", "import mainstay.bench", LAYERS),
        ("providers/broken", "from mainstay import processes", LAYERS),
        ("bench/broken", "import mainstay.processes", LAYERS),
        ("runtime/broken", "import mainstay.model", LAYERS),
        ("processes/broken", "def later():\n    import mainstay.cli", LAYERS),
        ("providers/broken", "import mainstay.wire.pb", PROTOBUF),
        ("bench/broken", f"from {MESSAGES} import provider_pb2", PROTOBUF),
    ],
)
def test_an_import_that_must_not_be_breaks_its_contract(
    tmp_path: Path, module: str, line: str, contract: str
) -> None:
    add(skeleton(tmp_path), module, line)

    ended = lint(tmp_path)

    assert ended.code == 1, ended.text
    assert f"{contract} BROKEN" in ended.text
    assert f"mainstay.{module.replace('/', '.')} -> " in ended.text


def test_a_new_package_must_choose_its_layer(tmp_path: Path) -> None:
    add(skeleton(tmp_path), "newcomer/__init__", "NAME = 'newcomer'")

    ended = lint(tmp_path)

    assert ended.code == 1, ended.text
    assert f"{LAYERS} BROKEN" in ended.text
    assert "newcomer" in ended.text


def missing(packages: Collection[str], contracts: Sequence[Contract]) -> list[str]:
    """What whoever added these packages forgot to write into pyproject.toml."""
    found = []
    if "shard" in packages and not any(map(keeps_the_shard_stable, contracts)):
        found.append("no contract forbids mainstay.shard -> mainstay.coordinator, mainstay.uplink")
    if "wire" in packages and not any(map(keeps_protobuf_inside_wire, contracts)):
        found.append("no protected contract for mainstay.wire.pb")
    pure = {name for contract in contracts if contract["name"] == PURE
            for name in contract["source_modules"]}  # fmt: skip
    unheld = [
        f"the pure core does not hold mainstay.{package}"
        for package in ("model", "inventory", "engine")
        if package in packages and f"mainstay.{package}" not in pure
    ]
    return found + unheld


def keeps_the_shard_stable(contract: Contract) -> bool:
    return (
        contract["type"] == "forbidden"
        and "mainstay.shard" in contract["source_modules"]
        and {"mainstay.coordinator", "mainstay.uplink"} <= {*contract["forbidden_modules"]}
        and not contract.get("allow_indirect_imports")
    )


def keeps_protobuf_inside_wire(contract: Contract) -> bool:
    return (
        contract["type"] == "protected"
        and "mainstay.wire.pb" in contract["protected_modules"]
        and contract["allowed_importers"] == ["mainstay.wire"]
    )


def test_no_contract_was_forgotten_when_a_package_was_added() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}

    assert {"model", "inventory"} <= packages
    assert missing(packages, project()["tool"]["importlinter"]["contracts"]) == []


CORE: Final[Contract] = {"name": PURE, "type": "forbidden", "source_modules": ["mainstay.model"]}
STABLE: Final[Contract] = {
    "name": "Static stability",
    "type": "forbidden",
    "source_modules": ["mainstay.shard"],
    "forbidden_modules": ["mainstay.coordinator", "mainstay.uplink"],
}
INSIDE: Final[Contract] = {
    "name": "Protobuf",
    "type": "protected",
    "protected_modules": ["mainstay.wire.pb"],
    "allowed_importers": ["mainstay.wire"],
}


class TestMissing:
    def test_nothing_is_missing_when_each_package_has_its_contract(self) -> None:
        assert missing(["model", "shard", "wire"], [CORE, STABLE, INSIDE]) == []

    def test_a_shard_needs_static_stability(self) -> None:
        half = {**STABLE, "forbidden_modules": ["mainstay.coordinator"]}
        direct_only = {**STABLE, "allow_indirect_imports": True}

        for contracts in ([], [half], [direct_only]):
            assert len(missing(["shard"], contracts)) == 1

    def test_wire_needs_its_protobuf_protected(self) -> None:
        wide = {**INSIDE, "allowed_importers": ["mainstay.wire", "mainstay.shard"]}

        for contracts in ([], [wide]):
            assert missing(["wire"], contracts) == ["no protected contract for mainstay.wire.pb"]

    def test_every_pure_package_is_held_pure(self) -> None:
        assert missing(["model", "inventory", "engine"], [CORE]) == [
            "the pure core does not hold mainstay.inventory",
            "the pure core does not hold mainstay.engine",
        ]

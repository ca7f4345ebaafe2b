"""The repository as a tree of files, and its tools as modules."""

import importlib.util
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from outside import ROOT, run

BIN = Path(sys.executable).parent


@cache
def files() -> tuple[Path, ...]:
    """Every file that is or would be committed, relative to the root."""
    listed = run(["git", "ls-files", "-co", "--exclude-standard", "-z"])
    if listed.returncode != 0:
        raise RuntimeError(f"git ls-files failed: {listed.stderr}")
    names = sorted(set(listed.stdout.split("\0")) - {""})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def load_tool(name: str, root: Path = ROOT) -> ModuleType:
    """A script of tools/, which is no package, as a module."""
    path = root / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mainstay_tools_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a module: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module

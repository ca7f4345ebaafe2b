"""What the tests take from outside: the environment, and other programs. The only such place."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

DATA_BESIDE_THE_CLONE: Final = ROOT.parent / "shared/data"

_VARIABLES: Final[Mapping[str, str]] = dict(os.environ)  # noqa: TID251 - the tests' one reader


def require_all() -> bool:
    """Whether a missing system package is a failure instead of a skip."""
    return _VARIABLES.get("MAINSTAY_REQUIRE_ALL", "") not in {"", "0"}


def soak_factor() -> int:
    """How many times the budget of `make test` random tests get; 1 is `make test` itself."""
    return int(_VARIABLES.get("MAINSTAY_SOAK") or 1)


def examples(count: int) -> int:
    """A budget of its own for one property: `@settings(max_examples=examples(500))`."""
    return count * soak_factor()


def data_directory() -> Path | None:
    """Where recorded data is; None when there is none, since it is no part of the repository."""
    named = _VARIABLES.get("MAINSTAY_DATA")
    directory = Path(named) if named else DATA_BESIDE_THE_CLONE
    return directory if directory.is_dir() else None


def environment(**changes: str) -> dict[str, str]:
    """The environment for a program we start, without what `make` and pytest put into ours."""
    kept = {
        name: value
        for name, value in _VARIABLES.items()
        if not name.startswith(("MAINSTAY_", "PYTEST_", "HYPOTHESIS_", "MAKE", "MFLAGS"))
        and name != "PYTHON"  # `make PYTHON=...` hands it on
    }
    return kept | changes


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    timeout_s: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end with `text` on stdin (nothing by default); look at its code."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment() if env is None else env,
        input=text or "",
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )

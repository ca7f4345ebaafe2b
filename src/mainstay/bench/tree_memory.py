"""The memory of a process with all below it, pages that are shared counted once (PSS)."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")


def pss_mb(root: int, names: Mapping[int, str]) -> dict[str, float]:
    """Of a tree, by the nearest process above that has a name."""
    parents = _parents()
    found: dict[str, float] = defaultdict(float)
    for pid in parents:
        named = above = pid
        while above in parents and above != root:
            named = named if named in names else parents[above]
            above = parents[above]
        if above == root:
            found[names[named]] += _pss_kb(pid) / 1024
    return {name: round(found[name], 1) for name in sorted(found)}


def _parents() -> dict[int, int]:
    """Of every process that runs."""
    found = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            told = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has just ended
        found[int(path.parent.name)] = int(told.rpartition(")")[2].split()[1])
    return found


def _pss_kb(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))

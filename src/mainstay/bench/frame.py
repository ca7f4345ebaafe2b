"""What all benches share: a fixture that is asserted before anything is timed, and one JSON object.

Time is taken several times and the least is the figure: the machines are shared, and noise only
adds. Every sample is kept in the answer.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from mainstay import __version__
from mainstay.runtime.clock import Clock

ItemT = TypeVar("ItemT")


class FixtureError(AssertionError):
    """The fixture is not what the bench says it measures: no figure may be printed."""


@dataclass(slots=True)
class Bench:
    """One run of one bench."""

    name: str
    args: Mapping[str, object]
    clock: Clock
    progress: Callable[[str], None]
    fixture: dict[str, object] = field(default_factory=dict)
    figures: dict[str, object] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    budget: dict[str, float] = field(default_factory=dict)

    def expect(self, what: str, *, expected: object, actual: object) -> None:
        """Assert one fact of the fixture and record it."""
        if expected != actual:
            raise FixtureError(f"fixture of bench {self.name}: {what} is {actual}, not {expected}")
        self.fixture[what] = actual

    def time_ms(
        self, key: str, work: Callable[[], object], *, prepare: Sequence[Callable[[], object]] = ()
    ) -> None:
        """Time `work` once, or once after each step of `prepare`; the least is the figure."""
        samples = []
        for step in prepare or [_nothing]:
            step()
            start = self.clock.elapsed_s()
            work()
            samples.append((self.clock.elapsed_s() - start) * 1000)
        self._record(key, samples)

    def time_us_each(
        self, key: str, work: Callable[[ItemT], object], lists: Iterable[Sequence[ItemT]]
    ) -> None:
        """Time `work` over each list; the least mean is the figure."""
        samples = []
        for items in lists:
            start = self.clock.elapsed_s()
            for item in items:
                work(item)
            samples.append((self.clock.elapsed_s() - start) * 1e6 / len(items))
        self._record(key, samples)

    def _record(self, key: str, samples: list[float]) -> None:
        self.samples[key] = [round(sample, 3) for sample in samples]
        self.figures[key] = min(self.samples[key])
        self.progress(f"{self.name}: {key} {self.figures[key]}")

    def over_budget(self) -> dict[str, float]:
        """The figures above their budget."""
        figures = self.figures
        return {
            key: value
            for key, limit in self.budget.items()
            if isinstance(value := figures[key], int | float) and value > limit
        }

    def answer(self) -> dict[str, object]:
        """The one object that goes to stdout."""
        return {
            "bench": self.name,
            "version": __version__,
            "commit": commit(),
            "machine": machine_facts(),
            "args": dict(self.args),
            "fixture": self.fixture,
            **self.figures,
            "budget": self.budget,
            "over_budget": self.over_budget(),
            "samples": self.samples,
        }


def _nothing() -> None:
    """No preparation."""


def machine_facts() -> dict[str, object]:
    """What ran it."""
    return {
        "cpus": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def commit() -> str:
    """The commit of the source tree, `unknown` outside of one; a dirty tree says so."""
    here = Path(__file__).resolve().parent
    git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def resident_mb() -> float:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def deep_bytes(values: object) -> int:
    """Bytes of Python objects, each counted once."""
    seen: set[int] = set()
    total = 0
    pending = [values]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        total += sys.getsizeof(value)
        pending.extend(_parts(value))
    return total


def _parts(value: object) -> list[object]:
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    slots = getattr(type(value), "__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    return [getattr(value, name) for name in names if hasattr(value, name)]

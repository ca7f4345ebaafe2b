"""The bill of a simulated cloud: exact while it grows, in whole cents when it is read.

Every change of it is one line of a journal, so that it outlives the process if somebody keeps them.
The line comes first: what the journal does not take has not happened.
"""

import errno
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected, Unavailable

SECONDS_MIN: Final = 60
"""A host is paid for at least so long."""

_HOUR: Final = 3600


@dataclass(slots=True)
class Line:
    """One host."""

    host: str
    since_s: Fraction
    dollars_per_hour: Fraction
    charged: Fraction = Fraction(0)
    """Dollars up to the last change of price."""

    charged_to_s: Fraction = Fraction(0)
    until_s: Fraction | None = None
    """When it was given back or lost; None while it runs."""

    machine: str = ""
    """Whose host it is; empty when that was not said."""

    def dollars(self, now_s: Fraction) -> Fraction:
        """What it has cost until now, exactly."""
        end = self.until_s if self.until_s is not None else now_s
        least = self.since_s + SECONDS_MIN
        seconds = max(end, least) - self.charged_to_s
        return self.charged + self.dollars_per_hour * max(seconds, Fraction(0)) / _HOUR


@dataclass(frozen=True, slots=True)
class Mark:
    """A change of the bill."""

    host: str
    machine: str
    at_s: float
    """Of an end: until when it is paid for."""

    dollars_per_hour: float | None
    """From then on; None: nothing any more."""


def _nowhere(_: str) -> None:
    pass


@dataclass(slots=True)
class Bill:
    """All hosts there ever were."""

    lines: dict[str, Line] = field(default_factory=dict)
    journal: Callable[[str], None] = _nowhere
    """Told one line of text for each change, before it; Unavailable when it cannot keep it."""

    marks: list[Mark] = field(default_factory=list)
    """Every change, in order."""

    def open(self, host: str, dollars_per_hour: float, *, now_s: float, machine: str = "") -> None:
        """A host runs from now on."""
        if host in self.lines:
            raise Rejected(f"host is on the bill already: {host}")
        now = _exact(now_s)
        price = _exact(dollars_per_hour)
        self._write("open", host, dollars_per_hour, now_s, machine)
        self.lines[host] = Line(host, now, price, charged_to_s=now, machine=machine)
        self.marks.append(Mark(host, machine, now_s, dollars_per_hour))

    def reprice(self, host: str, dollars_per_hour: float, *, now_s: float) -> None:
        """From now on it costs something else; what it has cost stays."""
        line = self._running(host)
        now = _exact(now_s)
        self._write("reprice", host, dollars_per_hour, now_s)
        line.charged += line.dollars_per_hour * (now - line.charged_to_s) / _HOUR
        line.charged_to_s, line.dollars_per_hour = now, _exact(dollars_per_hour)
        self.marks.append(Mark(host, line.machine, now_s, dollars_per_hour))

    def close(self, host: str, *, now_s: float) -> None:
        """It runs no more."""
        line = self._running(host)
        self._write("close", host, float(line.dollars_per_hour), now_s)
        line.until_s = _exact(now_s)
        paid_until_s = max(now_s, float(line.since_s + SECONDS_MIN))
        self.marks.append(Mark(host, line.machine, paid_until_s, None))

    def cents(self, *, now_s: float) -> dict[str, int]:
        """What each host has cost, in cents, half a cent up."""
        now = _exact(now_s)
        return {host: _cents(line.dollars(now)) for host, line in self.lines.items()}

    def total_cents(self, *, now_s: float) -> int:
        """The sum of the lines as they are printed."""
        return sum(self.cents(now_s=now_s).values())

    def dollars(self, *, now_s: float) -> Fraction:
        """What all of them have cost, exactly."""
        now, lines = _exact(now_s), self.lines.values()
        costly = (line for line in lines if line.charged or line.dollars_per_hour)
        return sum((line.dollars(now) for line in costly), Fraction(0))

    def is_running(self, host: str) -> bool:
        """Whether this host is being paid for."""
        line = self.lines.get(host)
        return line is not None and line.until_s is None

    def has_ended(self, host: str) -> bool:
        """Whether this host was paid for and is no more."""
        return host in self.lines and not self.is_running(host)

    def close_others(self, machines: set[str], *, now_s: float) -> None:
        """None but the hosts of these machines run any more."""
        running = [line for line in self.lines.values() if line.until_s is None]
        for line in running:
            if line.machine not in machines:
                self.close(line.host, now_s=now_s)

    def _write(
        self, what: str, host: str, dollars_per_hour: float, now_s: float, machine: str = ""
    ) -> None:
        named = [machine] if machine else []
        self.journal(json.dumps([what, host, dollars_per_hour, now_s, *named]))

    def _running(self, host: str) -> Line:
        line = self.lines.get(host)
        if line is None or line.until_s is not None:
            raise Rejected(f"no such host is running: {host}")
        return line


def read_bill(path: Path) -> Bill:
    """The bill whose journal is this file, or a new one; it goes on there."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole, end, _ = text.rpartition("\n")  # what a kill cut off was never told to anybody
        bill = replayed(whole.splitlines())
        if len(whole) + len(end) < len(text):
            os.truncate(path, len((whole + end).encode()))
    except (OSError, ValueError) as error:
        raise Rejected(f"not the journal of a bill: {path} ({error})") from error
    bill.journal = partial(_append, path)
    return bill


def _append(path: Path, line: str) -> None:
    """All of a line or nothing: half of one would have the next one glued to it."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            _write_whole(file, f"{line}\n".encode())
        finally:
            os.close(file)
    except OSError as error:
        raise Unavailable(
            f"cannot write {path}: {error.strerror} (free some space, or make it writable)"
        ) from error


def _write_whole(file: int, line: bytes) -> None:
    size = os.fstat(file).st_size
    if os.write(file, line) < len(line):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def replayed(lines: Iterable[str]) -> Bill:
    """The bill that these lines of a journal tell of."""
    bill = Bill()
    for line in lines:
        what, host, dollars_per_hour, now_s, *machine = json.loads(line)
        if what == "open":
            bill.open(host, dollars_per_hour, now_s=now_s, machine="".join(machine))
        elif what == "reprice":
            bill.reprice(host, dollars_per_hour, now_s=now_s)
        else:
            bill.close(host, now_s=now_s)
    return bill


def _exact(number: float) -> Fraction:
    """The decimal number a person sees, not the binary one beneath it."""
    return Fraction(repr(number))


def _cents(dollars: Fraction) -> int:
    return int(dollars * 100 + Fraction(1, 2))

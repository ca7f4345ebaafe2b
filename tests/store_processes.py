"""Processes that use a store and are killed, stopped or cut off; started as `python THIS VERB ...`.

What they say is one JSON value a line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.etcd import EtcdStore
from mainstay.coordinator.leading import Leading, Reign
from mainstay.coordinator.store import Change, Deposed
from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import SystemClock

THIS: Final = Path(__file__).resolve()

ACT_EVERY_S: Final = 0.005

LATE_S: Final = 20.0
"""How long a leader whose time is over tries to write."""


def say(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def said(log: Path) -> list[dict[str, Any]]:
    """All whole lines of such a process."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]


def acts(log: Path) -> dict[int, tuple[float, float]]:
    """Per term, when such a process first and last acted as leader."""
    found: dict[int, tuple[float, float]] = {}
    for line in said(log):
        if "acted" in line:
            first, _ = found.get(line["term"], (line["acted"], 0.0))
            found[line["term"]] = first, line["acted"]
    return found


def overlaps(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that begin before one that began earlier has ended."""
    found, busy_until = [], float("-inf")
    for interval in sorted(intervals):
        if interval[0] <= busy_until:
            found.append(interval)
        busy_until = max(busy_until, interval[1])
    return found


async def write(path: str) -> None:
    """Commit for ever to a file, two keys a change; say what is committed."""
    store = EmbeddedStore(Path(path), clock=SystemClock(), lease_s=60.0)
    leadership = await store.campaign(candidate="writer", address="")
    assert leadership
    for number in range(1_000_000):
        value = str(number).encode()
        await leadership.commit(Change(puts={f"left/{number}": value, f"right/{number}": value}))
        say(committed=number)


async def lead(prefix: str, name: str, *endpoints: str) -> None:
    """Act whenever it may, and try to write once more when it no longer may."""
    store = EtcdStore(endpoints, prefix=prefix, call_s=0.5)
    leading = Leading(store, candidate=name, address=name, clock=SystemClock())

    async def rule(reign: Reign) -> None:
        say(began=reign.term)
        try:
            while True:
                await act(reign)
                await asyncio.sleep(ACT_EVERY_S)
        finally:
            say(ended=reign.term)
            with suppress(asyncio.CancelledError):
                say(late=await late_write(reign), term=reign.term)

    await leading.run(rule)


async def act(reign: Reign) -> None:
    now_s = time.monotonic()  # before it looks whether it may: then it may have
    if reign.is_valid():
        say(acted=now_s, term=reign.term)


async def late_write(reign: Reign) -> str:
    """What the store says, when it can be asked, to a leader that does not look at its clock."""
    deadline_s = time.monotonic() + LATE_S
    while time.monotonic() < deadline_s:
        try:
            await reign._leadership.commit(Change(puts={"late": b"written"}))
        except Unavailable:
            await asyncio.sleep(0.05)
        except Deposed as error:
            return error.code
        else:
            return "written"
    return "never heard"


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    asyncio.run(lead(*words) if verb == "lead" else write(*words))

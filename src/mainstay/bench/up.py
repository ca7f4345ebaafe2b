"""`mainstay bench up`: from the command to a page and to a first node, and what all of it weighs.

The command is the one that people give, with free ports and a home that is empty: certificates and
database are made in the time that is measured. Compiled loops are there already where the set-up
has made them, as `make` does; where it has not, their compilation is in that time, too.
"""

import asyncio
import json
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mainstay.bench.frame import Bench
from mainstay.bench.tree_memory import pss_mb
from mainstay.model.errors import Unavailable
from mainstay.model.state import State
from mainstay.model.views import SummaryQuery
from mainstay.runtime.children import Child, Children
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.tls import TlsFlags, transport
from mainstay.wire.transport import open_channel

PROMISED_AT: Final = 2_000
"""The fleet that people get who say nothing; what it keeps, a smaller one keeps, too."""

BUDGET: Final = {"first_node_s": 60.0, "pss_mb": 1024.0}
PATIENCE_S: Final = 600.0
LOOK_S: Final = 0.1
APART_S: Final = 1.0
TRIES: Final = 30

READY: Final = {
    "api": 1,
    "coordinator": 1,
    "dashboard": 1,
    "postgres": 1,
    "shard": 2,
    "world": 1,
}
"""Processes that say they are ready, by their kind."""

ALL_SAID: Final = "Ctrl-C stops everything."
MAIN: Final = "from mainstay.cli.main import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large, and how often the memory is looked at."""

    machines: int
    looks: int


def run(bench: Bench, size: Size) -> None:
    """One start, from nothing."""
    bench.budget = dict(BUDGET) if size.machines <= PROMISED_AT else {}
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # ours: a database that runs as somebody else must get in
        home = folder / "home"
        with Children(folder / "bench") as children:
            words = ["up", "--free-ports", "--fleet", str(size.machines)]
            program = [sys.executable, "-c", MAIN, *words]
            began_s = bench.clock.elapsed_s()
            child = children.program("up", ["/usr/bin/env", f"MAINSTAY_HOME={home}", *program])
            asyncio.run(_Run(bench, size, home, child, began_s).run())


@dataclass(frozen=True, slots=True)
class _Run:
    bench: Bench
    size: Size
    home: Path
    up: Child
    began_s: float

    async def run(self) -> None:
        bench = self.bench
        page_s, node_s = await self._page_and_node()
        await self._until(lambda: ALL_SAID in self.up.log.read_text(), "everything to be ready")
        ready = Counter(str(told["process"]) for told in self._ready())
        bench.expect("ready", expected=READY, actual=dict(sorted(ready.items())))
        states = await self._states()
        bench.expect("machines", expected=self.size.machines, actual=sum(states.values()))
        bench.expect("a machine serves", expected=True, actual=states[str(State.CONFIGURED)] > 0)
        bench.figures |= {"page_s": page_s, "first_node_s": node_s}
        await self._weigh()

    async def _page_and_node(self) -> tuple[float, float]:
        """After how long there was a page, and a machine that serves, whichever came first."""
        seen: dict[str, float] = {}
        wanted: Mapping[str, Callable[[], bool]] = {"page": self._page, "node": self._node}

        def both() -> bool:
            for name, is_there in wanted.items():
                if name not in seen and is_there():
                    seen[name] = round(self.bench.clock.elapsed_s() - self.began_s, 2)
                    self.bench.progress(f"up: {name} after {seen[name]} s")
            return seen.keys() == wanted.keys()

        await self._until(both, "a page and a first node")
        return seen["page"], seen["node"]

    def _page(self) -> bool:
        return bool(_fetched(self._address("dashboard", "page")))

    def _node(self) -> bool:
        told = _fetched(f"http://{self._address('world', 'http')}/clusters")
        return bool(told) and any(each["serving"] for each in json.loads(told).values())

    def _address(self, process: str, what: str) -> str:
        said = [each["addresses"] for each in self._ready() if each["process"] == process]
        return str(said[0][what]) if said else ""

    def _ready(self) -> list[dict[str, Any]]:
        """What each process said of itself when it was ready."""
        found = []
        for path in sorted((self.home / "run").glob("*.json")):
            with suppress(OSError, ValueError):  # replaced just now
                found.append(json.loads(path.read_text(encoding="utf-8")))
        return found

    async def _states(self) -> Counter[str]:
        """How many machines stand where, as all shards say together; one that is on its way from a
        shard to another may be at neither, and one that serves is not listed yet, so they are asked
        some times.
        """
        found = await self._counted()
        for _ in range(TRIES):
            if sum(found.values()) == self.size.machines and found[str(State.CONFIGURED)]:
                break
            await asyncio.sleep(APART_S)
            found = await self._counted()
        return found

    async def _counted(self) -> Counter[str]:
        cert, key, ca = (
            str(self.home / "pki" / name) for name in ("admin.crt", "admin.key", "ca.crt")
        )
        found: Counter[str] = Counter()
        for told in [each for each in self._ready() if each["process"] == "shard"]:
            at = str(told["addresses"]["grpc"])
            channel = open_channel(at, transport(TlsFlags(cert=cert, key=key, ca=ca), at))
            summary = await RemoteShard(channel, name=str(told["id"])).summary(SummaryQuery())
            found.update(summary.machines)
            await channel.close()
        return found

    async def _weigh(self) -> None:
        """The most that all of it had together, and of whom; each look is kept."""
        bench, looks = self.bench, list[dict[str, float]]()
        names = {int(told["pid"]): _name(told) for told in self._ready()}
        for _ in range(self.size.looks):
            await asyncio.sleep(APART_S)
            looks.append(pss_mb(self.up.pid, {self.up.pid: "supervisor", **names}))
        most = max(looks, key=lambda look: sum(look.values()))
        bench.figures["pss_mb"] = round(sum(most.values()), 1)
        bench.figures["pss_mb_by_process"] = most
        bench.samples["pss_mb"] = [round(sum(look.values()), 1) for look in looks]
        bench.progress(f"up: {bench.figures['pss_mb']} MB")

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        until_s = self.bench.clock.elapsed_s() + PATIENCE_S
        while not is_so():
            if not self.up.is_running:
                raise Unavailable(f"mainstay up has ended: {self.up.tail()}")
            if self.bench.clock.elapsed_s() > until_s:
                raise Unavailable(f"mainstay up: waited {PATIENCE_S:.0f} s for {what}")
            await asyncio.sleep(LOOK_S)


def _name(told: Mapping[str, Any]) -> str:
    return str(told["id"] if told["process"] == "shard" else told["process"])


def _fetched(url: str) -> bytes:
    """What is there; nothing as long as nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bytes(answer.read())
    except (OSError, ValueError):
        return b""

"""A dashboard in a process of its own, over sources from memory that a test changes while it runs.

A file in its folder tells what is so: `gone` (no machine is known), `full` (there is no room for
anybody), `refused` (live parts are answered with 503), `still` (nothing changes by itself), `mute`
(the API of tenants does not answer), `other` (it has less, and sells something else first),
`failed` (the machine that is asked about has, until it is retired).
"""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

import outside
from dashboards import FakeShard, FakeSources, FakeTenancy, an_allocation
from looking import Fleet
from mainstay.dashboard.access import Doorkeeper, Person, Role
from mainstay.dashboard.app import Parts, build
from mainstay.dashboard.ended import Ended
from mainstay.dashboard.history import History
from mainstay.dashboard.told import Answers
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import NoCapacity, Rejected, Unavailable
from mainstay.processes.web import serving_app
from mainstay.runtime.clock import SystemClock
from running import until

ROWS: Final = 40

SOLD: Final[Mapping[str, Any]] = {
    "/catalog": {
        "skus": [{"sku": "slice", "display_name": "Slice", "allowed_gpu_counts": [1, 4],
                  "gpu_hourly_price_minor": 450, "currency": "USD"}],
        "rooms": [{"sku": "slice", "region": "r1", "free_gpus": 6}],
    },
    "/projects": {"items": [{"id": "p1", "name": "One"}]},
    "/ssh-keys": {"items": []},
}  # fmt: skip


@dataclass(slots=True)
class Living(FakeShard):
    """Every look finds other needs, and the first machine only every second time."""

    folder: Path = Path()
    looks: int = 0

    @override
    async def machines(self, query: v.MachineQuery) -> AsyncIterator[v.MachineRows]:
        if not (self.folder / "still").exists():
            self.looks += 1
        async for told in FakeShard.machines(self, query):
            first = self.looks % 2
            rows = tuple(replace(row, need=f"n{self.looks}") for row in told.rows[first:])
            yield replace(told, rows=rows)

    @override
    async def explain(self, question: q.Question) -> q.Explanation:
        if (self.folder / "gone").exists():
            raise Rejected("no such machine here")
        told = await FakeShard.explain(self, question)
        failed = (self.folder / "failed").exists()
        return replace(told, document='{"state": "Failed"}') if failed else told

    @override
    async def retire(self, request: q.RetireRequest) -> q.Retired:
        (self.folder / "failed").unlink()
        return await FakeShard.retire(self, request)


@dataclass(slots=True)
class Remembering(FakeTenancy):
    """As the API does: the same key is the same answer, also when that is a refusal."""

    folder: Path = Path()
    given: dict[str, Any] = field(default_factory=dict)

    @override
    async def get(self, path: str, **query: object) -> Any:
        if (self.folder / "mute").exists():
            raise Unavailable("no answer from the API of tenants")
        told = await FakeTenancy.get(self, path, **query)
        if path == "/catalog" and (self.folder / "other").exists():
            less = [{**room, "free_gpus": 5} for room in told["rooms"]]
            return {**told, "rooms": [{**less[0], "region": "r0"}, *less]}
        return told

    @override
    async def post(
        self, path: str, body: Mapping[str, Any], *, key: str, by: str, **query: object
    ) -> Any:
        if key not in self.given:
            full = (self.folder / "full").exists()
            made = {"allocation_id": f"alc_{len(self.given) + 2}"}
            self.given[key] = NoCapacity("no node has room for it") if full else made
        if isinstance(answer := self.given[key], NoCapacity):
            raise NoCapacity(answer.message)
        return answer


@dataclass(frozen=True, slots=True)
class Refusing:
    """Answers for the app when its live parts are refused."""

    app: ASGIApp
    folder: Path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = (self.folder / "refused").exists() and scope["path"].startswith("/live")
        await (PlainTextResponse("not now", 503) if refused else self.app)(scope, receive, send)


def served(folder: Path, people: Sequence[Person]) -> Starlette:
    """The app, which may be told to refuse."""
    clock, rows = SystemClock(), [an_allocation(f"alc_{n}", status="failed") for n in range(1, 9)]
    answers = {f"/admin/allocations/{row['allocation_id']}": row for row in rows}
    listed = {"/admin/allocations": {"items": rows, "next_cursor": None}}
    sources = FakeSources(
        {"shard-a": Living("shard-a", count=ROWS, folder=folder)},
        Remembering({**answers, **listed, **SOLD}, folder=folder),
    )
    app = build(
        Parts(sources=sources, answers=Answers(clock, deadline_s=2.0, fresh_s=0.0),
              door=Doorkeeper(people, clock, lasts_s=3_600, ended=Ended(None)),
              history=History(), clock=clock, refresh_s=0.2)
    )  # fmt: skip
    app.add_middleware(Refusing, folder=folder)
    return app


@dataclass(slots=True)
class Lone:
    """The process, and what it is told."""

    folder: Path
    process: "subprocess.Popen[str]"
    fleet: Fleet

    def say(self, name: str) -> None:
        (self.folder / name).touch()

    def unsay(self, name: str) -> None:
        (self.folder / name).unlink()

    def halt(self) -> None:
        """It hangs, its connections stay."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def restart(self, token: str = "") -> None:
        """At the same address; with another token nobody is signed in any more."""
        self.process.kill()
        self.process.wait()
        port = self.fleet.url.rpartition(":")[2]
        token = token or self.fleet.tokens["admin"]
        self.process, self.fleet = _started(self.folder, port, token)


@contextmanager
def lone(folder: Path) -> Iterator[Lone]:
    process, fleet = _started(folder, "0", secrets.token_hex(8))
    alone = Lone(folder, process, fleet)
    try:
        yield alone
    finally:
        alone.process.kill()
        alone.process.wait()


def _started(folder: Path, port: str, token: str) -> "tuple[subprocess.Popen[str], Fleet]":
    at = folder / "address"
    at.unlink(missing_ok=True)
    words = [sys.executable, __file__, str(folder), port, token]
    paths = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(words, env=outside.environment(PYTHONPATH=paths), text=True)
    until(lambda: at.exists() or process.poll() is not None)
    assert process.poll() is None
    return process, Fleet(folder, f"http://{at.read_text()}", {"admin": token})


async def main(folder: Path, port: str, token: str) -> None:
    people = [Person(Role.ADMIN, "alice", token)]
    async with serving_app(served(folder, people), f"127.0.0.1:{port}", {}) as at:
        (folder / "making").write_text(at)
        (folder / "making").rename(folder / "address")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))

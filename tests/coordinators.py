"""Real coordinators on real stores, and shards that are only reports."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeVar

from mainstay.model.coordination import (
    AssignDomain,
    Domain,
    InstructAck,
    Instruction,
    Outcome,
    ProviderLine,
    ReportAck,
    ShardReport,
    UnassignDomain,
)
from mainstay.model.coordinator_views import StandingQuery, StandingRow
from mainstay.model.errors import MainstayError
from mainstay.model.ids import ShardId
from mainstay.wire.coordinator_client import RemoteCoordinator
from mainstay.wire.coordinator_dialer import CoordinatorDialer
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import Over, open_channel
from running import Home, Process

ZONE: Final = "topology.kubernetes.io/zone"
FLEETS: Final = count()

AnswerT = TypeVar("AnswerT")


def in_a_file(home: Home) -> tuple[str, ...]:
    """The words that make coordinators share one file."""
    return ("--store-file", str(home.path / "shared.db"))


def on_etcd(endpoints: Sequence[str]) -> tuple[str, ...]:
    """The words that make coordinators share one prefix of an etcd that nobody else has."""
    members = [word for endpoint in endpoints for word in ("--etcd", endpoint)]
    return (*members, "--fleet", f"fleet-{next(FLEETS)}")


def coordinator(home: Home, name: str, *words: str, listen: str = "127.0.0.1:0") -> Process:
    """One, that has said where it is; it may lead or not."""
    given = ("--id", name, "--listen", listen, "--http", "127.0.0.1:0")
    tls = () if any(word.startswith("--tls") for word in words) else ("--insecure",)
    return home.start("coordinator", "coordinator", *given, *tls, *words)


@asynccontextmanager
async def asked(process: Process, over: Over | None = None) -> AsyncIterator[RemoteCoordinator]:
    """This one, whether it leads or not."""
    async with open_channel(process.grpc, over or Plaintext()) as channel:
        yield RemoteCoordinator(channel, name="coordinator")


@asynccontextmanager
async def dialed(*processes: Process) -> AsyncIterator[CoordinatorDialer]:
    """Whoever leads."""
    dialer = CoordinatorDialer([each.grpc for each in processes], Plaintext(), timeout_s=5.0)
    try:
        yield dialer
    finally:
        await dialer.close()


async def standing(process: Process) -> StandingRow:
    async with asked(process) as remote:
        return await remote.standing(StandingQuery())


async def led(*processes: Process, patience_s: float = 30.0) -> Process:
    """The one of them that leads, once one does."""
    async with asyncio.timeout(patience_s):
        while True:
            for process in processes:
                if process.popen.poll() is None and (await standing(process)).leads:
                    return process
            await asyncio.sleep(0.05)


async def eventually(ask: Callable[[], Awaitable[AnswerT]], *, patience_s: float = 30.0) -> AnswerT:
    """The first answer that is true; what fails is asked again."""
    error: MainstayError | None = None
    try:
        async with asyncio.timeout(patience_s):
            while True:
                try:
                    if answer := await ask():
                        return answer
                except MainstayError as raised:
                    error = raised
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it never became true: {error}") from error


def to_assign(domain: Domain, shard: str) -> Callable[[RemoteCoordinator], Awaitable[None]]:
    """The question that gives a domain to a shard."""
    return lambda remote: remote.assign_domain(domain, shard)


@dataclass(slots=True)
class PaperShard:
    """A shard that does what it is told at once, and repeats its acks until they are heard."""

    id: str
    epoch: int = 1
    address: str = "127.0.0.1:9"
    domains: set[Domain] = field(default_factory=set)
    takes_all: bool = True
    number: int = 0
    term: int = 0
    acks: list[InstructAck] = field(default_factory=list)
    done: dict[str, InstructAck] = field(default_factory=dict)

    def report(self, **parts: Any) -> ShardReport:
        """The next one."""
        self.number += 1
        given = {
            "address": self.address,
            "can_hand_over": True,
            "term_seen": self.term,
            "takes_all": self.takes_all,
            "providers": (ProviderLine(f"of-{self.id}", "127.0.0.1:8"),),
            "domains": tuple(sorted(self.domains)),
            "acks": tuple(self.acks),
            **parts,
        }
        return ShardReport(shard=ShardId(self.id), epoch=self.epoch, number=self.number, **given)

    def hear(self, ack: ReportAck) -> ReportAck:
        self.term = max(self.term, ack.term)
        self.acks = [self.done.get(each.id) or self.carry_out(each) for each in ack.instructions]
        return ack

    def carry_out(self, told: Instruction) -> InstructAck:
        match told.payload:
            case AssignDomain(domain=domain):
                self.takes_all = False
                self.domains.add(domain)
            case UnassignDomain(domain=domain):
                self.domains.discard(domain)
            case _:
                raise AssertionError(f"not for a shard without machines: {told}")
        self.done[told.id] = InstructAck(instruction=told.id, outcome=Outcome.ACCEPTED)
        return self.done[told.id]

    async def tell(self, dialer: CoordinatorDialer | RemoteCoordinator, **parts: Any) -> ReportAck:
        return self.hear(await dialer.report(self.report(**parts)))

    def telling(
        self, dialer: CoordinatorDialer | RemoteCoordinator, **parts: Any
    ) -> Callable[[], Awaitable[ReportAck]]:
        """The same, to be tried until it is heard."""
        return lambda: self.tell(dialer, **parts)

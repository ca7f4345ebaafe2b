"""Lines to simulated providers on which everything is noted, and some things are changed."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from typing_extensions import override

from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.calls import Ack, Capabilities, GetRequest, ListRequest, Mutation
from mainstay.model.errors import MainstayError, UnknownMachine
from mainstay.model.machine import Machine
from mainstay.providers.sim.latency import INSTANT
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.outcomes import Outcome
from shard_over_sim import RequestT
from virtual_loop import LoopClock
from whole_shard import HangingLink, Whole, a_provider

SentT = TypeVar("SentT", bound=Mutation)


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt of a call, whether or not it was ever answered."""

    at_s: float
    request: Mutation


@dataclass
class MeddledLink(HangingLink):
    """As the line it is, until somebody meddles with it."""

    lists: list[ListRequest] = field(default_factory=list)
    """Every list that was asked for."""

    cursors: list[bytes] = field(default_factory=list)
    """Where those ended that were answered."""

    tried: list[Tried] = field(default_factory=list)
    declares: Capabilities | None = None
    """What the provider declares instead of what it is."""

    full_list_takes_s: float = 0.0
    delta_takes_s: float = 0.0
    refuses_lists: MainstayError | None = None
    refuses: Callable[[Mutation], MainstayError | None] = lambda _: None
    """Why a call does not even get there."""

    hangs_on: Callable[[Mutation], bool] = lambda _: False
    """Which calls get there and are never answered."""

    reports: Callable[[Machine], Machine | None] | None = None
    """A record as it is reported instead; None: it is left out."""

    lists_as: Callable[[Machine], Machine | None] | None = None
    """The same in lists alone: who asks for the machine itself is told how it stands."""

    spoils_lists: bool = False
    """Whether its lists are such as no provider can send: reading one is a defect."""

    unknown: set[str] = field(default_factory=set)
    """What the provider does not have, whoever asks for it."""

    acks: Callable[[Machine], Machine] = lambda record: record
    """A record as it is acknowledged instead."""

    @property
    @override
    def capabilities(self) -> Capabilities | None:
        return self.declares or super().capabilities

    @override
    async def listing(self, request: ListRequest) -> MachineBatch:
        self.lists.append(request)
        await asyncio.sleep(self.delta_takes_s if request.since else self.full_list_takes_s)
        if self.refuses_lists is not None:
            raise self.refuses_lists
        batch = await super().listing(request)
        self.cursors.append(batch.cursor)
        if self.declares is not None and not self.declares.tombstones:
            batch = dataclasses.replace(batch, tombstones=())
        if self.spoils_lists:
            shape, changed = batch.shape + len(batch.shapes), ~batch.digest
            batch = dataclasses.replace(batch, shape=shape, digest=changed)
        told = self.lists_as or self.reports
        return batch if told is None else meddled(batch, told)

    @override
    async def get(self, request: GetRequest) -> Machine:
        if request.machine in self.unknown:
            raise UnknownMachine(f"no such machine: {request.machine}")
        record = await super().get(request)
        return record if self.reports is None else self.reports(record) or record

    @override
    async def _send(self, call: Callable[[RequestT], Awaitable[Ack]], request: RequestT) -> Ack:
        self.tried.append(Tried(LoopClock().elapsed_s(), request))
        if self.hangs_on(request):
            await asyncio.sleep(1e9)
        error = self.refuses(request)
        if error is not None:
            raise error
        ack = await super()._send(call, request)
        return dataclasses.replace(ack, machine=self.acks(ack.machine))

    def attempts(self, kind: type[SentT]) -> list[SentT]:
        """The attempts at calls of one kind, in their order."""
        return [each.request for each in self.tried if isinstance(each.request, kind)]

    def full_lists(self) -> list[int]:
        """Which of the lists that were asked for were full, by their place."""
        return [place for place, each in enumerate(self.lists) if not each.since]


def meddled(batch: MachineBatch, reports: Callable[[Machine], Machine | None]) -> MachineBatch:
    """A list with other records in it."""
    told = [reports(batch.machine(place)) for place in range(len(batch))]
    made = batch_of(
        [each for each in told if each is not None],
        source=batch.source,
        full=batch.full,
        tombstones=batch.tombstones,
    )
    return dataclasses.replace(made, cursor=batch.cursor, notices=batch.notices)


def quick(*, slots: int = 0, idle: int = 0, name: str = "sim") -> SimSpec:
    """A provider whose steps end at once."""
    return dataclasses.replace(a_provider(slots=slots, idle=idle, name=name), latencies=INSTANT)


def outcomes(whole: Whole, outcome: Outcome, kind: str = "bootstrap") -> float:
    """How many actions of a kind have ended like this."""
    labels = {"kind": kind, "outcome": outcome.value}
    return whole.metric("mainstay_shard_action_outcomes_total", **labels)


def disposed(whole: Whole, disposition: str, kind: str) -> float:
    """Of how many actions of a kind this has become."""
    labels = {"kind": kind, "disposition": disposition}
    return whole.metric("mainstay_shard_actions_total", **labels)


def only(call: type[Mutation], error: MainstayError) -> Callable[[Mutation], MainstayError | None]:
    """Refuses calls of one kind."""
    return lambda request: error if isinstance(request, call) else None


class NotedLines:
    """An audit log that only remembers."""

    lost = 0
    written = 0

    def __init__(self) -> None:
        self.contents: list[Mapping[str, object]] = []

    def __len__(self) -> int:
        return 0

    def append(self, content: Callable[[], Mapping[str, object]]) -> None:
        self.contents.append(content())


def audited(whole: Whole) -> NotedLines:
    """What a shard writes into its audit log from now on."""
    whole.journal._audit = lines = NotedLines()
    return lines


def line(whole: Whole, name: str = "sim") -> MeddledLink:
    """The line to a provider."""
    found = whole.links[name]
    assert isinstance(found, MeddledLink)
    return found


@pytest.fixture(autouse=True)
def meddled_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of a module that imports this can be meddled with."""
    monkeypatch.setattr("whole_shard.HangingLink", MeddledLink)

"""The provider kit against a plain model: fences, repetitions, states, lists, restarts.

Random lives of three slots. After every call the kit and the model must agree on the answer; every
record the kit ever writes must follow from the one before by a legal edge; and whoever follows the
incremental lists must know what a full list says, notices included.
"""

import asyncio
import dataclasses
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

import outside
from hardware import Hardware, a_slot, serving
from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    ListRequest,
)
from mainstay.model.errors import (
    Fenced,
    IllegalTransition,
    MainstayError,
    NoCapacity,
    UnknownMachine,
)
from mainstay.model.ids import MachineId
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import NEXT, State
from mainstay.providers.kit import store as stores
from mainstay.providers.kit.backend import Job, Slot
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.store import Sql, Stored, Write
from virtual_loop import run

SLOTS: Final = ("m-0", "m-1", "m-2")
DELAY_S: Final = 2.0

# What each call needs, passes through and ends in: written down again, on purpose.
STEPS: Final = {
    "create": (State.SPECULATIVE, State.CREATING, State.IDLE),
    "configure": (State.IDLE, State.CONFIGURING, State.CONFIGURED),
    "drain": (State.CONFIGURED, State.DRAINING, State.IDLE),
    "delete": (State.IDLE, State.DELETING, State.SPECULATIVE),
}


class FileStore:
    """The real rows and the real file, without the thread: every commit is on disk at once."""

    failure = ""

    def __init__(self) -> None:
        self._base: sqlite3.Connection = stores._opened(Path(":memory:"), "lab")
        self.states: dict[str, State] = {}
        self.broken: list[str] = []

    def load(self) -> Stored:
        return stores._loaded(self._base)

    def submit(self, writes: Sequence[Write]) -> None:
        for statement, values in writes:
            self._base.execute(statement.value, values)
            if statement is Sql.PUT_MACHINE:
                self._follow(str(values[0]), State(json.loads(str(values[2]))["state"]))

    def _follow(self, machine: str, new: State) -> None:
        old = self.states.get(machine)
        self.states[machine] = new
        if old is None:
            legal = new in {State.SPECULATIVE, State.IDLE}
        else:
            legal = new == old or new in NEXT[old]
        if not legal:
            self.broken.append(f"{machine}: {old} -> {new}")

    async def settled(self) -> None:
        pass

    def close(self) -> None:
        self._base.close()


class Doomed(Hardware):
    """Steps of doomed slots fail."""

    def __init__(self, *slots: Slot, delay_s: float) -> None:
        super().__init__(*slots, delay_s=delay_s)
        self.doomed: set[str] = set()

    @override
    async def _work(self, call: Call, job: Job) -> None:
        await super()._work(call, job)
        if job.slot in self.doomed:
            raise NoCapacity("doomed")


@dataclass
class Plain:
    """What is true of one slot, kept by the simplest rules there are."""

    slot: str
    generation: int = 0
    state: State = State.SPECULATIVE
    hosted: bool = False
    at_work: str = ""
    due_s: float = 0.0
    last: dict[str, str] = field(default_factory=dict)
    """The operation of the last step of each kind."""

    @property
    def id(self) -> str:
        return f"{self.slot}+{self.generation}" if self.generation else self.slot

    def settle(self, now_s: float, doomed: bool) -> None:
        if self.at_work and self.due_s <= now_s:
            if doomed:
                self.state = State.FAILED
            else:
                self.state = STEPS[self.at_work][2]
                self.hosted = {"create": True, "delete": False}.get(self.at_work, self.hosted)
            self.at_work = ""

    def replace(self) -> None:
        """Gone, and back under a new id."""
        self.generation += 1
        self.state = State.IDLE if self.hosted else State.SPECULATIVE
        self.at_work, self.last = "", {}


@dataclass
class Model:
    """The provider as a plain machine would keep it."""

    slots: dict[str, Plain] = field(default_factory=lambda: {name: Plain(name) for name in SLOTS})
    marks: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)

    def expected(self, call: str, machine: str, fence: Fence) -> type[MainstayError] | str | None:
        """The refusal, the operation that is repeated, or None for a new step."""
        if fence.shard:
            token = (fence.epoch, fence.sequence)
            if fence.epoch < self.epochs.get(fence.shard, 0):
                return Fenced
            if token <= self.marks.get((fence.shard, machine), (-1, -1)):
                return Fenced
            self.marks[fence.shard, machine] = token
            self.epochs[fence.shard] = fence.epoch
        known = [plain for plain in self.slots.values() if plain.id == machine]
        if not known:
            return UnknownMachine
        source, during, after = STEPS[call]
        if known[0].state in {during, after} and call in known[0].last:
            return known[0].last[call]
        return None if known[0].state is source else IllegalTransition


@dataclass(frozen=True)
class Do:
    call: str
    slot: str
    fence: Fence
    older: bool = False
    """Name the machine that was in the slot before."""


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Happen:
    what: str
    slot: str


@dataclass(frozen=True)
class Onward:
    """The next step of a machine's life, asked for twice, and time for it."""

    slot: str
    back: bool
    """At Idle: whether to give it back instead of joining it."""


Act = Do | Wait | Happen | Onward

FENCES: Final = st.one_of(
    st.just(Fence()),
    st.builds(Fence, st.sampled_from(["a", "b"]), st.integers(0, 3), st.integers(0, 5)),
)
ACTS: Final = st.one_of(
    st.builds(
        Do,
        st.sampled_from(sorted(STEPS)),
        st.sampled_from([*SLOTS, "ghost"]),
        FENCES,
        st.sampled_from([False] * 9 + [True]),
    ),
    st.builds(Onward, st.sampled_from(SLOTS), st.booleans()),
    st.builds(Onward, st.sampled_from(SLOTS), st.booleans()),
    st.builds(Wait, st.sampled_from([0.0, 1.0, DELAY_S + 0.5])),
    st.builds(
        Happen,
        st.sampled_from(["lose", "doom", "spare", "retire", "restart", "look", "warn", "calm"]),
        st.sampled_from(SLOTS),
    ),
)


class Life:
    """One run: the kit and the model, side by side."""

    def __init__(self) -> None:
        self.store = FileStore()
        self.hardware = Doomed(*map(a_slot, SLOTS), delay_s=DELAY_S)
        self.model = Model()
        self.mirror: dict[str, State] = {}
        self.notices: dict[MachineId, InterruptionNotice] = {}
        self.cursor = b""

    async def run(self, acts: Sequence[Act]) -> None:
        rest: list[Act] | None = list(acts)
        while rest is not None:
            options = Options(reconcile_interval_s=1e9)
            async with serving(self.hardware, store=self.store, options=options) as server:
                rest = await self.until_restart(server, rest)
                if rest is None:
                    await self.agree_at_last(server)
            self.restarted()

    async def until_restart(self, server: ProviderServer, acts: list[Act]) -> list[Act] | None:
        for place, act in enumerate(acts):
            match act:
                case Do():
                    await self.do(server, act)
                case Onward():
                    await self.onward(server, act)
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Happen("restart", _):
                    self.settle()
                    return acts[place + 1 :]
                case Happen(what, slot):
                    await self.happen(server, what, self.model.slots[slot])
            await self.follow(server)
            self.settle()
            assert self.store.broken == []
        return None

    async def do(self, server: ProviderServer, act: Do) -> None:
        self.settle()
        plain = self.model.slots.get(act.slot)
        machine = "ghost" if plain is None else plain.id
        if act.older and plain is not None:
            machine = f"{plain.slot}+{plain.generation + 7}"
        expected = self.model.expected(act.call, machine, act.fence)
        request = {
            "create": CreateRequest(machine, act.fence),
            "configure": ConfigureRequest(machine, "web", fence=act.fence),
            "drain": DrainRequest(machine, fence=act.fence),
            "delete": DeleteRequest(machine, act.fence),
        }[act.call]
        send = getattr(server, act.call)
        if isinstance(expected, type):
            with pytest.raises(expected):
                await send(request)
            return
        ack = await send(request)
        if expected is not None:
            assert ack.operation == expected
            return
        assert plain is not None
        assert ack.operation not in self.model.operations
        assert ack.machine.state is STEPS[act.call][1]
        self.model.operations.add(ack.operation)
        plain.last[act.call] = ack.operation
        plain.state, plain.at_work = ack.machine.state, act.call
        plain.due_s = now_s() + DELAY_S

    async def onward(self, server: ProviderServer, act: Onward) -> None:
        self.settle()
        plain = self.model.slots[act.slot]
        calls = {State.SPECULATIVE: "create", State.CONFIGURED: "drain"}
        calls[State.IDLE] = "delete" if act.back else "configure"
        call = plain.at_work or calls.get(plain.state, "create")
        for _ in range(2):
            await self.do(server, Do(call, act.slot, Fence()))
        await asyncio.sleep(DELAY_S + 0.5)

    async def happen(self, server: ProviderServer, what: str, plain: Plain) -> None:
        self.settle()
        if what == "lose" and plain.state in {State.IDLE, State.CONFIGURED}:
            there = self.hardware.there[plain.slot]
            self.hardware.there[plain.slot] = dataclasses.replace(there, host="")
            plain.hosted = False
            plain.replace()
            await server.reconcile()
        elif what == "doom":
            self.hardware.doomed.add(plain.slot)
        elif what == "spare":
            self.hardware.doomed.discard(plain.slot)
        elif what == "retire" and plain.state is State.FAILED:
            await server.retire(plain.id, reason="test")
            plain.replace()
            await server.reconcile()
        elif what == "look":
            await server.reconcile()
        elif what in {"warn", "calm"}:
            notice = InterruptionNotice(now_s() + 60.0) if what == "warn" else None
            there = self.hardware.there[plain.slot]
            self.hardware.there[plain.slot] = dataclasses.replace(there, notice=notice)

    def settle(self) -> None:
        for plain in self.model.slots.values():
            plain.settle(now_s(), plain.slot in self.hardware.doomed)

    def restarted(self) -> None:
        """What cannot be done again has failed; the rest begins again."""
        for plain in self.model.slots.values():
            if plain.at_work == "configure":
                plain.state, plain.at_work = State.FAILED, ""
            elif plain.at_work:
                plain.due_s = now_s() + DELAY_S

    async def follow(self, server: ProviderServer) -> None:
        """As a shard does: page by page, from the last cursor on."""
        more = True
        while more:
            answer = await server.list(ListRequest(since=self.cursor, results_max=2))
            if answer.full:
                self.mirror.clear()
                self.notices.clear()
            for gone in (*answer.tombstones, *(machine.id for machine in answer.machines)):
                self.mirror.pop(gone, None)
                self.notices.pop(gone, None)
            self.notices.update(answer.notices)
            self.mirror.update({machine.id: machine.state for machine in answer.machines})
            self.cursor, more = answer.cursor, answer.more
        full = await server.list(ListRequest())
        assert self.mirror == {machine.id: machine.state for machine in full.machines}
        assert self.notices == full.notices

    async def agree_at_last(self, server: ProviderServer) -> None:
        await asyncio.sleep(10 * DELAY_S)
        self.settle()
        await server.reconcile()
        await self.follow(server)
        said = {plain.id: self.hardware.there[plain.slot].notice
                for plain in self.model.slots.values() if plain.hosted}  # fmt: skip
        assert self.notices == {name: notice for name, notice in said.items() if notice}
        assert self.mirror == {plain.id: plain.state for plain in self.model.slots.values()}


def now_s() -> float:
    return asyncio.get_running_loop().time()


@settings(max_examples=outside.examples(150))
@given(st.lists(ACTS, max_size=40))
def test_the_kit_agrees_with_the_plain_model_over_whole_lives(acts: list[Act]) -> None:
    life = Life()
    try:
        run(life.run(acts))
    finally:
        life.store.close()

    assert life.store.broken == []


@settings(max_examples=outside.examples(100))
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=30))
def test_a_stream_of_fences_is_accepted_exactly_when_it_rises(
    tokens: list[tuple[int, int]],
) -> None:
    async def scenario() -> None:
        mark = (-1, -1)
        async with serving(Hardware(a_slot())) as server:
            for token in tokens:
                request = CreateRequest("m-1", Fence("s", *token))
                if token > mark:
                    await server.create(request)
                    mark = token
                else:
                    with pytest.raises(Fenced):
                        await server.create(request)

    run(scenario())


TEXTS: Final = st.text(st.characters(exclude_categories=()), max_size=12)


@settings(max_examples=outside.examples(60))
@given(st.dictionaries(TEXTS, TEXTS, max_size=8))
def test_metadata_comes_back_as_it_was_given_also_after_a_restart(echo: dict[str, str]) -> None:
    store = FileStore()
    hardware = Hardware(a_slot(host="h"))

    async def scenario() -> None:
        async with serving(hardware, store=store) as server:
            await server.configure(ConfigureRequest("m-1", "web", metadata=echo))
            await asyncio.sleep(5)
        async with serving(hardware, store=store) as server:
            (machine,) = (await server.list(ListRequest())).machines
            assert dict(machine.shard_metadata) == echo

    try:
        run(scenario())
    finally:
        store.close()

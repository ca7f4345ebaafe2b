"""The provider of the benches: lists as protobuf writes them, steps that end by the next one."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import outside
from mainstay.bench import lcg
from mainstay.bench.list_server import machines_of, obey
from mainstay.bench.listed import ListedFleet
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import (
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.errors import IllegalTransition, Rejected, UnknownMachine
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.wire.calls import page_from_wire
from mainstay.wire.listing import listing_of
from mainstay.wire.provider_client import RemoteProvider
from mainstay.wire.provider_lists import ListReader
from mainstay.wire.tls import Plaintext
from mainstay.wire.transport import open_channel

NAMES = ("machines", "needs", "racks")
SIZE = (400, 50, 9)


@pytest.fixture(scope="module")
def machines() -> list[Machine]:
    return list(machines_of(lcg.generate(*SIZE)))


@pytest.fixture
def fleet(machines: list[Machine]) -> ListedFleet:
    return ListedFleet(machines)


def listed(fleet: ListedFleet, since: bytes = b"", page: int = 90) -> MachineBatch:
    async def ask(request: ListRequest) -> bytes:
        return fleet.answer(request)

    reader = ListReader(ask, source="listed", page_machines=page)
    return asyncio.run(reader.batch(ListRequest(since=since)))


def records(batch: MachineBatch) -> dict[str, Machine]:
    return {str(name): batch.machine(at) for at, name in enumerate(batch.ids)}


def first(fleet: ListedFleet, state: State) -> str:
    return next(name for name, each in records(listed(fleet)).items() if each.state is state)


class TestLists:
    @pytest.mark.parametrize("page", [1, 90, 399, 400, 10_000])
    def test_a_full_list_says_what_the_fleet_is(
        self, fleet: ListedFleet, machines: list[Machine], page: int
    ) -> None:
        batch = listed(fleet, page=page)

        assert batch.full
        assert [batch.machine(at) for at in range(len(batch))] == machines

    def test_one_machine_of_a_hundred_has_another_price_and_the_delta_names_it(
        self, fleet: ListedFleet
    ) -> None:
        before = listed(fleet)

        changed = fleet.change()
        after = listed(fleet, since=before.cursor)

        assert changed == len(after) == 4
        assert not after.full
        old = records(before)
        for name, machine in records(after).items():
            assert machine.price_per_hour == pytest.approx(old[name].price_per_hour + 0.01)

    def test_each_change_takes_other_machines(self, fleet: ListedFleet) -> None:
        cursor = listed(fleet).cursor
        named = []
        for _ in range(3):
            fleet.change()
            batch = listed(fleet, since=cursor)
            cursor = batch.cursor
            named.append(set(batch.ids))

        assert named[0].isdisjoint(named[1] | named[2])

    def test_an_old_cursor_is_told_every_change_since(self, fleet: ListedFleet) -> None:
        cursor = listed(fleet).cursor
        fleet.change()
        fleet.change()

        assert len(listed(fleet, since=cursor)) == 8

    def test_a_list_since_the_newest_cursor_is_empty(self, fleet: ListedFleet) -> None:
        fleet.change()

        assert len(listed(fleet, since=listed(fleet).cursor)) == 0

    @pytest.mark.parametrize("cursor", [b"x", b"99", b"1/x", b"\xff"])
    def test_an_unknown_cursor_is_answered_in_full(self, fleet: ListedFleet, cursor: bytes) -> None:
        batch = listed(fleet, since=cursor)

        assert batch.full
        assert len(batch) == 400

    def test_what_changes_between_two_pages_is_told_by_the_next_delta(
        self, fleet: ListedFleet
    ) -> None:
        page = page_from_wire(fleet.answer(ListRequest(results_max=200)))
        changed = fleet.change()
        last = page_from_wire(fleet.answer(ListRequest(since=page.cursor, results_max=200)))

        assert (page.more, last.more) == (True, False)
        assert (page.incremental, last.incremental) == (False, True)
        assert len(listed(fleet, since=last.cursor)) == changed

    def test_a_machine_that_is_gone_is_a_tombstone_and_in_no_list(self, fleet: ListedFleet) -> None:
        cursor = listed(fleet).cursor

        fleet.remove(3)

        assert listed(fleet, since=cursor).tombstones == ("m-0000397", "m-0000398", "m-0000399")
        assert len(listed(fleet)) == len(fleet) == 397

    def test_a_list_by_state_is_refused(self, fleet: ListedFleet) -> None:
        with pytest.raises(Rejected, match="by state"):
            fleet.answer(ListRequest(states=frozenset({State.IDLE})))


class TestSteps:
    @pytest.mark.parametrize(
        ("ask", "source", "during", "after"),
        [
            (lambda fleet, name: fleet.create(CreateRequest(name)),
             State.SPECULATIVE, State.CREATING, State.IDLE),
            (lambda fleet, name: fleet.configure(ConfigureRequest(name, "c", metadata={"a": "b"})),
             State.IDLE, State.CONFIGURING, State.CONFIGURED),
            (lambda fleet, name: fleet.drain(DrainRequest(name)),
             State.CONFIGURED, State.DRAINING, State.IDLE),
            (lambda fleet, name: fleet.delete(DeleteRequest(name)),
             State.IDLE, State.DELETING, State.SPECULATIVE),
        ],
    )  # fmt: skip
    def test_a_step_is_accepted_at_once_and_finished_in_the_next_list(
        self,
        fleet: ListedFleet,
        ask: Callable[[ListedFleet, str], Any],
        source: State,
        during: State,
        after: State,
    ) -> None:
        name, cursor = first(fleet, source), listed(fleet).cursor

        ack = asyncio.run(ask(fleet, name))
        again = asyncio.run(ask(fleet, name))
        delta = records(listed(fleet, since=cursor))

        assert ack == again
        assert ack.machine.state is during
        assert delta.keys() == {name}
        assert delta[name].state is after
        assert fleet.calls == 1

    def test_what_configure_was_told_is_echoed(self, fleet: ListedFleet) -> None:
        name = first(fleet, State.IDLE)
        request = ConfigureRequest(name, "c-7", metadata={"bigfleet.lumen/group": "g"})

        asyncio.run(fleet.configure(request))
        batch = listed(fleet)

        assert records(batch)[name].cluster == "c-7"
        assert records(batch)[name].shard_metadata == request.metadata

    def test_a_machine_that_was_moved_is_in_full_lists_and_deltas_as_it_stands(
        self, fleet: ListedFleet
    ) -> None:
        name = first(fleet, State.IDLE)
        price = records(listed(fleet))[name].price_per_hour
        asyncio.run(fleet.delete(DeleteRequest(name)))

        for _ in range(100):
            fleet.change()

        moved = records(listed(fleet))[name]
        assert moved.state is State.SPECULATIVE
        assert moved.price_per_hour == pytest.approx(price + 0.01)
        assert asyncio.run(fleet.get(GetRequest(name))) == moved

    def test_a_step_from_the_wrong_state_is_refused(self, fleet: ListedFleet) -> None:
        with pytest.raises(IllegalTransition):
            asyncio.run(fleet.drain(DrainRequest(first(fleet, State.IDLE))))

    @pytest.mark.parametrize("name", ["m-0000400", "m-1", "x", "m-", "m-٣"])
    def test_an_unknown_machine_is_refused(self, fleet: ListedFleet, name: str) -> None:
        with pytest.raises(UnknownMachine):
            asyncio.run(fleet.get(GetRequest(name)))


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("change\n", {"changed": 4, "revision": 2}),
        ("change 10", {"changed": 40, "revision": 2}),
        ("remove 5", {"removed": 5, "revision": 2}),
        ("dance", {"error": "no such command: 'dance' (there are: change, remove, facts)"}),
        ("change ten", {"error": "not a number: 'ten'"}),
    ],
)
def test_a_command_is_carried_out_or_refused(
    fleet: ListedFleet, line: str, answer: dict[str, object]
) -> None:
    assert obey(fleet, line) == answer


def test_the_process_serves_by_grpc_and_ends_with_its_stdin() -> None:
    size = [f"--{name}={count}" for name, count in zip(NAMES, SIZE, strict=True)]
    with subprocess.Popen(
        [sys.executable, "-m", "mainstay.bench.list_server", *size],
        env=outside.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]

        counted, first_cursor = asyncio.run(_counted(address, b""))
        process.stdin.write("change\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        changed, _ = asyncio.run(_counted(address, first_cursor))
        process.stdin.close()
        code = process.wait(30)

    assert counted == {State.CONFIGURED: 340, State.IDLE: 40, State.SPECULATIVE: 20}
    assert told["changed"] == sum(changed.values()) == 4
    assert code == 0


async def _counted(address: str, since: bytes) -> tuple[Counter[State], bytes]:
    channel = open_channel(address, Plaintext())
    try:
        batch = await RemoteProvider(channel, source="listed").list(ListRequest(since=since))
    finally:
        await channel.close()
    return Counter(map(State, batch.state.tolist())), batch.cursor


def test_a_list_in_one_answer_is_read_as_it_was_written(
    fleet: ListedFleet, machines: list[Machine]
) -> None:
    listing = listing_of(fleet.answer(ListRequest()), source="listed", full=True)
    batch, refused = listing.batch()

    assert not refused
    assert [batch.machine(at) for at in range(len(batch))] == machines

"""What goes to a provider with Create, and what it says of its hosts, arrives as it was said."""

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
import strategies
from hardware import Hardware, a_slot, serving
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import Report
from mainstay.model.assignment import Assignment
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import Call, Capabilities, CreateRequest, Listing, ListRequest
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.metadata import encode
from mainstay.model.notice import InterruptionNotice, Notices, known_notices
from mainstay.model.state import State
from mainstay.providers.kit.backend import Slot
from mainstay.providers.kit.local import LocalProvider
from mainstay.wire import loops
from mainstay.wire.calls import listing_to_wire, request_from_wire, request_to_wire
from mainstay.wire.listing import listing_of
from mainstay.wire.provider_lists import ListReader
from virtual_loop import run


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "compiled":
        assert loops.warm(), "numba is part of the lock"
    yield request.param
    loops.cool()


M: Final = MachineId("m-1")


@settings(max_examples=outside.examples(50))
@given(strategies.assignments(State.CREATING))
def test_a_new_shard_learns_for_whom_a_machine_is_made_exactly_as_it_was_said(
    meant: Assignment,
) -> None:
    """By each way a list can come: in process, over the wire in one piece, and read on demand."""

    async def scenario() -> list[Assignment]:
        async with serving(Hardware(a_slot())) as server:
            said = request_to_wire(CreateRequest(M, attribution=encode(meant)))
            heard = request_from_wire(Call.CREATE, said)
            assert isinstance(heard, CreateRequest)
            await server.create(heard)

            listing = await server.list(ListRequest())
            data = listing_to_wire(listing, server.capabilities)
            lists: list[MachineBatch | Report] = [
                await LocalProvider(server).list(ListRequest()),
                listing_of(data).batch()[0],
                listing_of(data),
            ]
        known = []
        for each in lists:
            inventory = Inventory()
            inventory.merge(each, now=0.0)
            assert inventory.machine(M).state is State.CREATING
            known.append(inventory.machine(M).assignment)
        return known

    assert run(scenario()) == [meant] * 3


notices = st.builds(
    InterruptionNotice,
    st.one_of(st.just(0.0), st.floats(1e7, 5e9)),
    st.text(max_size=6),
)


@st.composite
def lists(draw: st.DrawFn) -> Listing:
    """A list, and of some of its machines that their host will go."""
    machines = draw(st.lists(strategies.machines(), max_size=4, unique_by=lambda m: m.id))
    named = st.sampled_from([machine.id for machine in machines]) if machines else st.nothing()
    told = draw(st.dictionaries(named, notices)) if machines else {}
    return Listing(machines=machines, full=draw(st.booleans()), cursor=b"", notices=told)


@settings(max_examples=outside.examples(60))
@given(lists())
def test_notices_come_over_the_wire_as_they_were_and_change_nothing_else(listing: Listing) -> None:
    silent = dataclasses.replace(listing, notices={})
    with_them, without = (
        listing_of(listing_to_wire(each, Capabilities())) for each in (listing, silent)
    )

    assert with_them.notices == listing.notices
    assert without.notices == {}
    (batch, refused), (quiet, _) = with_them.batch(), without.batch()
    assert (batch.notices, dict(refused)) == (listing.notices, {})
    assert records(batch) == records(quiet)
    same = [machine.id not in listing.notices for machine in listing.machines]
    assert (with_them.digest == without.digest).tolist() == same


def records(batch: MachineBatch) -> list[Machine]:
    return [batch.machine(at) for at in range(len(batch))]


def a_provider() -> st.SearchStrategy[list[Notices]]:
    """Moments of three machines: of which of them it is said that their host will go."""
    names = st.sampled_from([MachineId(name) for name in ("m-0", "m-1", "m-2")])
    return st.lists(st.dictionaries(names, notices), min_size=1, max_size=5)


@settings(max_examples=outside.examples(30))
@given(a_provider(), st.integers(0, 2))
def test_whoever_follows_the_lists_over_the_wire_knows_what_is_said_now(
    moments: list[Notices], page: int
) -> None:
    slots = {name: a_slot(name, host=f"h-{name}") for name in ("m-0", "m-1", "m-2")}
    hardware = Hardware(*slots.values())

    async def scenario() -> None:
        async with serving(hardware) as server:

            async def ask(request: ListRequest) -> bytes:
                return listing_to_wire(await server.list(request), server.capabilities)

            eager, lazy = (ListReader(ask, source="lab", page_machines=page or 9) for _ in "ab")
            known: list[Notices] = [{}, {}]
            cursor = b""
            for moment in moments:
                hardware.there = said(slots, moment)
                await server.reconcile()
                batch = await eager.batch(ListRequest(since=cursor))
                listing = await lazy.read(ListRequest(since=cursor))
                known = [known_notices(known[0], batch), known_notices(known[1], listing)]
                assert known == [moment, moment]
                cursor = batch.cursor

    asyncio.run(scenario())


def said(slots: Mapping[str, Slot], moment: Notices) -> dict[str, Slot]:
    return {
        name: dataclasses.replace(slot, notice=moment.get(MachineId(name)))
        for name, slot in slots.items()
    }

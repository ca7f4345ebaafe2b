"""A coordinator that lost all it knew, while machines had changed shards or were about to.

Shards go on, and tell it who has what. What nobody tells of is shown to people and given to nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from coordinators import eventually
from linked_shards import heard, machines, moves, rows, serves
from mainstay.model.coordinator_calls import ReturnMachinesRequest
from mainstay.model.coordinator_views import ConflictQuery, ConflictRow, DomainQuery
from mainstay.model.state import State
from moving import EAST, MACHINES, WEST, Fleet, running, settle_in
from running import Home, at_home

REPORTS = 4
"""So many are heard of whoever comes back first: enough to give something away, if it were so."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with at_home(tmp_path) as found:
        settle_in(found)
        yield found


async def conflicts(fleet: Fleet) -> tuple[ConflictRow, ...]:
    found = await fleet.dialer.ask(lambda remote: remote.conflicts(ConflictQuery()))
    return found.rows


def no_conflict(fleet: Fleet) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        return await conflicts(fleet) == ()

    return said


def adrift(fleet: Fleet) -> Callable[[], Awaitable[bool]]:
    """Asks whether it is shown that machines of a have no owner."""

    async def said() -> bool:
        return any(each.kind == "adrift" for each in await conflicts(fleet))

    return said


def domains_are_back(fleet: Fleet) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        found = await fleet.dialer.ask(lambda remote: remote.domains(DomainQuery()))
        held = {row.value: row.shard for row in found.rows if row.state == "held"}
        return held == {EAST: "a", WEST: "b"}

    return said


def reported(fleet: Fleet) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        name = "mainstay_coordinator_reports_total"
        return fleet.linked.running["c"].metric(name, outcome="accepted") >= REPORTS

    return said


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_who_has_a_machine_that_moved_keeps_it_when_all_die_and_the_store_is_lost(
    home: Home, first: str, second: str
) -> None:
    """A power cut. Whoever comes back first says again what it gave or took long ago."""

    async def scenario() -> None:
        async with running(home) as fleet:
            linked = fleet.linked
            fleet.low(1)
            await eventually(serves(linked.a, 1))
            fleet.high(2)
            await fleet.serve(a=1, b=2)
            (move,) = await fleet.settled()

            linked.kill("c", "a", "b")
            linked.lose_the_store()
            await linked.start("c")
            await linked.start(first)
            await eventually(reported(fleet))
            await linked.start(second)
            await eventually(heard(fleet.dialer, "a", "b"))

            await eventually(domains_are_back(fleet))
            await fleet.serve(a=1, b=2)
            await eventually(no_conflict(fleet))
            assert {*move.machines} <= await machines(linked.b, State.CONFIGURED)

    asyncio.run(scenario())


async def given_and_not_taken(fleet: Fleet) -> set[str]:
    """The machines of a move that its donor has answered and its recipient has not heard of."""

    async def stands(state: str) -> set[str]:
        return {
            name or move.id
            for move in await moves(fleet.dialer)
            if move.state == state
            for name in move.machines or ("",)
        }

    fleet.low(1)
    await eventually(serves(fleet.linked.a, 1))
    heard_ns = (await rows(fleet.dialer))["a"].last_heartbeat_ns

    async def heard_again() -> bool:
        return (await rows(fleet.dialer))["a"].last_heartbeat_ns > heard_ns

    await eventually(heard_again)  # what is not known to be left over is not asked for
    fleet.proxies["a"].hang()
    fleet.high(2)
    await eventually(lambda: stands("asked"))
    fleet.proxies["b"].hang()
    fleet.proxies["a"].cut()
    fleet.proxies["a"].pass_all()
    return await eventually(lambda: stands("given"), patience_s=60)


def test_what_was_given_and_not_taken_when_the_store_is_lost_is_shown_and_returned_by_hand(
    home: Home,
) -> None:
    async def scenario() -> None:
        async with running(home, proxied=True) as fleet:
            linked = fleet.linked
            lost = await given_and_not_taken(fleet)

            linked.kill("c")
            linked.lose_the_store()
            await linked.start("c")
            fleet.proxies["b"].cut()
            fleet.proxies["b"].pass_all()
            await eventually(heard(fleet.dialer, "a", "b"))
            await eventually(domains_are_back(fleet))
            await eventually(adrift(fleet))
            await eventually(serves(linked.b, 2), patience_s=60)
            await fleet.settled()
            assert not lost & (await machines(linked.a) | await machines(linked.b))
            (conflict,) = await conflicts(fleet)
            assert (conflict.kind, conflict.claimant or conflict.holder) == ("adrift", "a")

            asked = ReturnMachinesRequest(shard="a", reason="b never had it")
            await fleet.dialer.ask(lambda remote: remote.return_machines(asked))
            await eventually(lambda: linked.has_whole_fleet(MACHINES))
            await eventually(no_conflict(fleet))
            assert lost <= await machines(linked.a)

    asyncio.run(scenario())

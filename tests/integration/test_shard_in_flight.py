"""What becomes of machines that are on their way when a process or a network is gone: real ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fault_proxy import FaultProxy, fault_proxy
from mainstay.model.state import State
from mainstay.session.client import SessionClient
from running import Home, Process, at_home
from shard_processes import (
    actions,
    connected,
    cycles,
    health,
    machines,
    needs,
    provider,
    serving,
    shard,
    so_many,
    standing,
    until,
)
from talking import Hands

IN_FLIGHT_S = 8.0
"""How long a step takes: long enough to look at what is on its way, and to end a process."""


def ended(provider: Process, call: str) -> float:
    """How many steps of a kind have come to their end in this life of a provider."""
    return provider.metric("mainstay_provider_steps_total", call=call)


class Stage(NamedTuple):
    """Two providers, one of which the shard cannot reach while it has three machines in flight."""

    process: Process
    proxy: FaultProxy
    east: Process
    west: Process
    web: SessionClient
    hands: Hands
    flying: set[str]


@asynccontextmanager
async def cut_off(home: Home, *, configure_s: float, deadline_s: float) -> AsyncIterator[Stage]:
    east = await asyncio.to_thread(provider, home, configure_s=configure_s)
    west = await asyncio.to_thread(provider, home, "west", "use1-az4")
    with fault_proxy(east.grpc) as proxy:
        way = replace(east, facts={"addresses": {"grpc": proxy.address}})
        both = (("east", way), ("west", west))
        config = configured_in(home, deadline_s)
        process = await asyncio.to_thread(shard, home, *both, config=config)
        hands = Hands()
        async with connected(process, hands=hands) as web:
            web.set_needs(needs(3))
            flying = await standing(process, State.CONFIGURING, 3)
            rows = await machines(process, State.CONFIGURING)
            assert {row.provider for row in rows} == {"east"}
            proxy.cut()
            await until(lambda: process.metric("mainstay_shard_providers_lost_total") >= 1)
            yield Stage(process, proxy, east, west, web, hands, flying)


def reasons(hands: Hands) -> dict[str, str]:
    """Why its machines have failed, as a cluster is told."""
    return {each.machine: each.last_error for each in hands.states if each.state is State.FAILED}


async def fail_once_it_answers(stage: Stage, why: str) -> None:
    """All that was in flight, and the cluster is told why."""
    stage.proxy.pass_all()
    assert await standing(stage.process, State.FAILED, 3) == stage.flying
    await until(lambda: reasons(stage.hands).keys() >= stage.flying)
    assert all(why in each for each in reasons(stage.hands).values())


def configured_in(home: Home, seconds: float) -> str:
    """A file by which a machine is Configuring for so long at most."""
    path = home.path / "deadline.toml"
    path.write_text(f"[shard]\nconfiguring_deadline_s = {seconds}\n")
    return str(path)


def test_machines_in_flight_through_a_provider_that_cannot_be_reached_wait_and_are_finished(
    tmp_path: Path,
) -> None:
    """No deadline of a step runs while nobody can say how it goes."""

    async def scenario(home: Home) -> None:
        async with cut_off(home, configure_s=IN_FLIGHT_S, deadline_s=IN_FLIGHT_S / 2) as stage:
            stage.web.set_needs(needs(5))
            bought = await so_many(stage.process, 2)
            await asyncio.sleep(IN_FLIGHT_S)
            await cycles(stage.process, 2)
            assert await standing(stage.process, State.CONFIGURING, 3) == stage.flying
            assert await health(stage.process) == {"east": "lost", "west": "answering"}
            assert {row.provider for row in await machines(stage.process, State.CONFIGURED)} == {
                "west"
            }

            stage.proxy.pass_all()
            assert await so_many(stage.process, 5) == stage.flying | bought
            assert ended(stage.east, "configure") == 3
            assert ended(stage.east, "drain") == ended(stage.west, "drain") == 0

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_machines_in_flight_that_are_not_finished_when_their_provider_answers_fail_and_say_why(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        async with cut_off(home, configure_s=600, deadline_s=4) as stage:
            await asyncio.sleep(5)
            await cycles(stage.process, 2)
            assert await standing(stage.process, State.CONFIGURING, 3) == stage.flying

            await fail_once_it_answers(stage, "which is too long")

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_machines_in_flight_through_a_provider_that_is_killed_fail_as_it_tells_afterwards(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        async with cut_off(home, configure_s=600, deadline_s=600) as stage:
            stage.east.kill()
            await asyncio.to_thread(provider, home, configure_s=600)
            await cycles(stage.process, 2)
            assert await standing(stage.process, State.CONFIGURING, 3) == stage.flying

            await fail_once_it_answers(stage, "interrupted by a restart of the provider")

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_shard_that_is_killed_with_machines_in_flight_finishes_each_and_begins_none_twice(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home, configure_s=IN_FLIGHT_S)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process, "batch") as batch, connected(process) as web:
            batch.set_needs(needs(2, "batch"))
            others = await so_many(process, 2, "batch")
            web.set_needs(needs(4))
            flying = await standing(process, State.CONFIGURING, 4)
            process.kill()
            process = await asyncio.to_thread(shard, home, ("east", east))
            assert await standing(process, State.CONFIGURING, 4) == flying
            assert await so_many(process, 4) == flying
            await until(lambda: web.facts().sessions == batch.facts().sessions == 2)
            await cycles(process, 3)

            assert await serving(process) == flying
            assert await serving(process, "batch") == others
            assert (ended(east, "configure"), ended(east, "drain")) == (6, 0)
            assert await actions(process) == []

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_cluster_whose_network_falls_silent_keeps_all_and_takes_over_when_it_heals(
    tmp_path: Path,
) -> None:
    """Nothing is closed: only keep-alive finds out, and silence is not zero demand."""

    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        hands = Hands()
        with fault_proxy(process.grpc) as proxy:
            async with connected(process, at=proxy.address, hands=hands) as web:
                web.set_needs(needs(3))
                before = await so_many(process, 3)
                proxy.hang()
                web.set_needs(needs(4))  # is heard when the network is there again
                closed = "mainstay_shard_sessions_closed_total"
                await until(lambda: process.metric(closed) == 1)
                await cycles(process, 3)
                assert await serving(process) == before
                assert {row.kind for row in await actions(process)} == {"bootstrap"}

                hands.states.clear()
                proxy.pass_all()
                after = await so_many(process, 4)
                assert before < after
                await until(lambda: {each.machine for each in hands.states} == after)
                assert web.facts().sessions == 2
                assert ended(east, "drain") == 0

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))

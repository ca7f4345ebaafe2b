"""A backend says that a host will be taken back, and everybody who lists is told."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from hardware import Hardware, a_slot, configured, serving, state_of
from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DrainRequest,
    Listing,
    ListRequest,
)
from mainstay.model.ids import ClusterId
from mainstay.model.notice import InterruptionNotice
from mainstay.model.state import State
from mainstay.providers.kit.backend import Host, Job
from mainstay.providers.kit.local import LocalProvider
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.store import SqliteStore
from virtual_loop import run

SOON: Final = InterruptionNotice(1_000.0, "spot")
LATER: Final = InterruptionNotice(2_000.0)


def say(hardware: Hardware, notice: InterruptionNotice | None, name: str = "m-1") -> None:
    hardware.there[name] = dataclasses.replace(hardware.there[name], notice=notice)


async def listed(server: ProviderServer, since: bytes = b"") -> Listing:
    return await server.list(ListRequest(since=since))


def test_a_notice_that_comes_changes_or_is_withdrawn_shows_in_the_next_incremental_list() -> None:
    hardware = Hardware(a_slot(host="h-1"), a_slot("m-2", host="h-2"))

    async def scenario() -> None:
        async with serving(hardware) as server:
            before = await listed(server)
            assert before.notices == {}
            for notice in (SOON, LATER, None):
                say(hardware, notice)
                await server.reconcile()
                delta = await listed(server, before.cursor)
                assert [machine.id for machine in delta.machines] == ["m-1"]
                assert delta.notices == ({"m-1": notice} if notice else {})
                before = delta

    run(scenario())


def test_a_notice_that_stands_is_no_news() -> None:
    hardware = Hardware(a_slot(host="h-1", notice=SOON))

    async def scenario() -> None:
        async with serving(hardware) as server:
            before = await listed(server)
            assert before.notices == {"m-1": SOON}
            await asyncio.sleep(3600)
            assert (await listed(server, before.cursor)).machines == []

    run(scenario())


def test_a_host_that_was_announced_is_lost_like_any_other() -> None:
    hardware = Hardware(a_slot(host="h-1"))

    async def scenario() -> None:
        async with serving(hardware) as server:
            say(hardware, SOON)
            await server.reconcile()
            before = await listed(server)
            hardware.there["m-1"] = a_slot()
            await server.reconcile()
            delta = await listed(server, before.cursor)
            assert (delta.tombstones, delta.notices) == (("m-1",), {})

    run(scenario())


def test_a_notice_is_kept_over_the_steps_of_its_host() -> None:
    hardware = Hardware(a_slot())

    async def scenario() -> None:
        async with serving(hardware) as server:
            await configured(server)
            say(hardware, SOON)
            await server.reconcile()
            await server.drain(DrainRequest("m-1"))
            assert (await listed(server)).notices == {"m-1": SOON}
            await asyncio.sleep(5)
            assert await state_of(server) is State.IDLE
            assert (await listed(server)).notices == {"m-1": SOON}

    run(scenario())


@pytest.mark.parametrize("new", [None, LATER])
def test_a_notice_goes_with_its_host_when_a_step_puts_another_in_its_place(
    new: InterruptionNotice | None,
) -> None:
    class Exchanging(Hardware):
        @override
        async def configure(self, job: Job, cluster: ClusterId, blob: bytes) -> Host:
            slot = self.there[job.slot]
            self.there[job.slot] = dataclasses.replace(slot, host="another", notice=new)
            await self._work(Call.CONFIGURE, job)
            return Host("another")

    hardware = Exchanging(a_slot(host="h-1", notice=SOON))

    async def scenario() -> None:
        async with serving(hardware) as server:
            await server.configure(ConfigureRequest("m-1", "web"))
            await asyncio.sleep(0.5)
            await server.reconcile()  # while the step is at work, the old host is still ours
            assert (await listed(server)).notices == {"m-1": SOON}
            await asyncio.sleep(5)
            assert (await listed(server)).notices == {}
            await server.reconcile()
            assert (await listed(server)).notices == ({"m-1": new} if new else {})

    run(scenario())


def test_a_slot_without_a_host_has_nothing_to_be_taken_back() -> None:
    hardware = Hardware(a_slot(notice=SOON))

    async def scenario() -> None:
        async with serving(hardware) as server:
            assert (await listed(server)).notices == {}
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            await server.reconcile()
            assert (await listed(server)).notices == {"m-1": SOON}

    run(scenario())


def test_a_page_tells_of_its_own_machines_only() -> None:
    hardware = Hardware(
        a_slot(host="h-1", notice=SOON), a_slot("m-2", host="h-2"), a_slot("m-3", host="h-3")
    )
    say(hardware, LATER, "m-3")

    async def scenario() -> None:
        async with serving(hardware) as server:
            first = await server.list(ListRequest(results_max=2))
            second = await server.list(ListRequest(results_max=2, since=first.cursor))
            assert (first.notices, second.notices) == ({"m-1": SOON}, {"m-3": LATER})

    run(scenario())


def test_a_shard_in_the_same_process_is_told_in_its_batch() -> None:
    hardware = Hardware(a_slot(host="h-1", notice=SOON), a_slot("m-2"))

    async def scenario() -> None:
        async with serving(hardware) as server:
            assert (await LocalProvider(server).list(ListRequest())).notices == {"m-1": SOON}

    run(scenario())


@pytest.mark.parametrize("after", [SOON, LATER, None])
def test_over_a_restart_only_what_changed_meanwhile_is_news(
    tmp_path: Path, after: InterruptionNotice | None
) -> None:
    hardware = Hardware(a_slot(host="h-1", notice=SOON))

    async def life(since: bytes) -> Listing:
        store = SqliteStore(tmp_path / "provider.db")
        try:
            async with serving(hardware, store=store) as server:
                return await listed(server, since)
        finally:
            store.close()

    before = asyncio.run(life(b""))
    say(hardware, after)
    delta = asyncio.run(life(before.cursor))

    assert (before.notices, delta.full) == ({"m-1": SOON}, False)
    assert [machine.id for machine in delta.machines] == ([] if after == SOON else ["m-1"])
    assert delta.notices == ({"m-1": LATER} if after == LATER else {})


@pytest.mark.parametrize("gives", [True, False])
def test_the_kit_declares_what_its_backend_can(gives: bool) -> None:
    hardware = Hardware(a_slot())
    hardware.gives_notice = gives

    async def scenario() -> None:
        async with serving(hardware) as server:
            assert server.capabilities.notices is gives

    run(scenario())

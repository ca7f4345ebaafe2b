"""The store: what a provider knows after a restart is what it knew, and a bad file is told."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hardware import Hardware, a_slot, configured, ids, serving, state_of
from mainstay.model.calls import (
    Call,
    ConfigureRequest,
    CreateRequest,
    DrainRequest,
    Fence,
    GetRequest,
    ListRequest,
)
from mainstay.model.errors import Fenced, Rejected, Unavailable
from mainstay.model.state import State
from mainstay.providers.kit.options import Options
from mainstay.providers.kit.server import ProviderServer
from mainstay.providers.kit.store import Sql, SqliteStore
from mainstay.runtime.clock import StepClock

Scenario = Callable[[ProviderServer], Awaitable[None]]


def life(path: Path, hardware: Hardware, scenario: Scenario) -> None:
    """One life of a provider on this store."""

    async def whole() -> None:
        store = SqliteStore(path, name="lab")
        try:
            options = Options(reconcile_interval_s=1e6)
            async with serving(hardware, store=store, clock=StepClock(), options=options) as server:
                await scenario(server)
        finally:
            store.close()

    asyncio.run(whole())


def at_once(*slots: str) -> Hardware:
    return Hardware(*map(a_slot, slots), delay_s=0)


async def reached(server: ProviderServer, state: State, machine: str = "m-1") -> None:
    """Wait for a step of hardware that takes no time."""
    for _ in range(1000):
        if await state_of(server, machine) is state:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"never {state}: {await server.get(GetRequest(machine))}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "provider.db"


class TestRestart:
    def test_machines_bindings_echo_and_cursor_are_as_they_were(self, path: Path) -> None:
        hardware = at_once("m-1", "m-2")
        before = []

        async def first(server: ProviderServer) -> None:
            await configured(server, wait_s=0.05)
            before.append(await server.list(ListRequest()))

        async def second(server: ProviderServer) -> None:
            assert await server.list(ListRequest()) == before[0]
            delta = await server.list(ListRequest(since=before[0].cursor))
            assert (delta.machines, delta.full) == ([], False)

        life(path, hardware, first)
        life(path, hardware, second)

        assert dict(before[0].machines[-1].shard_metadata) == {"k": "v"}

    def test_operations_are_remembered_and_never_given_out_again(self, path: Path) -> None:
        hardware = at_once("m-1", "m-2")
        operations = []

        async def first(server: ProviderServer) -> None:
            operations.append((await server.create(CreateRequest("m-1"))).operation)
            await reached(server, State.IDLE)

        async def second(server: ProviderServer) -> None:
            again = await server.create(CreateRequest("m-1"))
            other = await server.create(CreateRequest("m-2"))
            assert again.operation == operations[0]
            assert other.operation not in operations

        life(path, hardware, first)
        life(path, hardware, second)

    def test_marks_and_floors_are_remembered(self, path: Path) -> None:
        hardware = at_once("m-1", "m-2")

        async def first(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1", Fence("a", 3, 7)))

        async def second(server: ProviderServer) -> None:
            for machine, fence in (("m-1", Fence("a", 3, 7)), ("m-2", Fence("a", 2, 9))):
                with pytest.raises(Fenced):
                    await server.create(CreateRequest(machine, fence))
            await server.create(CreateRequest("m-1", Fence("b", 1, 1)))

        life(path, hardware, first)
        life(path, hardware, second)

    def test_tombstones_and_generations_are_remembered(self, path: Path) -> None:
        hardware = at_once("m-1", "m-2")
        cursors = []

        async def first(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await reached(server, State.IDLE)
            cursors.append((await server.list(ListRequest())).cursor)
            del hardware.there["m-1"]
            await server.reconcile()

        async def second(server: ProviderServer) -> None:
            assert server._ledger.operation("m-1", Call.CREATE) is None
            delta = await server.list(ListRequest(since=cursors[0]))
            assert delta.tombstones == ("m-1",)
            hardware.there["m-1"] = a_slot()
            await server.reconcile()
            assert await ids(server) == ["m-1+1", "m-2"]

        life(path, hardware, first)
        life(path, hardware, second)

    def test_a_step_that_can_be_done_again_goes_on_under_its_operation(self, path: Path) -> None:
        hardware = Hardware(a_slot(), delay_s=1e6)

        async def first(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(0)

        async def second(server: ProviderServer) -> None:
            await reached(server, State.IDLE)

        life(path, hardware, first)
        hardware.delay_s = 0
        life(path, hardware, second)

        assert len({operation for _, operation in hardware.did}) == 1

    def test_a_drain_that_goes_on_keeps_its_grace_period(self, path: Path) -> None:
        hardware = at_once("m-1")

        async def first(server: ProviderServer) -> None:
            await configured(server, wait_s=0.05)
            hardware.delay_s = 1e6
            await server.drain(DrainRequest("m-1", 77))

        async def second(server: ProviderServer) -> None:
            await reached(server, State.IDLE)

        life(path, hardware, first)
        hardware.delay_s = hardware.grace_s = 0
        life(path, hardware, second)

        assert hardware.grace_s == 77

    def test_a_configure_that_was_interrupted_has_failed_and_says_so(self, path: Path) -> None:
        hardware = at_once("m-1")

        async def first(server: ProviderServer) -> None:
            await server.create(CreateRequest("m-1"))
            await reached(server, State.IDLE)
            hardware.delay_s = 1e6
            await server.configure(ConfigureRequest("m-1", "web"))

        async def second(server: ProviderServer) -> None:
            machine = await server.get(GetRequest("m-1"))
            assert machine.state is State.FAILED
            assert machine.last_error == "configure was interrupted by a restart of the provider"

        life(path, hardware, first)
        life(path, hardware, second)


class TestFile:
    def test_a_change_writes_its_own_rows_only(self, path: Path) -> None:
        """Whatever the size of the fleet: a second store of ten times as much writes as little."""

        def grown(count: int) -> int:
            where = path.with_name(f"{count}.db")
            wal = where.with_name(f"{count}.db-wal")
            sizes = []

            async def scenario(server: ProviderServer) -> None:
                sizes.append(wal.stat().st_size)
                await server.create(CreateRequest("m-7"))
                sizes.append(wal.stat().st_size)

            hardware = Hardware(*(a_slot(f"m-{n}") for n in range(count)), delay_s=1e6)
            life(where, hardware, scenario)
            return sizes[1] - sizes[0]

        assert 0 < grown(1000) <= grown(100) + 2 * 4096

    def test_two_providers_cannot_share_a_store(self, path: Path) -> None:
        store = SqliteStore(path)
        try:
            with pytest.raises(Unavailable, match=f"in use.*{path.name}"):
                SqliteStore(path)
        finally:
            store.close()

    def test_a_file_that_is_none_of_ours_is_left_alone(self, path: Path) -> None:
        path.write_bytes(b"hello, world\n" * 500)

        with pytest.raises(Rejected, match=f"not a provider's store: .*{path.name}"):
            SqliteStore(path)

        assert path.read_bytes().startswith(b"hello")

    def test_another_database_is_left_alone(self, path: Path) -> None:
        with sqlite3.connect(path) as base:
            base.execute("create table people (name text)")
        base.close()

        with pytest.raises(Rejected, match="some other SQLite database"):
            SqliteStore(path)

    def test_a_store_of_another_version_is_left_alone(self, path: Path) -> None:
        SqliteStore(path).close()
        with sqlite3.connect(path) as base:
            base.execute("pragma user_version = 99")
        base.close()

        with pytest.raises(Rejected, match="has 99, we read 1"):
            SqliteStore(path)

    def test_a_directory_that_is_not_there_is_told(self, path: Path) -> None:
        with pytest.raises(Rejected, match="no such directory"):
            SqliteStore(path.parent / "nowhere" / "x.db")

    def test_a_store_that_cannot_be_written_ends_all_answers(self, path: Path) -> None:
        """Memory is ahead of the disk then: nothing that is said now could be kept."""

        async def scenario(server: ProviderServer) -> None:
            store: SqliteStore = server._store  # type: ignore[assignment]
            store.submit([(Sql.PUT_FLOOR, ("only one of two values",))])
            with pytest.raises(Unavailable, match="cannot be written"):
                await server.create(CreateRequest("m-1"))
            with pytest.raises(Unavailable, match="cannot be written"):
                await server.get(GetRequest("m-1"))
            assert not server.health.ready

        async def after(server: ProviderServer) -> None:
            assert await state_of(server) is State.SPECULATIVE

        life(path, at_once("m-1"), scenario)
        life(path, at_once("m-1"), after)

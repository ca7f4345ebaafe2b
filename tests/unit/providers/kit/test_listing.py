"""List: cursors, pages, filters, tombstones."""

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from hardware import Hardware, a_slot, configured, ids, serving
from mainstay.model.calls import CreateRequest, ListRequest, ProviderCalls
from mainstay.model.errors import Rejected
from mainstay.model.state import State
from mainstay.providers.kit import ledger
from mainstay.providers.kit.cursor import Place, decode, encode
from mainstay.providers.kit.local import LocalProvider
from mainstay.providers.kit.server import ProviderServer
from virtual_loop import run

FIVE = tuple(f"m-{number}" for number in range(5))


def with_five(scenario: Callable[[ProviderServer], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with serving(Hardware(*map(a_slot, FIVE))) as server:
            await scenario(server)

    run(whole())


async def pages(server: ProviderCalls, size: int, since: bytes = b"") -> list[list[str]]:
    found: list[list[str]] = []
    more = True
    while more:
        answer = await server.list(ListRequest(since=since, results_max=size))
        found.append([machine.id for machine in answer.machines])
        since, more = answer.cursor, answer.more
    return found


class TestCursors:
    def test_a_list_since_the_last_cursor_names_exactly_what_changed(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            first = await server.list(ListRequest())
            assert (len(first.machines), first.full, first.more) == (5, True, False)
            await server.create(CreateRequest("m-3"))
            delta = await server.list(ListRequest(since=first.cursor))
            assert ([m.id for m in delta.machines], delta.full) == (["m-3"], False)
            assert delta.cursor != first.cursor

        with_five(scenario)

    def test_a_quiet_provider_has_nothing_new_and_keeps_its_cursor(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            first = await server.list(ListRequest())
            await asyncio.sleep(3600)
            later = await server.list(ListRequest(since=first.cursor))
            assert (later.machines, later.cursor) == ([], first.cursor)

        with_five(scenario)

    def test_every_older_cursor_still_gives_all_later_changes(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            cursors = []
            for machine in FIVE:
                cursors.append((await server.list(ListRequest())).cursor)
                await server.create(CreateRequest(machine))
            for place, cursor in enumerate(cursors):
                assert await ids(server, since=cursor) == [*FIVE[place:]]

        with_five(scenario)

    @pytest.mark.parametrize("junk", [b"", b"12", b"\x00\xff", b"x" * 4096, b"lab.1.1.", b"..."])
    def test_a_cursor_that_is_not_known_means_a_full_list(self, junk: bytes) -> None:
        async def scenario(server: ProviderServer) -> None:
            answer = await server.list(ListRequest(since=junk))
            assert (len(answer.machines), answer.full) == (5, True)

        with_five(scenario)

    def test_a_cursor_that_was_touched_means_a_full_list(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            good = (await server.list(ListRequest())).cursor
            flipped = [good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :] for n in range(len(good))]
            for cursor in (good + b"!", b"~" + good, good + b"\x00\xff", *flipped):
                assert (await server.list(ListRequest(since=cursor))).full

        with_five(scenario)

    def test_a_cursor_of_another_store_or_of_the_future_means_a_full_list(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            for cursor in (encode("other", Place(1, 1)), encode("lab", Place(99, 99))):
                assert (await server.list(ListRequest(since=cursor))).full

        with_five(scenario)

    def test_a_cursor_says_where_it_is(self) -> None:
        assert decode("lab", encode("lab", Place(7, 9))) == Place(7, 9)


class TestPages:
    @pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
    def test_pages_name_every_machine_once_and_respect_their_size(self, size: int) -> None:
        async def scenario(server: ProviderServer) -> None:
            found = await pages(server, size)
            assert sorted(name for page in found for name in page) == [*FIVE]
            assert max(map(len, found)) <= size

        with_five(scenario)

    def test_a_machine_that_changes_between_pages_is_not_missed(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            first = await server.list(ListRequest(results_max=2))
            await server.create(CreateRequest("m-0"))
            rest = await pages(server, 2, first.cursor)
            assert [name for page in rest for name in page] == ["m-2", "m-3", "m-4", "m-0"]

        with_five(scenario)

    def test_only_the_first_page_of_a_full_list_is_full(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            first = await server.list(ListRequest(results_max=2))
            second = await server.list(ListRequest(results_max=2, since=first.cursor))
            assert (first.full, first.more, second.full) == (True, True, False)

        with_five(scenario)

    def test_a_negative_size_is_refused(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            with pytest.raises(Rejected, match="zero or more: -1"):
                await server.list(ListRequest(results_max=-1))

        with_five(scenario)


class TestFilters:
    def test_states_are_an_exact_union(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            await configured(server, "m-0")
            await server.create(CreateRequest("m-1"))
            await asyncio.sleep(2)
            await server.create(CreateRequest("m-2"))
            one = await ids(server, states=frozenset({State.IDLE}))
            several = await ids(server, states=frozenset({State.IDLE, State.CONFIGURED}))
            assert (one, several) == (["m-1"], ["m-0", "m-1"])

        with_five(scenario)


class TestTombstones:
    def test_a_machine_that_is_gone_is_named_to_everybody_who_knew_it(self) -> None:
        hardware = Hardware(*map(a_slot, FIVE))

        async def scenario() -> None:
            async with serving(hardware) as server:
                known = await server.list(ListRequest())
                del hardware.there["m-2"]
                await server.reconcile()
                delta = await server.list(ListRequest(since=known.cursor))
                assert (delta.tombstones, delta.machines) == (("m-2",), [])
                after = await server.list(ListRequest(since=delta.cursor))
                assert after.tombstones == ()
                assert (await server.list(ListRequest())).tombstones == ()

        run(scenario())

    def test_a_machine_that_went_between_pages_is_named_by_the_last_one(self) -> None:
        hardware = Hardware(*map(a_slot, FIVE))

        async def scenario() -> None:
            async with serving(hardware) as server:
                first = await server.list(ListRequest(results_max=2))
                del hardware.there["m-0"]
                await server.reconcile()
                second = await server.list(ListRequest(results_max=2, since=first.cursor))
                last = await server.list(ListRequest(results_max=2, since=second.cursor))
                assert (second.tombstones, last.tombstones) == ((), ("m-0",))

        run(scenario())

    def test_a_cursor_older_than_the_forgotten_tombstones_means_a_full_list(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger, "TOMBSTONES_MAX", 2)
        hardware = Hardware(*map(a_slot, FIVE))

        async def scenario() -> None:
            async with serving(hardware) as server:
                old = (await server.list(ListRequest())).cursor
                for name in ("m-0", "m-1", "m-2"):
                    del hardware.there[name]
                    await server.reconcile()
                assert (await server.list(ListRequest(since=old))).full
                paged = await pages(server, 1)
                assert sorted(name for page in paged for name in page) == ["m-3", "m-4"]

        run(scenario())


class TestInProcess:
    def test_a_shard_gets_one_batch_whatever_it_asks_for(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            provider = LocalProvider(server)
            batch = await provider.list(ListRequest(results_max=2))
            assert (len(batch), batch.full, batch.source) == (5, True, "lab")
            await provider.create(CreateRequest("m-1"))
            delta = await provider.list(ListRequest(since=batch.cursor))
            assert (len(delta), delta.full) == (1, False)
            assert np.array_equal(delta.state, [State.CREATING])

        with_five(scenario)

    def test_it_declares_what_it_can(self) -> None:
        async def scenario(server: ProviderServer) -> None:
            told = server.capabilities
            assert (told.paging, told.incremental, told.tombstones) == (True, True, True)
            assert told.deletable == Hardware.deletable

        with_five(scenario)

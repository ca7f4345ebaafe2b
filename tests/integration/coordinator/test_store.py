"""What every store of a coordinator does: one suite, on real members of etcd and on a file."""

import asyncio
import itertools
from pathlib import Path

import pytest

from mainstay.coordinator import etcd
from mainstay.coordinator.store import (
    CHANGE_BYTES_MAX,
    OPERATIONS_MAX,
    Change,
    Deposed,
    Leader,
    Overtaken,
    TooLarge,
)
from mainstay.model.errors import Rejected
from stores import Backend, held, on_a_file, on_etcd


@pytest.fixture(params=["embedded", pytest.param("etcd", marks=pytest.mark.needs("etcd-server"))])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "embedded":
        return on_a_file(tmp_path / "coordinator.db")
    return on_etcd(request.getfixturevalue("etcd_cluster"))


def test_what_is_put_is_there_and_what_is_deleted_is_gone(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        _, leads = await stage.led()
        first = await leads.commit(Change(puts={"a": b"1", "b": b"2"}))
        second = await leads.commit(Change(puts={"a": b"3"}, deletes=frozenset({"b", "never"})))

        found = await stage.open().load()
        assert second > first
        assert {key: tuple(entry) for key, entry in found.entries.items()} == {"a": (b"3", second)}
        assert found.revision == second

    backend.run(scenario)


def test_values_are_kept_to_the_byte_and_keys_to_the_letter(backend: Backend) -> None:
    values = {"bytes": bytes(range(256)), "empty": b"", "ключ/%2F": b"\0", "leader": b"\xff"}

    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        await leads.commit(Change(puts=values))

        assert await held(store) == values

    backend.run(scenario)


def test_a_change_is_made_only_when_every_key_is_as_it_expects(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        made = await leads.commit(Change(puts={"a": b"1"}, expects={"a": 0, "b": 0}))

        for expects in ({"a": 0}, {"a": made + 1}, {"a": made, "b": made}):
            with pytest.raises(Overtaken) as refused:
                await leads.commit(Change(puts={"a": b"2", "c": b"2"}, expects=expects))
            assert "revision" in refused.value.message
        assert await held(store) == {"a": b"1"}

        await leads.commit(Change(deletes=frozenset({"a"}), expects={"a": made, "b": 0}))
        assert await held(store) == {}

    backend.run(scenario)


def test_expecting_alone_writes_nothing(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        _, leads = await stage.led()
        made = await leads.commit(Change(puts={"a": b"1"}))

        assert await leads.commit(Change(expects={"a": made})) == made
        assert await leads.commit(Change()) == made

    backend.run(scenario)


def test_of_two_writers_that_expect_the_same_one_is_overtaken(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        made = await leads.commit(Change(puts={"a": b"0"}))

        async def written(value: bytes) -> str:
            try:
                await leads.commit(Change(puts={"a": value}, expects={"a": made}))
            except Overtaken:
                return "overtaken"
            return "written"

        async with asyncio.TaskGroup() as tasks:
            rivals = [tasks.create_task(written(str(n).encode())) for n in range(8)]
        told = [rival.result() for rival in rivals]
        assert sorted(told) == ["overtaken"] * 7 + ["written"]
        assert await held(store) == {"a": str(told.index("written")).encode()}

    backend.run(scenario)


def test_a_change_that_is_too_large_is_refused_whole(backend: Backend) -> None:
    many = {f"k{number}": b"" for number in range(OPERATIONS_MAX)}
    too_large = (
        Change(puts=many, deletes=frozenset({"one more"})),
        Change(puts=many, expects={"k1": 0}),
        Change(puts={"a": b"x" * CHANGE_BYTES_MAX}),
    )

    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        for change in too_large:
            with pytest.raises(TooLarge, match="at most"):
                await leads.commit(change)
        for change in (
            Change(puts={"a": b"1"}, deletes=frozenset({"a"})),
            Change(puts={"b": b"1", "\ud800": b"1"}),
        ):
            with pytest.raises(Rejected):
                await leads.commit(change)
        assert await held(store) == {}

        await leads.commit(Change(puts=many))
        await leads.commit(Change(puts={"a": b"x" * (CHANGE_BYTES_MAX - 1)}))
        assert len(await held(store)) == OPERATIONS_MAX + 1

    backend.run(scenario)


def test_while_one_leads_no_other_can(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led("first")
        other = stage.open()

        assert await other.campaign(candidate="second", address="second:1") is None
        assert await store.campaign(candidate="first", address="first:1") is None
        assert await other.leader() == Leader("first", "first:1", leads.term)
        assert not await other.leaderless(patience_s=0.1)

    backend.run(scenario)


def test_a_renewed_lease_holds_and_one_that_is_not_renewed_ends(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led("first")
        await leads.renew()
        assert await store.leader()

        await stage.let_leases_end()
        assert await store.leader() is None
        for late in (leads.renew(), leads.commit(Change(puts={"a": b"late"}))):
            with pytest.raises(Deposed):
                await late
        assert await held(store) == {}

    backend.run(scenario)


def test_a_deposed_leader_cannot_write_however_late(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        _, old = await stage.led("old")
        await old.commit(Change(puts={"a": b"old"}))
        await stage.let_leases_end()
        store, new = await stage.led("new")

        assert new.term > old.term
        for late in (old.commit(Change(puts={"a": b"late"})), old.commit(Change()), old.renew()):
            with pytest.raises(Deposed):
                await late
        with pytest.raises(Deposed):  # although what it expects is not so either
            await old.commit(Change(puts={"a": b"late"}, expects={"a": 999}))
        await old.resign()
        assert await store.leader() == Leader("new", "new:1", new.term)
        assert await held(store) == {"a": b"old"}

    backend.run(scenario)


def test_whoever_resigns_makes_room_at_once_and_terms_grow(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        terms = []
        for candidate in ("a", "b", "a"):
            store, leads = await stage.led(candidate, lease_s=3_600.0)
            terms.append(leads.term)
            waiting = asyncio.ensure_future(stage.open().leaderless(patience_s=20.0))
            await asyncio.sleep(0)
            await leads.resign()
            assert await waiting
            assert await store.leader() is None
            with pytest.raises(Deposed):
                await leads.commit(Change(puts={"a": b"late"}))
        assert terms == sorted(set(terms))

    backend.run(scenario)


def test_the_store_outlives_those_who_have_it_open(backend: Backend) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        made = await leads.commit(Change(puts={"a": b"1"}))
        await store.close()

        again = stage.open()
        assert (await again.load()).entries == {"a": (b"1", made)}
        assert await again.leader() == Leader("a", "a:1", leads.term)

    backend.run(scenario)


def test_a_load_is_of_one_revision_although_it_is_written_to(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every change writes all keys alike: a load that mixes two revisions shows two values."""
    monkeypatch.setattr(etcd, "PAGE_ENTRIES", 7)
    keys = [f"k{number:02d}" for number in range(30)]

    async def scenario(stage: Backend) -> None:
        _, leads = await stage.led()
        reader = stage.open()
        await leads.commit(Change(puts=dict.fromkeys(keys, b"-")))
        is_read = asyncio.Event()

        async def write() -> None:
            for number in itertools.count():
                await leads.commit(Change(puts=dict.fromkeys(keys, str(number).encode())))
                if is_read.is_set():
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write())
            revisions = []
            for _ in range(20):
                found = await reader.load()
                assert sorted(found.entries) == keys
                assert len(set(found.entries.values())) == 1
                assert found.entries["k00"].revision <= found.revision
                revisions.append(found.revision)
            is_read.set()
        assert revisions == sorted(revisions)
        assert len(set(revisions)) > 1

    backend.run(scenario)

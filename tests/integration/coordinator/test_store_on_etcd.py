"""What only a replicated store has to bear: members that die, and more than one page."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aetcd import rpc

from etcd_servers import EtcdServers
from mainstay.coordinator.etcd import EtcdStore
from mainstay.coordinator.store import OPERATIONS_MAX, Change
from mainstay.model.errors import Rejected, Unavailable
from stores import Backend, held, on_etcd, patiently

pytestmark = pytest.mark.needs("etcd-server")


@pytest.fixture
def cluster(etcd_cluster: EtcdServers) -> Iterator[EtcdServers]:
    """All of it runs before a test and after it."""
    yield etcd_cluster
    etcd_cluster.start_missing()


def test_a_hundred_thousand_entries_are_loaded_in_pages(cluster: EtcdServers) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led(lease_s=3_600.0)
        turns = asyncio.Semaphore(64)

        async def filled(first: int) -> None:
            async with turns:
                numbers = range(first, first + OPERATIONS_MAX)
                await leads.commit(Change(puts={f"k{n:06d}": b"v" * 64 for n in numbers}))

        async with asyncio.TaskGroup() as tasks:
            for first in range(0, 100_000, OPERATIONS_MAX):
                tasks.create_task(filled(first))
        entries = (await store.load()).entries
        assert len(entries) == 100_000
        assert entries["k099999"].value == b"v" * 64

    on_etcd(cluster, call_s=20.0).run(scenario)


def test_nothing_stops_when_a_member_is_killed(cluster: EtcdServers) -> None:
    """Here the one that is asked and leads the others: a call under way may fail, no later one."""
    killed = cluster.leader()

    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        await leads.commit(Change(puts={"before": b"1"}))
        cluster.kill(killed)
        await patiently(lambda: leads.commit(Change(puts={"during": b"1"})))
        await leads.renew()

        assert await held(store) == {"before": b"1", "during": b"1"}

    on_etcd(cluster, first=killed).run(scenario)


def test_without_a_majority_nothing_is_answered_and_all_is_there_afterwards(
    cluster: EtcdServers,
) -> None:
    async def scenario(stage: Backend) -> None:
        store, leads = await stage.led()
        await leads.commit(Change(puts={"before": b"1"}))
        cluster.kill(0, 1)
        for call in (
            store.load(),
            store.leader(),
            store.leaderless(patience_s=0.1),
            store.campaign(candidate="b", address=""),
            leads.renew(),
            leads.commit(Change(puts={"during": b"1"}, expects={"during": 0})),
        ):
            with pytest.raises(Unavailable, match="etcd at") as refused:
                await call
            assert type(refused.value) is Unavailable
        await leads.resign()

        cluster.start(0, 1)
        found = await patiently(store.load)
        assert found.entries["before"].value == b"1"
        assert await store.leaderless(patience_s=10.0)
        _, again = await stage.led("again")
        assert again.term > leads.term

    on_etcd(cluster, call_s=0.3).run(scenario)


def test_a_record_that_no_leader_wrote_is_refused(cluster: EtcdServers) -> None:
    async def scenario(stage: Backend) -> None:
        store = stage.open()
        assert isinstance(store, EtcdStore)
        put = rpc.PutRequest(key=store._leader_key, value=b"{")
        await store._members.once(lambda member: member.kv.Put(put))
        with pytest.raises(Rejected, match="not the record of a leader"):
            await store.leader()

    on_etcd(cluster).run(scenario)


def test_an_address_where_nobody_is_passes_for_an_outage() -> None:
    async def scenario() -> None:
        store = EtcdStore(["http://127.0.0.1:1"], prefix="x")
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
            await store.load()
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("endpoints", "changes", "why"),
    [
        ([], {}, "no endpoint"),
        (["127.0.0.1:2379"], {}, "not an endpoint"),
        (["http://127.0.0.1"], {}, "not an endpoint"),
        (["http://127.0.0.1:nine"], {}, "not an endpoint"),
        (["http://127.0.0.1:2379/v3"], {}, "not an endpoint"),
        (["https://127.0.0.1:2379"], {}, "https needs certificate"),
        (["http://127.0.0.1:2379"], {"lease_s": 1.9}, "2.0 s or more"),
        (["http://127.0.0.1:2379"], {"prefix": "/"}, "not a prefix"),
    ],
)
def test_a_wrong_setting_of_etcd_is_refused_before_anything_is_asked(
    endpoints: list[str], changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(Rejected, match=why):
        EtcdStore(endpoints, **{"prefix": "x", **changes})

"""A snapshot is all there is, in a form that BigFleet reads; a restore is all of it or nothing."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from coordinating import EAST, NOW, A, B
from mainstay.coordinator import archive, commands, keys, records, snapshots
from mainstay.coordinator.archive import Archive, Meta
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.records import MetaRecord
from mainstay.coordinator.snapshots import Restoring
from mainstay.coordinator.store import Change, Leadership, Store
from mainstay.model.errors import Rejected, Unavailable, Unknown
from mainstay.model.ids import ClusterId
from mainstay.runtime.clock import StepClock
from reigns import START_S, Stage, a_report, on_stage, taking

THEIRS: Final = {
    "shards": [
        {"ID": "a", "Address": "h:1", "RegisteredAt": "2026-01-02T03:04:05.5Z",
         "LastHeartbeat": "0001-01-01T00:00:00Z"},
        {"ID": "b", "Address": "h:2", "RegisteredAt": "0001-01-01T00:00:00Z"},
    ],
    "cluster_to_shard": {"web": "b"},
    "domain_to_shard": [
        {"domain": {"Key": "zone", "Value": "east"}, "shard": "a"},
        {"domain": {"Key": "zone", "Value": "west"}, "shard": "b"},
    ],
    "quotas": {"of": "an older version"},
}  # fmt: skip


def of_theirs(**changes: Any) -> Archive:
    return archive.packed(Meta("1-7-99", 7, 3), json.dumps({**THEIRS, **changes}).encode())


async def with_a_domain(stage: Stage) -> None:
    clusters = {A: (ClusterId("web"),), B: ()}
    for shard in (A, B):
        await stage.reigning.carry_out(taking(a_report(shard, clusters=clusters[shard])))
    await stage.reigning.one(lambda fleet: commands.assign_domain(fleet, EAST, A, NOW))


def on_empty(folder: Path, scenario: Callable[[EmbeddedStore], Awaitable[None]]) -> None:
    async def played() -> None:
        store = EmbeddedStore(folder / "other.db", clock=StepClock(START_S))
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(played())


def by(*, replace: bool = False) -> Restoring:
    async def sleep(_: float) -> None:
        pass

    return Restoring(candidate="restore", clock=StepClock(), sleep=sleep, replace=replace)


async def led(store: Store) -> Leadership:
    leadership = await store.campaign(candidate="x", address="")
    assert leadership is not None
    return leadership


def test_a_snapshot_is_what_bigfleet_reads_and_all_of_ours_beside_it(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_a_domain(stage)
        taken = await snapshots.saved(stage.store, term=4, now_s=START_S)

        meta, told = archive.checked(taken), json.loads(taken.state)

        assert (meta.term, meta.index) == (4, (await stage.store.load()).revision)
        assert [row["ID"] for row in told["shards"]] == ["a", "b"]
        assert told["shards"][0]["RegisteredAt"] == "2023-11-14T22:13:20.000000000Z"
        assert told["cluster_to_shard"] == {"web": "a"}
        assert told["domain_to_shard"] == [
            {"domain": {"Key": "zone", "Value": "east"}, "shard": "a"}
        ]
        assert told["mainstay"].keys() == (await stage.store.load()).entries.keys()

    on_stage(tmp_path, scenario)


def test_of_nothing_there_is_no_snapshot(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(Unknown, match="nothing to take a snapshot of"):
            await snapshots.saved(stage.store, term=1, now_s=START_S)

    on_stage(tmp_path, scenario)


def test_what_is_restored_is_what_was_saved_and_terms_only_grow(tmp_path: Path) -> None:
    saved: list[Archive] = []
    before: list[dict[str, bytes]] = []

    async def save(stage: Stage) -> None:
        await with_a_domain(stage)
        saved.append(await snapshots.saved(stage.store, term=700, now_s=START_S))
        entries = (await stage.store.load()).entries
        before.append({key: entry.value for key, entry in entries.items()})

    async def restore(store: EmbeddedStore) -> None:
        done = await snapshots.restore(store, snapshots.restorable(saved[0]), by())

        entries = (await store.load()).entries
        after = {key: entry.value for key, entry in entries.items()}
        fleet = Fleet.from_entries(entries)
        assert after.pop(keys.META) == records.encode(MetaRecord(term_base=done.term_base))
        assert after == {key: value for key, value in before[0].items() if key != keys.META}
        assert fleet.meta.term_base + (await led(store)).term > 700

    on_stage(tmp_path, save)
    on_empty(tmp_path, restore)


def test_a_large_state_is_restored_in_many_changes(tmp_path: Path) -> None:
    shards = [{"ID": f"s-{number}", "Address": "h:1"} for number in range(250)]
    domains = [
        {"domain": {"Key": "zone", "Value": f"z-{number}"}, "shard": f"s-{number}"}
        for number in range(250)
    ]
    large = of_theirs(shards=shards, cluster_to_shard={}, domain_to_shard=domains)

    async def restore(store: EmbeddedStore) -> None:
        said: list[str] = []
        telling = replace(by(), told=said.append)
        done = await snapshots.restore(store, snapshots.restorable(large), telling)

        assert said[0] == "waiting to lead the store"
        assert said[-1] == "750 of 750 records"
        assert 2 < len(said) <= 1 + snapshots.TOLD
        fleet = Fleet.from_entries((await store.load()).entries)
        assert (done.records, len(fleet.shards), len(fleet.domains)) == (750, 250, 250)

    on_empty(tmp_path, restore)


def test_a_snapshot_of_bigfleet_tells_every_shard_of_its_domains(tmp_path: Path) -> None:
    async def restore(store: EmbeddedStore) -> None:
        await snapshots.restore(store, snapshots.restorable(of_theirs()), by())

        fleet = Fleet.from_entries((await store.load()).entries)
        assert {name: record.address for name, record in fleet.shards.items()} == {
            "a": "h:1", "b": "h:2",
        }  # fmt: skip
        assert fleet.shards[A].registered_at_ns == 1_767_323_045_500_000_000
        assert fleet.shards[B].registered_at_ns == 0
        assert fleet.clusters[ClusterId("web")].shard == B
        assert fleet.domains[EAST].shard == A
        assert [type(each.payload).__name__ for _, each in fleet.pending(A)] == ["AssignDomain"]
        assert fleet.meta.term_base >= 3

    on_empty(tmp_path, restore)


DAMAGED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a list instead of an object": ({"shards": {}}, "shards is not a list"),
    "a shard without a name": ({"shards": [{"Address": "h:1"}]}, "a shard with the id"),
    "a domain of nobody": (
        {"domain_to_shard": [{"domain": {"Key": "k", "Value": "v"}, "shard": "z"}]},
        "domain k=v is of no shard: z",
    ),
    "a cluster of nobody": ({"cluster_to_shard": {"web": 7}}, "cluster web is of no shard: 7"),
    "a domain without a value": (
        {"domain_to_shard": [{"domain": {"Key": "k"}, "shard": "a"}]}, "a domain of",
    ),
    "a time that is none": ({"shards": [{"ID": "a", "RegisteredAt": "now"}]}, "not a time: now"),
    "records that are none": ({"mainstay": []}, "mainstay is not a JSON object"),
    "a key that is none": ({"mainstay": {"nonsense/x": {}}}, "nonsense"),
    "a record that is none": ({"mainstay": {"shard/a": {"x": 1}}}, "shard/a"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_state_is_refused_in_one_line(name: str) -> None:
    changes, why = DAMAGED[name]

    with pytest.raises(Rejected, match=why) as refused:
        snapshots.restorable(of_theirs(**changes))

    assert "\n" not in refused.value.message


def test_a_store_that_is_not_empty_is_overwritten_only_when_that_is_said(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await with_a_domain(stage)
        await stage.leadership.resign()
        before = await stage.store.load()
        wanted = snapshots.restorable(of_theirs(domain_to_shard=[]))

        with pytest.raises(Rejected, match="the store holds 6 records"):
            await snapshots.restore(stage.store, wanted, by())
        assert (await stage.store.load()).entries == before.entries
        done = await snapshots.restore(stage.store, wanted, by(replace=True))

        fleet = Fleet.from_entries((await stage.store.load()).entries)
        assert (done.replaced, dict(fleet.domains), len(fleet.shards)) == (6, {}, 2)

    on_stage(tmp_path, scenario)


def test_nothing_is_restored_while_somebody_leads(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        before = await stage.store.load()

        with pytest.raises(Rejected, match="c-0 leads: stop every coordinator"):
            await snapshots.restore(stage.store, snapshots.restorable(of_theirs()), by())

        assert await stage.store.load() == before

    on_stage(tmp_path, scenario)


class Failing:
    """A store whose leader fails at one write."""

    def __init__(self, store: EmbeddedStore, at: int) -> None:
        self._store, self._left = store, at
        self.lease_s, self.label = store.lease_s, store.label
        self.load, self.leader = store.load, store.leader
        self.leaderless, self.close = store.leaderless, store.close

    async def campaign(self, *, candidate: str, address: str) -> Leadership | None:
        found = await self._store.campaign(candidate=candidate, address=address)
        return None if found is None else FailingLeadership(found, self)

    def count_down(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unavailable("the power went out")


class FailingLeadership:
    def __init__(self, real: Leadership, store: Failing) -> None:
        self._real, self._store = real, store
        self.term, self.renew, self.resign = real.term, real.renew, real.resign

    async def commit(self, change: Change) -> int:
        self._store.count_down()
        return await self._real.commit(change)


@pytest.mark.parametrize("writes", [1, 2])
def test_a_restore_that_was_cut_short_is_seen_as_such_and_can_be_run_again(
    tmp_path: Path, writes: int
) -> None:
    async def restore(store: EmbeddedStore) -> None:
        wanted = snapshots.restorable(of_theirs())

        with pytest.raises(Unavailable):
            await snapshots.restore(Failing(store, writes), wanted, by())
        with pytest.raises(Rejected, match="begun and not ended"):
            snapshots.refuse_half_restored((await store.load()).entries)
        with pytest.raises(Unavailable, match="being restored"):
            await snapshots.saved(store, term=1, now_s=START_S)
        await snapshots.restore(store, wanted, by())

        entries = (await store.load()).entries
        snapshots.refuse_half_restored(entries)
        assert len(Fleet.from_entries(entries).shards) == 2

    on_empty(tmp_path, restore)

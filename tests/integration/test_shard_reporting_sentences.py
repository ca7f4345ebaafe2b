"""What a shard reports over its real services and pages, about what it really does."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc
import pytest

from mainstay.model.calls import ListRequest
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from mainstay.model.questions import (
    About,
    LiftControlRequest,
    Question,
    SetControlRequest,
    WhatIfQuery,
)
from mainstay.model.state import State
from mainstay.model.views import (
    ActionQuery,
    ClusterQuery,
    ControlQuery,
    MachineQuery,
    MachineRow,
    NeedQuery,
    ProviderQuery,
    ShortfallQuery,
    SummaryQuery,
)
from mainstay.wire.pb.bigfleet.v1alpha1 import shardread_pb2 as pb
from mainstay.wire.shard_read_server import READ_SERVICE
from mainstay.wire.shard_view_client import RemoteShard
from mainstay.wire.transport import open_channel
from served_shard import Served, instant, served, until
from shard_over_sim import OFFER

WEB: Final = ClusterId("web")


def needs(machines: int, *, priority: int = 100, cluster: str = "web") -> Need:
    return Need(
        cluster=ClusterId(cluster),
        profile=NeedProfile(priority=priority),
        aggregate={"cpu": machines * 2_000},
        min_unit={"cpu": 2_000},
    )


async def machines(remote: RemoteShard, query: MachineQuery | None = None) -> list[MachineRow]:
    return [row async for rows in remote.machines(query or MachineQuery()) for row in rows.rows]


def serve(remote: RemoteShard, count: int) -> Callable[[], object]:
    """Asks whether so many machines serve."""

    async def said() -> bool:
        found = await machines(remote, MachineQuery(states=(State.CONFIGURED,)))
        return len(found) == count

    return said


async def next_cycles(remote: RemoteShard, count: int = 2) -> None:
    """Until the shard has decided so many more times."""
    before = (await remote.summary(SummaryQuery())).stamp.cycle

    async def later() -> bool:
        return (await remote.summary(SummaryQuery())).stamp.cycle >= before + count

    await until(later)


def test_every_question_is_answered_with_what_is_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, instant(idle=4)) as shard, shard.asked() as remote:
            async with shard.cluster() as web, shard.cluster("batch") as batch:
                web.set_needs([needs(3)])
                await until(serve(remote, 3))
                batch.set_needs([needs(2, priority=5, cluster="batch")])
                await until(serve(remote, 4))
                await next_cycles(remote)
                await rows_are_true(remote, shard)
                await summary_is_true(remote)
                await reasons_are_given(remote)
                await peers_are_answered(shard)

    asyncio.run(scenario())


async def rows_are_true(remote: RemoteShard, shard: Served) -> None:
    """Machines as the provider has them, demand as it was asked for, and what became of both."""
    known = {
        m.id: (m.state, m.cluster) for m in (await shard.sim.calls.list(ListRequest())).machines
    }
    found = await machines(remote)
    assert {row.id: (row.state, row.cluster) for row in found} == known
    assert Counter(row.cluster for row in found) == {"web": 3, "batch": 1}
    for row in found:
        assert (row.instance_type, row.zone) == (OFFER.instance_type, OFFER.zone)
        assert (row.capacity_type, row.provider) == ("Reserved", "sim")

    high, low = (await remote.needs(NeedQuery())).rows
    assert (high.cluster, high.priority, high.asked, high.missing) == ("web", 100, {"cpu": "6"}, {})
    assert (low.cluster, low.asked, low.missing) == ("batch", {"cpu": "4"}, {"cpu": "2"})
    assert (high.machines, low.machines, bool(low.reason)) == (3, 1, True)

    (short,) = (await remote.shortfalls(ShortfallQuery())).rows
    assert (short.missing, short.clusters, short.needs) == ({"cpu": "2"}, ("batch",), 1)
    assert short.fingerprint == low.fingerprint
    assert short.age >= 2

    clusters = {row.cluster: row for row in (await remote.clusters(ClusterQuery())).rows}
    assert {name: (row.connected, row.heard) for name, row in clusters.items()} == {
        "web": (True, True), "batch": (True, True),
    }  # fmt: skip
    assert clusters["web"].machines == {"Configured": 3}

    actions = (await remote.actions(ActionQuery())).rows
    assert {row.machine for row in actions} == set(known)
    assert {(row.kind, row.disposition) for row in actions} == {("bootstrap", "executed")}
    assert all(row.decided <= row.cycle for row in actions)

    (provider,) = (await remote.providers(ProviderQuery())).rows
    assert (provider.name, provider.health, provider.machines) == ("sim", "answering", 4)


async def summary_is_true(remote: RemoteShard) -> None:
    told = await remote.summary(SummaryQuery())
    assert (told.stamp.shard, told.epoch, told.not_acting) == ("shard-0", 1, "")
    assert told.machines == {"Configured": 4}
    assert (told.needs, told.unmet, told.clusters, told.connected) == (2, 1, 2, 2)
    assert (told.queued, told.in_flight, told.actions_per_minute) == (0, 0, 4.0)
    assert told.seconds.keys() == {"reconcile", "snapshot", "decide", "hints", "offer"}


async def reasons_are_given(remote: RemoteShard) -> None:
    why = await remote.explain(Question(about=About.NEED, name="batch"))
    assert "asks for cpu 4" in why.sentences[0]
    one = (await machines(remote))[0]
    assert one.id in (await remote.explain(Question(about=About.MACHINE, name=one.id))).subject
    who = await remote.explain(Question(about=About.CLUSTER, name="web"))
    assert json.loads(who.document)["heard"] is True
    lost = await remote.what_if(WhatIfQuery(lost_zones=(OFFER.zone,)))
    assert lost.unsatisfied_count == 1  # web's too
    assert (await remote.summary(SummaryQuery())).machines == {"Configured": 4}


async def peers_are_answered(shard: Served) -> None:
    """BigFleet's own question."""
    async with open_channel(shard.grpc, shard.over) as channel:
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes]
        method = channel.unary_stream(f"/{READ_SERVICE}/InspectNeeds")
        frames = [pb.InspectNeedsResponse.FromString(data) async for data in method(b"")]
    assert frames[0].header.total_needs == 2
    assert [frame.need.need.priority for frame in frames[1:]] == [100, 5]


def test_a_hundred_shortfalls_are_told_and_the_least_important_is_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with served(tmp_path, instant(idle=1)) as shard, shard.asked() as remote:
            async with shard.cluster() as web:
                rows = [
                    Need(
                        cluster=WEB,
                        profile=NeedProfile(priority=priority),
                        aggregate={"gpu": 1},
                        min_unit={"gpu": 1},
                    )
                    for priority in range(101)
                ]
                web.set_needs(rows)

                async def told() -> list[int]:
                    found = await remote.shortfalls(ShortfallQuery())
                    return [row.priority for row in found.rows]

                assert await until(told) == list(range(100, 0, -1))
                assert await shard.metric("mainstay_shard_shortfalls") == 101

    asyncio.run(scenario())


def control(**given: object) -> SetControlRequest:
    asked = {"kind": "pause", "reason": "a drill", "by": "ann", "for_s": 60.0, **given}
    return SetControlRequest(**asked)  # type: ignore[arg-type]


class TestControls:
    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"reason": ""}, "needs a reason"),
            ({"reason": " "}, "needs a reason"),
            ({"by": ""}, "needs a name"),
            ({"for_s": 0.0}, "a control lasts more than 0"),
            ({"for_s": -1.0}, "a control lasts more than 0"),
            ({"for_s": 1e12}, "a control lasts more than 0"),
            ({"kind": "stop"}, "no such control"),
            ({"kind": "reclaim_cap", "value": 0.05}, "can only restrict further"),
            ({"kind": "action_limit", "value": 7.0}, "can only restrict further"),
            ({"cluster": "a b"}, "not a cluster id"),
        ],
        ids=str,
    )
    def test_one_without_reason_or_end_or_that_loosens_is_refused_and_changes_nothing(
        self, tmp_path: Path, given: dict[str, object], why: str
    ) -> None:
        async def scenario() -> None:
            limits = {"actions_per_cycle_max": 7}
            async with served(tmp_path, **limits) as shard, shard.asked() as remote:
                with pytest.raises(Rejected, match=why):
                    await remote.set_control(control(**given))
                assert (await remote.controls(ControlQuery())).rows == ()

        asyncio.run(scenario())

    def test_one_holds_until_its_end_and_is_shown_with_who_why_and_until_when(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with served(tmp_path, instant(idle=4)) as shard, shard.asked() as remote:
                row = await remote.set_control(control(for_s=2.0))
                assert (await remote.controls(ControlQuery())).rows == (row,)
                assert (row.reason, row.by) == ("a drill", "ann")
                assert row.expires_at_s - row.set_at_s == pytest.approx(2.0)
                async with shard.cluster() as web:
                    web.set_needs([needs(2)])
                    held = {"disposition": "suppressed", "kind": "bootstrap"}
                    actions = "mainstay_shard_actions_total"

                    async def suppressed() -> bool:
                        return await shard.metric(actions, **held) >= 2

                    await until(suppressed)
                    assert await shard.metric("mainstay_shard_actuation_paused") == 1
                    assert await shard.metric(actions, disposition="executed") == 0
                    await until(serve(remote, 2))
                    assert (await remote.controls(ControlQuery())).rows == ()
                    before = await shard.metric(actions, **held)
                    assert await shard.metric(actions, disposition="executed") == 2
                    await next_cycles(remote)
                    assert await shard.metric(actions, **held) == before

        asyncio.run(scenario())

    def test_lifting_needs_a_reason_and_something_to_lift(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with served(tmp_path) as shard, shard.asked() as remote:
                with pytest.raises(Rejected, match="no such control is in force"):
                    await remote.lift_control(
                        LiftControlRequest(kind="pause", reason="over", by="ann")
                    )
                await remote.set_control(control())
                with pytest.raises(Rejected, match="needs a reason"):
                    await remote.lift_control(LiftControlRequest(kind="pause", by="ann"))
                assert len((await remote.controls(ControlQuery())).rows) == 1

        asyncio.run(scenario())


class TestPages:
    def test_it_lives_it_is_ready_it_is_measured_and_that_is_all(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with served(tmp_path) as shard:
                assert await shard.page("/healthz") == (200, "ok\n")

                async def ready() -> bool:
                    return await shard.page("/readyz") == (200, "ok\n")

                await until(ready)
                status, text = await shard.page("/metrics")
                assert status == 200
                names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
                assert {name for name in names if not name.startswith("mainstay_")} == set()
                assert "mainstay_shard_cycle_seconds" in names
                for other in ("/", "/machines", "/debug/pprof", "/metrics/"):
                    assert (await shard.page(other))[0] == 404

        asyncio.run(scenario())


class TestAttributionLog:
    @pytest.mark.parametrize("settings", [{}, {"attribution_log": True}], ids=["off", "on"])
    def test_it_is_off_unless_asked_for_and_then_says_which_need_claims_what(
        self, tmp_path: Path, settings: dict[str, bool]
    ) -> None:
        path = tmp_path / "shards" / "shard-0" / "attribution.jsonl"

        async def scenario() -> None:
            async with served(tmp_path, instant(idle=2), **settings) as shard:
                async with shard.asked() as remote, shard.cluster() as web:
                    web.set_needs([needs(2)])
                    await until(serve(remote, 2))
                    await next_cycles(remote, 3)
                    serving = [row.id for row in await machines(remote)]
                    if not settings:
                        assert not path.exists()
                        return

                    def claims() -> bool:
                        lines = path.read_text(encoding="utf-8").splitlines()
                        told = [json.loads(line) for line in lines]
                        return sorted(told[-1]["claims"]) == sorted(serving)

                    await until(claims)

        asyncio.run(scenario())

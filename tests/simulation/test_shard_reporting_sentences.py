"""What a whole shard reports, over time: readiness, shortfalls, metrics, provisioning latency."""

import asyncio
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import generate_latest

from mainstay.engine.decide import SHORTFALLS_MAX
from mainstay.model.calls import Call
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import ShortfallQuery, ShortfallRow
from mainstay.processes.shard_pages import readiness
from mainstay.providers.sim.latency import INSTANT, Latency
from mainstay.providers.sim.spec import SimSpec
from mainstay.shard.answers.view import ShardView
from talking import at_once
from virtual_loop import run
from whole_shard import WEB, Whole, a_provider, needs, running, sims

TICK_S: Final = 10.0


def an_instant_provider(*, idle: int) -> SimSpec:
    return dataclasses.replace(a_provider(slots=0, idle=idle), latencies=INSTANT)


class TestReadiness:
    @pytest.mark.parametrize("silent", ["east", "west"])
    def test_it_waits_for_the_first_list_of_every_provider_or_for_its_failure_and_stays(
        self, tmp_path: Path, silent: str
    ) -> None:
        async def scenario() -> None:
            specs = (
                a_provider(slots=0, idle=1, name="east"),
                a_provider(slots=0, idle=1, name="west", zone="west-1"),
            )
            async with sims(*specs) as providers:
                async with running(tmp_path, providers, list_timeout_s=5.0) as whole:
                    live = whole.assembled.live
                    whole.links[silent].hangs = True
                    await asyncio.sleep(4.9)
                    page = readiness(live)
                    assert page.status == 503
                    assert page.text.startswith("waiting for the first list of every provider")
                    await asyncio.sleep(0.2)
                    assert readiness(live).status == 200
                    assert len(whole.machines()) == 1
                    for hangs in (False, True):
                        for link in whole.links.values():
                            link.hangs = hangs
                        await asyncio.sleep(100)
                        assert readiness(live).status == 200

        run(scenario())


def short(count: int, *, group: str = "", priority: int = 50, gpus: int = 1) -> Need:
    """What no machine here has."""
    assert count
    return Need(
        cluster=WEB,
        profile=NeedProfile(priority=priority),
        aggregate={"gpu": count * gpus},
        min_unit={"gpu": gpus},
        group=group,
    )


async def shortfalls(whole: Whole) -> tuple[ShortfallRow, ...]:
    view = ShardView(whole.assembled.live, at_once)
    return (await view.shortfalls(ShortfallQuery())).rows


class TestShortfalls:
    def test_a_kind_of_need_is_one_row_that_ages_once_a_cycle_and_goes_when_it_is_met(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(TICK_S + 1)
                    web.roll_up([short(2, group="a"), short(3, group="b"), *needs(2)])
                    ages = []
                    for _ in range(4):
                        await asyncio.sleep(TICK_S)
                        high, low = await shortfalls(whole)
                        assert (high.priority, low.priority) == (100, 50)
                        assert (low.needs, low.missing) == (2, {"gpu": "5"})
                        assert high.missing == {"cpu": "2"}
                        ages.append((high.age, low.age, len(whole.cycles)))
                    first = ages[0]
                    steps = [tuple(age - first[at] for at, age in enumerate(a)) for a in ages]
                    assert steps == [(n, n, n) for n in range(4)]
                    web.roll_up([short(3, group="b"), *needs(1)])
                    await asyncio.sleep(TICK_S)
                    (low,) = await shortfalls(whole)
                    assert (low.needs, low.missing, low.age > ages[-1][1]) == (
                        1,
                        {"gpu": "3"},
                        True,
                    )
                    web.roll_up(needs(1))
                    await asyncio.sleep(TICK_S)
                    assert await shortfalls(whole) == ()
                    assert whole.metric("mainstay_shard_shortfalls") == 0

        run(scenario())

    @pytest.mark.parametrize("kinds", [SHORTFALLS_MAX, SHORTFALLS_MAX + 1])
    def test_a_hundred_are_told_the_most_important_first_and_all_are_counted(
        self, tmp_path: Path, kinds: int
    ) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.roll_up([short(1, priority=number) for number in range(kinds)])
                    await asyncio.sleep(2 * TICK_S)
                    found = [row.priority for row in await shortfalls(whole)]
                    assert found == list(range(kinds - 1, kinds - 101, -1))
                    assert whole.metric("mainstay_shard_shortfalls") == kinds
                    bands = Counter(
                        {
                            band: whole.metric("mainstay_shard_shortfalls_aged", bucket=band)
                            for band in ("1-9", "10-59", "60-299", "300+")
                        }
                    )
                    assert +bands == {"1-9": kinds}

        run(scenario())

    def test_of_two_as_important_the_older_comes_first(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(an_instant_provider(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    kinds = [
                        dataclasses.replace(
                            short(1),
                            profile=NeedProfile(priority=50, interruption_penalty_bucket=bucket),
                        )
                        for bucket in (1, 2, 3)
                    ]
                    for begun in ((1,), (1, 0), (1, 0, 2)):
                        web.roll_up([kinds[number] for number in begun])
                        await asyncio.sleep(TICK_S)
                    rows = await shortfalls(whole)
                    order = [kinds[number].profile.fingerprint for number in (1, 0, 2)]
                    assert [row.fingerprint for row in rows] == order
                    assert len({row.age for row in rows}) == 3

        run(scenario())


class TestProvisioningLatency:
    STEPS: Final = {**INSTANT, Call.CREATE: Latency(40.0, 0.0), Call.CONFIGURE: Latency(20.0, 0.0)}

    def test_it_is_from_the_first_roll_up_that_asks_to_a_machine_that_serves_and_is_taken_once(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            spec = dataclasses.replace(a_provider(slots=4), latencies=self.STEPS)
            async with sims(spec) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    loop = asyncio.get_running_loop()
                    await asyncio.sleep(TICK_S + 1)
                    began_s = loop.time()
                    web.ask_for(2)
                    while not whole.machines(State.CONFIGURED):  # noqa: ASYNC110
                        await asyncio.sleep(0.5)
                    took_s = loop.time() - began_s
                    assert took_s >= 60
                    await asyncio.sleep(50)
                    assert len(whole.machines(State.CONFIGURED)) == 2
                    count, sum_s = seen(whole)
                    assert (count, abs(sum_s - took_s) <= 0.5) == (1, True)

                    web.ask_for(2)  # seen anew: the next machine is measured from here
                    await asyncio.sleep(100)
                    web.ask_for(2)
                    web.ask_for(3)
                    await asyncio.sleep(100)
                    count, sum_s = seen(whole)
                    assert count == 2
                    assert sum_s > took_s + 100

        run(scenario())

    def test_roll_ups_that_repeat_the_demand_do_not_begin_the_wait_anew(
        self, tmp_path: Path
    ) -> None:
        async def scenario() -> None:
            spec = dataclasses.replace(a_provider(slots=1), latencies=self.STEPS)
            async with sims(spec) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    await asyncio.sleep(TICK_S + 1)
                    for _ in range(10):
                        web.ask_for(1)
                        await asyncio.sleep(10)
                    assert len(whole.machines(State.CONFIGURED)) == 1
                    count, sum_s = seen(whole)
                    assert (count, sum_s >= 60) == (1, True)

        run(scenario())

    def test_what_is_no_longer_asked_for_is_no_longer_waited_for(self, tmp_path: Path) -> None:
        """Asked for, given up, asked for again: the wait is that of the second time."""

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=1)) as providers:
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.line.answers = False
                    web.ask_for(1)
                    await asyncio.sleep(200)
                    web.ask_for(0)
                    await asyncio.sleep(100)
                    web.line.answers = True
                    web.ask_for(1)
                    await asyncio.sleep(100)
                    count, sum_s = seen(whole)
                    assert count == 1
                    assert sum_s <= 100

        run(scenario())


def seen(whole: Whole) -> tuple[float, float]:
    """How many samples there are, and their sum."""
    name = "mainstay_shard_provisioning_seconds"
    return whole.metric(f"{name}_count"), whole.metric(f"{name}_sum")


class TestMetrics:
    def test_no_cluster_machine_or_kind_of_need_is_ever_a_label(self, tmp_path: Path) -> None:
        """So there are no more series however many of them come."""

        async def come(whole: Whole, numbers: range) -> None:
            for number in numbers:
                async with whole.cluster(f"cluster-{number}") as cluster:
                    cluster.ask_for(1, priority=number)
                    await asyncio.sleep(0.5)
            await asyncio.sleep(TICK_S)

        async def scenario() -> None:
            async with sims(an_instant_provider(idle=30)) as providers:
                async with running(tmp_path, providers, decision_audit_every=0) as whole:
                    await come(whole, range(12))
                    series = self.lines(whole)
                    await come(whole, range(12, 30))
                    assert self.lines(whole) == series
                    page = generate_latest(whole.metrics.registry).decode()
                    serving = {m.id for m in whole.machines(State.CONFIGURED)}
                    assert len(serving) == 30
                    for word in ("cluster-", *serving, needs(1)[0].profile.fingerprint):
                        assert word not in page

        run(scenario())

    def lines(self, whole: Whole) -> int:
        """How many series there are."""
        page = generate_latest(whole.metrics.registry).decode()
        return len([line for line in page.splitlines() if not line.startswith("#")])

    def test_they_mean_what_they_say(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with (
                sims(an_instant_provider(idle=9)) as providers,
                running(tmp_path, providers, workers=1) as whole,
                whole.cluster() as web,
                whole.cluster("batch") as batch,
            ):
                web.ask_for(4)
                await asyncio.sleep(3 * TICK_S)
                batch.ask_for(7)
                await asyncio.sleep(3 * TICK_S)

                def machines(state: State) -> float:
                    return whole.metric(
                        "mainstay_shard_inventory_machines",
                        state=str(state), capacity_type="Reserved", interruption_penalty_bucket="0",
                    )  # fmt: skip

                assert (machines(State.CONFIGURED), machines(State.IDLE)) == (9, 0)
                bucket = {"interruption_penalty_bucket": "0"}
                assert whole.metric("mainstay_shard_demand_machines", **bucket) == 11
                assert whole.metric("mainstay_shard_shortfalls") == 1
                for name, value in {
                    "sessions_active": 2, "sessions_opened_total": 2, "ready": 1, "acting": 1,
                    "epoch": 1, "actuation_paused": 0, "shadowing": 0, "rollups_quarantined": 0,
                    "cycle_seconds_count": len(whole.cycles), "bootstrap_answer_seconds_count": 9,
                }.items():  # fmt: skip
                    assert whole.metric(f"mainstay_shard_{name}") == value, name
                done = {"kind": "bootstrap", "outcome": "success"}
                accepted = {"kind": "bootstrap", "outcome": "accepted"}
                name = "mainstay_shard_action_outcomes_total"
                assert whole.metric(name, **done) + whole.metric(name, **accepted) == 9
                assert whole.metric("mainstay_shard_provider_answering", provider="sim") == 1
                assert whole.metric("mainstay_shard_provider_machines", provider="sim") == 9

        run(scenario())

    def test_what_waits_for_a_provider_and_what_is_under_way_is_shown(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(a_provider(slots=0, idle=9)) as providers:
                async with running(tmp_path, providers, workers=2) as whole, whole.cluster() as web:
                    await asyncio.sleep(TICK_S + 1)
                    providers["sim"].change({"late_acks_s": "30"})
                    web.ask_for(5)
                    await asyncio.sleep(TICK_S)
                    depth = whole.metric("mainstay_shard_queue_depth", provider="sim")
                    assert depth == 1
                    in_flight = whole.metric("mainstay_shard_actions_in_flight", provider="sim")
                    assert in_flight == len(whole.machines(State.CONFIGURING)) > 0

        run(scenario())

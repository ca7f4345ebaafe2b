"""Lives of a shard by seed: faults, kills, changing demand, then quiet. What must hold, holds."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import outside
from mainstay.model.calls import DrainRequest, GetRequest
from mainstay.model.errors import MainstayError
from mainstay.model.state import TRANSITIONAL, State
from mainstay.providers.sim.provider import Sim
from mainstay.shard.events import Event
from virtual_loop import run
from whole_shard import Whole, a_provider, running, sims

LIVES = outside.examples(3)
CLUSTERS = ("web", "batch", "train")
DEFECTS = {Event.AUDIT_DIFFERED, Event.CYCLE_FAILED, Event.WORKER_FAILED}
HARMLESS = {
    "failures": "", "losses_per_hour": "0", "partial_lists": "0", "stale_lists": "0",
    "duplicate_acks": "0", "late_acks_s": "0", "lost_acks": "0", "price_drift": "0",
}  # fmt: skip


def trouble(random: Random) -> dict[str, str]:
    """Some of what can go wrong, at random rates."""
    return {
        "failures": f"create={random.uniform(0, 0.2):.3f},configure={random.uniform(0, 0.1):.3f}",
        "losses_per_hour": f"{random.uniform(0, 0.5):.3f}",
        "partial_lists": f"{random.choice([0, 0.01, 0.3]):.3f}",
        "stale_lists": f"{random.uniform(0, 0.3):.3f}",
        "duplicate_acks": f"{random.uniform(0, 0.2):.3f}",
        "late_acks_s": f"{random.uniform(0, 8):.1f}",
        "lost_acks": f"{random.uniform(0, 0.3):.3f}",
        "price_drift": "0.2",
    }


def broken_laws(whole: Whole) -> Iterator[str]:
    """What must be true of a shard at every moment."""
    for link in whole.links.values():
        if link.overlaps:
            yield f"two calls at once on {link.overlaps[0]}"
    for event, reason in whole.journal.events:
        if event in DEFECTS:
            yield f"{event}: {reason}"


async def truth(sim: Sim, machine: str) -> State | None:
    try:
        return (await sim.server.get(GetRequest(machine))).state
    except MainstayError:
        return None


async def disagreements(whole: Whole) -> list[str]:
    """Where a shard believes something else than its providers know."""
    inventory, found = whole.assembled.live.inventory, []
    for machine in whole.machines():
        known = await truth(whole.links[inventory.source(machine.id)].sim, machine.id)
        if known is not machine.state:
            found.append(f"{machine.id}: {machine.state} here, {known} there")
    return found


@pytest.mark.parametrize("seed", range(LIVES))
def test_whatever_happened_demand_is_met_once_it_is_quiet(tmp_path: Path, seed: int) -> None:
    random = Random(seed)

    async def scenario() -> None:
        specs = (
            a_provider(slots=40, idle=10, name="east", seed=seed),
            a_provider(slots=40, name="west", zone="west-1", seed=seed + 1),
        )
        async with sims(*specs) as providers:
            wanted = dict.fromkeys(CLUSTERS, 0)
            for _ in range(3):
                for sim in providers.values():
                    sim.change(trouble(random))
                await live(tmp_path, providers, random, wanted)
            for sim in providers.values():
                sim.change(HARMLESS)
            await rest(tmp_path, providers, wanted)

    run(scenario())


async def live(
    folder: Path, providers: dict[str, Sim], random: Random, wanted: dict[str, int]
) -> None:
    """One life: demand changes, things fail, and it ends by a kill at no particular moment."""
    every = {"cycle_interval_s": random.choice([2.0, 10.0]), "decision_audit_every": 5}
    async with running(folder, providers, **every) as whole:
        async with whole.cluster("web") as web, whole.cluster("batch") as batch:
            async with whole.cluster("train") as train:
                for _ in range(random.randint(2, 5)):
                    for cluster in random.sample([web, batch, train], 2):
                        wanted[cluster.name] = random.randint(0, 12)
                        priority = {"web": 100, "batch": 10, "train": 1000}[cluster.name]
                        cluster.ask_for(wanted[cluster.name], priority=priority)
                    await asyncio.sleep(random.uniform(1, 400))
                    assert not [*broken_laws(whole)]


async def rest(folder: Path, providers: dict[str, Sim], wanted: dict[str, int]) -> None:
    """The last life: nothing goes wrong any more, and the demand stays."""
    async with running(folder, providers, decision_audit_every=20) as whole:
        async with whole.cluster("web") as web, whole.cluster("batch") as batch:
            async with whole.cluster("train") as train:
                web.ask_for(wanted["web"], priority=100)
                batch.ask_for(wanted["batch"], priority=10)
                train.ask_for(wanted["train"], priority=1000)
                await asyncio.sleep(5400)

                assert not [*broken_laws(whole)]
                assert await disagreements(whole) == []
                assert not whole.machines(*TRANSITIONAL)
                serving = [str(m.cluster) for m in whole.machines(State.CONFIGURED)]
                assert {name: serving.count(name) for name in wanted} == wanted

                sent = whole.sent()
                await asyncio.sleep(900)
                assert whole.sent() == sent, "constant demand, and still something was done"


def test_at_constant_demand_no_life_drains_anything(tmp_path: Path) -> None:
    random = Random(3)

    async def scenario() -> None:
        async with sims(a_provider(slots=30)) as providers:
            providers["sim"].change({"late_acks_s": "5", "lost_acks": "0.2"})
            for _ in range(12):
                async with running(tmp_path, providers) as whole, whole.cluster() as web:
                    web.ask_for(9)
                    await asyncio.sleep(random.uniform(0.01, 120))
                    drains = [r for r in whole.links["sim"].sent if isinstance(r, DrainRequest)]
                    assert not drains
                    assert not [*broken_laws(whole)]

    run(scenario())

"""What drains save and put at risk, on a whole shard: computed from the scene, then looked up."""

import asyncio
from pathlib import Path
from typing import Final

from mainstay.model.cost import bucket_for
from mainstay.model.need import Need, NeedProfile
from mainstay.model.state import State
from mainstay.model.views import ActionQuery, ActionRow
from mainstay.shard.answers.view import ShardView
from mainstay.shard.outcomes import Disposition
from shard_over_sim import OFFER
from talking import at_once
from virtual_loop import run
from whole_shard import UNIT_MILLI, Cluster, Whole, a_provider, running, sims

PRICE: Final = OFFER.dollars_per_hour
LOW, MIDDLE, HIGH = 10, 500, 1000


def asks(cluster: Cluster, machines: int, priority: int, *, lost: float, moved: float) -> None:
    """Of workloads that lose so many dollars when interrupted, and when their machine goes."""
    profile = NeedProfile(
        priority=priority,
        interruption_penalty_bucket=bucket_for(lost),
        reclamation_penalty_bucket=bucket_for(moved),
    )
    need = Need(
        cluster=cluster.name,
        profile=profile,
        aggregate={"cpu": machines * UNIT_MILLI},
        min_unit={"cpu": UNIT_MILLI},
    )
    cluster.roll_up([need])


async def drains(whole: Whole) -> dict[str, ActionRow]:
    """Those that were executed, by their kind."""
    view = ShardView(whole.assembled.live, at_once)
    told = await view.actions(ActionQuery(disposition=str(Disposition.EXECUTED)))
    rows = [row for row in told.rows if row.kind in {"preempt", "reclaim"}]
    assert len({row.kind for row in rows}) == len(rows), "each kind happened once"
    return {row.kind: row for row in rows}


def holders(whole: Whole) -> list[str]:
    return sorted(str(machine.cluster) for machine in whole.machines(State.CONFIGURED))


def test_a_preempt_and_a_reclaim_tell_the_price_and_the_greater_penalty(tmp_path: Path) -> None:
    """All machines are on demand and in use: one is taken by force, one is given back."""

    async def scenario() -> None:
        async with (
            sims(a_provider(slots=5)) as providers,
            running(tmp_path, providers) as whole,
            whole.cluster("batch") as batch,
            whole.cluster("late") as late,
            whole.cluster() as web,
        ):
            asks(batch, 3, LOW, lost=4.0, moved=32.0)
            asks(late, 2, MIDDLE, lost=8.0, moved=0.5)
            await asyncio.sleep(600)
            assert holders(whole) == ["batch"] * 3 + ["late"] * 2

            web.ask_for(1, priority=HIGH)
            await asyncio.sleep(600)
            assert holders(whole) == ["batch"] * 2 + ["late"] * 2 + ["web"]
            asks(batch, 2, LOW, lost=4.0, moved=32.0)
            await asyncio.sleep(600)
            asks(late, 1, MIDDLE, lost=8.0, moved=0.5)
            await asyncio.sleep(1800)
            assert holders(whole) == ["batch"] * 2 + ["late", "web"]

            found = await drains(whole)
            told = {
                kind: (row.cluster, row.price_per_hour, row.saved_per_hour, row.at_risk_dollars)
                for kind, row in found.items()
            }
            assert told == {
                "preempt": ("batch", PRICE, PRICE, 32.0), "reclaim": ("late", PRICE, PRICE, 8.0),
            }  # fmt: skip
            assert found["preempt"].need_cluster == "web"
            assert not any(row.pinned for row in found.values())

    run(scenario())


def test_a_drain_that_is_held_back_tells_the_same(tmp_path: Path) -> None:
    """So that people see what it would have saved and cost before they allow it."""

    async def scenario() -> None:
        async with sims(a_provider(slots=2)) as providers:
            async with (
                running(tmp_path / "acting", providers) as whole,
                whole.cluster("batch") as batch,
            ):
                asks(batch, 2, LOW, lost=4.0, moved=32.0)
                await asyncio.sleep(600)
                assert holders(whole) == ["batch"] * 2
            async with (
                running(tmp_path / "acting", providers, dry_run=True) as whole,
                whole.cluster("batch") as batch,
                whole.cluster() as web,
            ):
                asks(batch, 2, LOW, lost=4.0, moved=32.0)
                web.ask_for(1, priority=HIGH)
                await asyncio.sleep(600)

                held = [
                    each.order
                    for each in whole.journal.records()
                    if each.disposition is Disposition.SHADOWED
                ]
                assert {
                    (order.action.kind.value, order.saved_per_hour, order.at_risk_dollars)
                    for order in held
                } == {("preempt", PRICE, 32.0)}

    run(scenario())

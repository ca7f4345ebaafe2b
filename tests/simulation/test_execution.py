"""Laws of execution, whatever happens in which order: one hand on a machine, and no end missing.

Orders of plans that are long out of date, clusters that answer late, badly or not at all, a cloud
that loses, delays and repeats acks and fails steps, lists that are old.
"""

import asyncio
from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_need, a_need_profile
from mainstay.model.action import ActionKind
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.state import TRANSITIONAL
from mainstay.shard.orders import Order
from mainstay.shard.outcomes import Disposition, Outcome
from outside import examples
from shard_hands import NoSession, an_order
from shard_over_sim import SOURCE, Working, a_cloud, working
from virtual_loop import run

CLUSTERS = (ClusterId("web"), ClusterId("batch"))
BAD_LINE = {
    "lost_acks": "0.2",
    "late_acks_s": "15",
    "duplicate_acks": "0.2",
    "stale_lists": "0.3",
    "failures": "create=0.1, configure=0.1, drain=0.1, delete=0.1",
    "calls_per_s": "3",
}
WELL = {**dict.fromkeys(BAD_LINE, "0"), "failures": "", "stock_outs": ""}
CYCLES = 40
QUIET_S = 3000.0
"""Longer than any deadline."""


async def anything(work: Working, dice: Random) -> list[Order]:
    """Offer whatever comes to mind, at any time; all that was offered."""
    offered: list[Order] = []
    machines = work.tools.inventory.ids()
    for cycle in range(CYCLES):
        if dice.random() < 0.3:
            work.sim.change({"stock_outs": dice.choice(["", "*/*"])})
        for _ in range(dice.randrange(4)):
            work.clusters.answers.append(an_answer(dice))
        work.clusters.absent = {each for each in CLUSTERS if dice.random() < 0.2}
        plan = [an_idea(work, dice, cycle, dice.choice(machines)) for _ in range(dice.randrange(8))]
        again = [each for each in offered[-8:] if dice.random() < 0.3]
        orders = [*plan, *again]
        result = work.executor.offer(orders, cycle=cycle)
        assert len(orders) == (result.accepted + result.dropped + result.deduplicated + result.held)
        offered += orders
        if dice.random() < 0.7:
            await work.look()
        await asyncio.sleep(dice.choice([0.0, 0.1, 3.0, 20.0]))
    return offered


def an_answer(dice: Random) -> Exception | float | bytes:
    answers: list[Exception | float | bytes] = [b"join", 1.0, 20.0, 100.0]
    refusals = [Rejected("full"), Unavailable("?"), NoSession("away")]
    return dice.choice([*answers, *refusals])


def an_idea(work: Working, dice: Random, cycle: int, machine: MachineId) -> Order:
    """Often what its state suggests, sometimes anything."""
    likely = {
        "SPECULATIVE": [ActionKind.PROVISION],
        "IDLE": [ActionKind.BOOTSTRAP, ActionKind.DELETE],
        "CONFIGURED": [ActionKind.RECLAIM, ActionKind.PREEMPT],
    }
    state = work.machine(machine).state.name if machine in work.tools.inventory else ""
    kinds = likely.get(state) if dice.random() < 0.8 else None
    priority = dice.randrange(3)
    need = a_need(cluster=dice.choice(CLUSTERS), profile=a_need_profile(priority=priority))
    kind = dice.choice(kinds or list(ActionKind))
    return an_order(kind, machine, need=need, source=SOURCE, cycle=cycle, grace_s=5)


async def a_run(seed: int) -> None:
    dice = Random(seed)
    async with working(a_cloud(slots=6, held=4, seed=seed)) as work:
        work.sim.change(BAD_LINE)
        offered = await anything(work, dice)
        work.sim.change(WELL)
        work.clusters.answers.clear()
        work.executor.offer([], cycle=CYCLES)
        await work.go_on(QUIET_S, every_s=30.0)

        assert work.link.overlaps == [], "two calls for one machine at once"
        stuck = [each for each in work.machines() if each.state in TRANSITIONAL]
        assert stuck == [], "on their way for ever"
        assert len(work.tools.ledger) == 0
        assert work.executor.depth == work.executor.in_flight == {SOURCE: 0}
        ends = Counter(id(record.order) for record in work.journal.records)
        assert ends == Counter(map(id, offered)), "each order has one end, no more and no fewer"
        check_records(work)


def check_records(work: Working) -> None:
    for record in work.journal.records:
        executed = record.disposition is Disposition.EXECUTED
        assert executed == (record.outcome is not None)
        assert executed or record.reason
        assert record.outcome not in {Outcome.TRANSITION_ERROR, Outcome.FENCED}, record


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32))
def test_one_hand_on_a_machine_and_exactly_one_end_for_every_order(seed: int) -> None:
    run(a_run(seed))

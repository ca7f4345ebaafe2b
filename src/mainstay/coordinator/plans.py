"""What a leader does by itself: look for capacity to move, and finish what was begun."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from mainstay.coordinator import commands, rebalance, removal
from mainstay.coordinator.figures import figures
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.memory import Memory
from mainstay.coordinator.metrics import CoordinatorMetrics
from mainstay.coordinator.rebalance import (
    Options,
    PastMove,
    Planned,
    Proposal,
    ShardStanding,
    Standing,
)
from mainstay.coordinator.records import SETTLED, MoveRecord, MoveState
from mainstay.coordinator.reigning import Reigning
from mainstay.coordinator.store import Change
from mainstay.model.errors import MainstayError, NotLeading, Rejected, Unavailable
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How often, and whether anything comes of it."""

    rules: Options
    acts: bool = True
    """Whether proposals are carried out."""

    interval_s: float = 150.0
    keep_interval_s: float = 1.0
    """How often it is looked after what is under way."""

    move_open_max_s: float = 3_600.0
    moves_kept_s: float = 86_400.0


class Planner:
    """Runs the planner while its coordinator leads."""

    def __init__(
        self,
        options: PlanOptions,
        clock: Clock,
        metrics: CoordinatorMetrics,
        *,
        aside: Aside,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._options, self._clock, self._metrics = options, clock, metrics
        self._aside, self._sleep = aside, sleep
        self._log = logger(part="planner")

    @property
    def acts(self) -> bool:
        """Whether plans are carried out by themselves."""
        return self._options.acts

    async def planned(self, reigning: Reigning, now_ns: int) -> Planned:
        """What the planner says to the fleet as it stands. Heavy work is done beside the loop."""
        standing = standing_of(await reigning.current(), reigning.memory, now_ns)
        return await self._aside(lambda: rebalance.plan(standing, self._options.rules))

    async def plan_for_ever(self, reigning: Reigning) -> None:
        """Look at intervals, and begin what is proposed."""
        if not self._options.acts:
            return
        await self._until_heard(reigning)
        numbers = count(1)
        while True:
            await self._attempt("plan", lambda: self._begin(reigning, numbers))
            await self._sleep(self._options.interval_s)

    async def keep_for_ever(self, reigning: Reigning) -> None:
        """Finish removals, call off moves that nobody answers, forget old ones, count."""
        while True:
            await self._attempt("keep", lambda: self._keep(reigning))
            await self._sleep(self._options.keep_interval_s)

    async def _until_heard(self, reigning: Reigning) -> None:
        """A new leader knows nobody's shortfalls; it waits for all, and not for ever for any."""
        interval_s = self._options.rules.report_interval_ns / SECOND_NS
        deadline_s = self._clock.elapsed_s() + 2 * interval_s
        while self._clock.elapsed_s() < deadline_s:
            if self._has_heard_all(reigning):
                return
            await self._sleep(min(1.0, interval_s / 4))

    @staticmethod
    def _has_heard_all(reigning: Reigning) -> bool:
        try:
            shards = reigning.fleet.shards
        except Unavailable:
            return False
        return bool(shards) and shards.keys() <= reigning.memory.heard.keys()

    async def _attempt(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """A store that does not answer ends no reign: the lease does that."""
        try:
            await work()
        except NotLeading:
            pass  # the reign is over, and whoever runs this is about to be cancelled
        except MainstayError as error:
            self._log.warning("duty_failed", duty=what, code=error.code, error=error.message)

    async def _begin(self, reigning: Reigning, numbers: Iterator[int]) -> None:
        began = self._clock.elapsed_s()
        planned = await self.planned(reigning, self._now_ns())
        tiers: Counter[int] = Counter()
        for proposal in planned.proposals:
            name = f"{reigning.term}-{next(numbers)}"
            if await self._begun(reigning, proposal, name):
                tiers[int(proposal.tier)] += 1
        self._metrics.planned(tiers, self._clock.elapsed_s() - began)

    async def _begun(self, reigning: Reigning, proposal: Proposal, name: str) -> bool:
        try:
            await reigning.one(
                lambda fleet: commands.begin_move(fleet, proposal, name, self._now_ns())
            )
        except Rejected as error:
            self._log.info("proposal_overtaken", move=name, why=error.message)
            return False
        self._log.info(
            "move_begun", move=name, donor=proposal.donor, recipient=proposal.recipient,
            tier=int(proposal.tier), why=proposal.why,
        )  # fmt: skip
        return True

    async def _keep(self, reigning: Reigning) -> None:
        now_ns = self._now_ns()
        await reigning.carry_out(lambda fleet: self._chores(fleet, now_ns))
        reigning.memory.forget(reigning.fleet)
        self._metrics.stands(figures(reigning.fleet, reigning.memory, now_ns, self._options.rules))

    def _chores(self, fleet: Fleet, now_ns: int) -> Iterator[Change]:
        for shard in removal.removing(fleet):
            yield from removal.remove_shard(fleet, shard, now_ns)
        for name in overdue(fleet, now_ns - int(self._options.move_open_max_s * SECOND_NS)):
            yield commands.cancel_move(fleet, name)
        yield commands.prune_moves(fleet, now_ns - int(self._options.moves_kept_s * SECOND_NS))

    def _now_ns(self) -> int:
        return int(self._clock.now_s() * SECOND_NS)


def overdue(fleet: Fleet, before_ns: int) -> list[str]:
    """Moves that were asked for before this time and not answered. Those given are not called off:
    their machines are nobody's until they are taken.
    """
    return [
        name
        for name in sorted(fleet.open_moves)
        if fleet.moves[name].state is MoveState.ASKED
        and fleet.moves[name].created_at_ns < before_ns
    ]


def standing_of(fleet: Fleet, memory: Memory, now_ns: int) -> Standing:
    """The fleet as the planner knows it: shards that this leader has heard."""
    return Standing(
        now_ns=now_ns,
        shards={
            name: ShardStanding(
                summary=heard.report.summary,
                missing=heard.report.missing,
                providers=frozenset(each.name for each in heard.report.providers),
                reported_at_ns=heard.at_ns,
                can_hand_over=heard.report.can_hand_over,
                removing=fleet.shards[name].removing,
                takes_all=fleet.shards[name].takes_all,
            )
            for name, heard in sorted(memory.heard.items())
            if name in fleet.shards
        },
        moves=tuple(_past(move) for _, move in sorted(fleet.moves.items())),
    )


def _past(move: MoveRecord) -> PastMove:
    is_open = move.state not in SETTLED
    may = move.wanted.machines_max if move.wanted is not None else 0
    moved = move.state in {MoveState.DONE, MoveState.RETURNED}
    changed = len(move.machines) if moved else 0
    return PastMove(
        donor=move.donor,
        recipient=move.recipient,
        tier=move.tier,
        fingerprint=move.fingerprint,
        instance_types=move.instance_types,
        machines=(len(move.machines) or may) if is_open else changed,
        open=is_open,
        called_off=move.state in {MoveState.WITHDRAWN, MoveState.RETURNING},
        settled_at_ns=move.settled_at_ns,
    )

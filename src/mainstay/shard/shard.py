"""The loop: a cycle at every tick and whenever demand arrives, one at a time, until it is told to
stop. Nothing outside can hold it up, and a cycle that fails does not end it.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

from mainstay.engine.plan import Memory
from mainstay.model.state import TRANSITIONAL
from mainstay.shard.cycle import cycle
from mainstay.shard.events import Event
from mainstay.shard.facts import Published
from mainstay.shard.pace import ShardOptions
from mainstay.shard.parts import Parts
from mainstay.shard.selfcheck import SelfCheck
from mainstay.shard.spent import SpentThisTick
from mainstay.shard.thought import Carried, Cycled


class Cause(Enum):
    """Why there is a cycle."""

    TICK = "tick"
    WAKE = "wake"
    """Demand has arrived, or there is room again."""

    PEEK = "peek"
    """A step has ended."""


Observe = Callable[[Cycled, float | None], None]
"""Sees a cycle, and how long the demand had waited that woke it."""


def _unobserved(_: Cycled, __: float | None) -> None:
    """Nobody watches."""


class Shard:
    """Runs cycles over its parts."""

    def __init__(
        self,
        parts: Parts,
        options: ShardOptions | None = None,
        *,
        beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (),
        observe: Observe = _unobserved,
    ) -> None:
        """`beside` are what else runs as long as the shard does; `observe` sees every cycle."""
        self._parts = parts
        self._options = options or ShardOptions()
        self._beside = beside
        self._observe = observe
        self._woken = asyncio.Event()
        self._demanded_s: float | None = None
        self._carried = Carried(memory=Memory.empty())
        self._spent = SpentThisTick(parts.inventory)
        self._selfcheck = SelfCheck(self._options.audit_every, parts.aside, parts.journal)
        self._cycles = 0
        self.published: Published | None = None

    def wake(self) -> None:
        """Have a cycle soon. However often it is said, one follows."""
        self._woken.set()
        self._parts.reconciler.hurry()

    def demanded(self) -> None:
        """There is new demand: have a cycle soon, and measure how soon."""
        if self._demanded_s is None:
            self._demanded_s = self._parts.clock.elapsed_s()
        self.wake()

    async def run(self) -> None:
        """Cycle until cancelled, as soon as there are machines to decide on."""
        parts, tick_s = self._parts, self._options.cycle_interval_s
        async with asyncio.TaskGroup() as tasks:
            runs = (parts.reconciler.run, parts.executor.run, parts.overdue.run, *self._beside)
            for each in runs:
                tasks.create_task(each())
            await self._first_lists(tasks)
            next_s = parts.clock.elapsed_s()
            while True:
                cause = await self._cause(next_s)
                if cause is Cause.PEEK and not await self._has_news():
                    continue
                if cause is Cause.TICK:
                    next_s = max(next_s + tick_s, parts.clock.elapsed_s())
                await self.step(cause, tasks=tasks)

    async def _first_lists(self, tasks: asyncio.TaskGroup) -> None:
        """Wait until every provider was listed or has failed; where one was listed, not for long.

        Whoever hangs holds up nobody. What it has is not bought again meanwhile: see `Awaited`.
        """
        reconciler, options = self._parts.reconciler, self._options
        patience_s = options.first_list_s
        if not await reconciler.wait_first(patience_s=patience_s, others_s=options.other_lists_s):
            tasks.create_task(self._later_lists())

    async def _later_lists(self) -> None:
        """Decide again when whoever was not waited for has answered or failed."""
        await self._parts.reconciler.wait_first(patience_s=self._options.first_list_s)
        self.wake()

    async def step(
        self, cause: Cause = Cause.TICK, *, tasks: asyncio.TaskGroup | None = None
    ) -> None:
        """One cycle; a defect in it is told, and the next one starts from nothing carried over."""
        self._cycles += 1
        self._woken.clear()
        if cause is Cause.TICK:
            self._spent.tick()
            self._parts.reconciler.tick()
        demanded_s, self._demanded_s = self._demanded_s, None
        try:
            cycled = await cycle(
                self._parts,
                dataclasses.replace(self._carried, reclaimed=self._spent.spent),
                number=self._cycles,
                policy=self._options.policy,
                look_s=self._options.look_s if cause is Cause.TICK else 0.0,
            )
            self._remember(cycled)
            waited_s = None if demanded_s is None else self._parts.clock.elapsed_s() - demanded_s
            self._observe(cycled, waited_s)
        except Exception as error:  # noqa: BLE001 - the loop must outlive a defect
            self._forget(error)
            return
        if cycled.thought.admitted.again and cycled.offered.accepted:
            self.wake()
        if tasks is not None:
            self._selfcheck.begin_if_due(cycled.thought, tasks)

    def _remember(self, cycled: Cycled) -> None:
        thought = cycled.thought
        self._carried = Carried(memory=thought.plan.memory, figures=thought.figures)
        self._spent.ordered(thought.admitted.orders)
        self.published = cycled.published

    def _forget(self, defect: Exception) -> None:
        """Only ages are carried over from what ended in a defect."""
        self._carried = Carried(memory=dataclasses.replace(self._carried.memory, last=None))
        told = f"{type(defect).__name__}: {defect}"
        self._parts.journal.noticed(Event.CYCLE_FAILED, cycle=self._cycles, why=told)

    async def _cause(self, next_s: float) -> Cause:
        """Wait for whichever comes first."""
        left_s = next_s - self._parts.clock.elapsed_s()
        if left_s <= 0:
            return Cause.TICK
        peek_s = self._options.peek_interval_s
        peeks = peek_s < left_s and self._is_busy()
        try:
            async with asyncio.timeout(peek_s if peeks else left_s):
                await self._woken.wait()
                await asyncio.sleep(self._options.settle_s)
        except TimeoutError:
            if not peeks:
                return Cause.TICK
            return Cause.WAKE if self._woken.is_set() else Cause.PEEK
        return Cause.WAKE

    def _is_busy(self) -> bool:
        """Whether a step is under way whose end can be seen cheaply."""
        found = self._parts.inventory.snapshot().by_state.keys() & TRANSITIONAL
        return bool(found) and self._parts.reconciler.heard.incremental

    async def _has_news(self) -> bool:
        """Look without deciding; whether there is something to decide."""
        try:
            looked = await self._parts.reconciler.look(patience_s=self._options.look_s)
        except Exception as error:  # noqa: BLE001 - as in a cycle
            self._forget(error)
            return True
        return looked.wrote or self._woken.is_set()

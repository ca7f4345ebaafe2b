"""The full pass that a plan must agree with: every so often, beside the loop."""

import asyncio

from mainstay.engine.audit import differences
from mainstay.runtime.aside import Aside
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal
from mainstay.shard.thought import Thought


class SelfCheck:
    """Decides again with nothing carried over; a difference is a defect, and is told."""

    def __init__(self, every: int, aside: Aside, journal: Journal) -> None:
        """`every`: so many cycles from one to the next; 0: never."""
        self._every = every
        self._aside = aside
        self._journal = journal
        self._running: asyncio.Task[None] | None = None

    def begin_if_due(self, thought: Thought, tasks: asyncio.TaskGroup) -> None:
        """Check this plan in a task of its own, if it is time and the last check has ended."""
        if self._is_due(thought.given.cycle):
            self._running = tasks.create_task(self._check(thought))

    def _is_due(self, cycle: int) -> bool:
        is_running = self._running is not None and not self._running.done()
        return bool(self._every) and cycle % self._every == 0 and not is_running

    async def _check(self, thought: Thought) -> None:
        given, plan = thought.given, thought.plan
        try:
            found = await self._aside(lambda: differences(plan, given.memory, given.now_s))
        except Exception as error:  # noqa: BLE001 - who only checks must not end the loop
            found = (f"the full pass failed: {type(error).__name__}: {error}",)
        for difference in found:
            self._journal.noticed(Event.AUDIT_DIFFERED, cycle=given.cycle, difference=difference)

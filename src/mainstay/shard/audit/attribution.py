"""Which need claims which machines, cycle by cycle: JSON lines for hunting defects.

Off unless it is asked for; then nobody makes one, so that it costs nothing. Two files at most.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mainstay.engine.plan import Plan
from mainstay.runtime.aside import Aside
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal


@dataclass(frozen=True, slots=True)
class AttributionLog:
    """Written beside the loop."""

    path: Path
    aside: Aside
    file_bytes: int = 256 << 20
    """A larger file is set aside as `<name>.1`, in place of the one before."""

    async def tell(self, plan: Plan, *, cycle: int, journal: Journal) -> None:
        """Write down what the needs of a plan claim."""
        try:
            await self.aside(partial(self._write, plan, cycle))
        except OSError as error:
            journal.noticed(Event.ATTRIBUTION_LOG_FAILED, why=error.strerror, file=str(self.path))

    def _write(self, plan: Plan, cycle: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size >= self.file_bytes:
            self.path.replace(self.path.with_name(self.path.name + ".1"))
        with self.path.open("a", encoding="ascii") as stream:
            stream.writelines(lines(plan, cycle))


def lines(plan: Plan, cycle: int) -> Iterator[str]:
    """One line for each need, in the order in which they were walked."""
    live = plan.snapshot.order.astype(np.intp)
    owner = plan.owner[live]
    by_owner = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[by_owner], np.arange(len(plan.needs) + 1))
    for place, need in enumerate(plan.needs):
        rows = live[by_owner[ends[place] : ends[place + 1]]]
        line = {
            "cycle": cycle,
            "cluster": need.cluster,
            "fingerprint": need.profile.fingerprint,
            "group": need.group,
            "priority": need.profile.priority,
            "aggregate": dict(need.aggregate),
            "claims": plan.snapshot.machine_ids(rows),
        }
        yield json.dumps(line, separators=(",", ":")) + "\n"

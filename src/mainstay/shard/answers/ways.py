"""How long the rest of a machine's way to a need takes, by how long it took others. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from mainstay.engine.certificate import How
from mainstay.engine.doings import DRAINS, doings
from mainstay.engine.plan import Plan
from mainstay.model.state import State
from mainstay.model.texts import Rows
from mainstay.shard.latency import Kind, Measured, Step, kind_of


class Part(NamedTuple):
    """One thing that has to happen; all of them at once."""

    seconds: float | None
    """None: nothing was measured that tells."""

    because: str


WAYS: Final[Mapping[How, tuple[Step, ...]]] = {
    How.CREATING: (Step.CREATE, Step.CONFIGURE),
    How.CONFIGURING: (Step.CONFIGURE,),
    How.DRAINING: (Step.DRAIN, Step.CONFIGURE),
    How.BOOTSTRAP: (Step.CONFIGURE,),
    How.PROVISION: (Step.CREATE, Step.CONFIGURE),
    How.RECLAIM: (Step.DRAIN, Step.CONFIGURE),
    How.PREEMPT: (Step.DRAIN, Step.CONFIGURE),
}
"""What is still to be done with a machine that counts for a need."""

WORDS: Final[Mapping[How, str]] = {
    How.CREATING: "being created",
    How.CONFIGURING: "joining",
    How.DRAINING: "being drained for it",
    How.BOOTSTRAP: "to be joined",
    How.PROVISION: "to be created",
    How.RECLAIM: "to be drained for it, which nobody needs",
    How.PREEMPT: "to be taken from less important needs",
}

BEGUN: Final = frozenset({How.CREATING, How.CONFIGURING, How.DRAINING})
"""Ways of which a provider is at the first step already."""


class Ways:
    """How long the rest of a machine's way takes, by what was measured."""

    def __init__(self, plan: Plan, measured: Measured) -> None:
        self._plan, self._measured = plan, measured

    def part(self, how: How, rows: Rows) -> Part:
        """Of machines that count for a need like this: until the last of them serves it."""
        words = f"{_machines(len(rows))} {WORDS[how]}"
        return self._part(words, rows, WAYS[how], begun=how in BEGUN)

    def coming(self, rows: Rows) -> Part:
        """Of machines on their way to nobody: until they are Idle, and then joined."""
        words = f"{_machines(len(rows))} on the way to nobody that would do"
        steps = {State.CREATING: Step.CREATE, State.DRAINING: Step.DRAIN}
        state = self._plan.snapshot.state[rows]
        parts = [
            self._part(words, rows[state == each], (step, Step.CONFIGURE), begun=True)
            for each, step in steps.items()
            if (state == each).any()
        ]
        unknown = next((part for part in parts if part.seconds is None), None)
        return unknown or max(parts, key=lambda part: part.seconds or 0.0)

    def step(self, step: Step, rows: Rows, *, begun: bool) -> Part:
        """Of one step alone."""
        return self._part(f"{_machines(len(rows))} to {step.value}", rows, (step,), begun=begun)

    def _part(self, words: str, rows: Rows, steps: tuple[Step, ...], *, begun: bool) -> Part:
        worst_s = 0.0
        for kind, alike in self._kinds(rows):
            total_s = 0.0
            for place, step in enumerate(steps):
                youngest_s = 0.0
                if begun and not place:
                    youngest_s = float(self._measured.ages_s(alike).min())
                left_s = self._left_s(kind, step, alike, youngest_s)
                if left_s is None:
                    what = f"{step.value} of {kind.instance_type} at {kind.source}"
                    why = f"takes {youngest_s:.0f} s already" if youngest_s else "was not measured"
                    return Part(None, f"{words}, but {what} {why}")
                total_s += left_s
            worst_s = max(worst_s, total_s)
        return Part(worst_s, f"{words}: {seconds_text(worst_s)}, as the last ones took")

    def _kinds(self, rows: Rows) -> Iterator[tuple[Kind, Rows]]:
        snapshot = self._plan.snapshot
        code = snapshot.source[rows].astype(np.int64) * len(snapshot.shapes.values)
        code += snapshot.shape[rows]
        by_kind: dict[Kind, list[Rows]] = {}
        for each in np.unique(code).tolist():
            alike = rows[code == each]
            by_kind.setdefault(kind_of(snapshot, int(alike[0])), []).append(alike)
        for kind, found in by_kind.items():
            yield kind, np.concatenate(found)

    def _left_s(self, kind: Kind, step: Step, rows: Rows, age_s: float) -> float | None:
        """What is left of a step that has gone on so long: the median of those that took longer."""
        longer = [took_s for took_s in self._samples(kind, step) if took_s > age_s]
        if longer:
            return median(longer) - age_s
        return self._grace_s(rows) if step is Step.DRAIN and not age_s else None

    def _samples(self, kind: Kind, step: Step) -> Sequence[float]:
        """Of machines like it; else of its provider; else of anyone."""
        samples = self._measured.samples
        if own := samples.get((kind, step)):
            return own
        of_step = [(key[0], held) for key, held in samples.items() if key[1] is step]
        same_source = [held for other, held in of_step if other.source == kind.source]
        return list(_flat(same_source or [held for _, held in of_step]))

    def _grace_s(self, rows: Rows) -> float | None:
        """How long the workloads of machines that are to be drained have to leave; None if no
        plan drains them.
        """
        found = doings(self._plan)
        drains = found.are(DRAINS) & np.isin(found.row, rows)
        actions = [self._plan.actions[at] for at in np.flatnonzero(drains).tolist()[:_GRACES]]
        return max((float(action.grace_s) for action in actions), default=None)


_GRACES: Final = 100
"""So many drains are asked for their grace; they are of one need, and alike."""


def _flat(held: Iterable[Sequence[float]]) -> Iterator[float]:
    for each in held:
        yield from each


def _machines(count: int) -> str:
    return "1 machine is" if count == 1 else f"{count:,} machines are"


def seconds_text(seconds: float) -> str:
    """A time in seconds, or in minutes once that is shorter."""
    return f"{seconds:,.0f} s" if seconds < _MINUTES_FROM_S else f"{seconds / 60:,.0f} min"


_MINUTES_FROM_S: Final = 600.0

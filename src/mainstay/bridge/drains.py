"""Drains as the shard tells them, until they can be written down: for whom, and until when.

Said twice: once as an instruction, and again with the state of the machine to whoever connects
while it drains. A grace runs from when it was said, however late it is written down.
"""

from dataclasses import dataclass, field
from typing import Final

from mainstay.bridge.rows import Told
from mainstay.model.frames import NodeState, ReclaimTold
from mainstay.model.state import State
from mainstay.runtime.clock import Clock

GRACE_S_MAX: Final = 365 * 86_400.0
"""What is longer is as good as this, and a date."""


@dataclass(frozen=True, slots=True)
class Drain:
    """One that was told."""

    ends_s: float
    preemptor_priority: int | None
    grace: str
    """In words."""

    def told(self, now_s: float, cleanup_s: float) -> Told:
        """What to write down now: what is left, and of that all but clean-up is notice."""
        left_s = max(0.0, self.ends_s - now_s)
        taken = self.preemptor_priority
        why = "no longer needed" if taken is None else f"taken by demand of priority {taken}"
        return Told(
            f"{why}, with {self.grace}",
            grace_s=left_s,
            preemptor_priority=taken,
            release_in_s=max(0.0, left_s - cleanup_s),
        )


@dataclass(slots=True)
class Drains:
    """The newest of each machine, until that serves on or begins another life."""

    clock: Clock
    of_machine: dict[str, Drain] = field(default_factory=dict)

    def told(self, told: ReclaimTold) -> Drain:
        """These machines are drained."""
        drain = Drain(
            self.clock.elapsed_s() + min(max(0.0, told.grace_s), GRACE_S_MAX),
            told.preemptor_priority or None,
            f"{told.grace_s} s of grace",
        )
        self.of_machine.update(dict.fromkeys(told.nodes, drain))
        return drain

    def heard(self, state: NodeState) -> None:
        """A machine stands so; the instruction, if it was heard, knows more."""
        if state.state is State.CONFIGURED:
            self.forget(state.machine)
        elif state.drain is not None:
            left_s = min(state.drain.grace_left_s, GRACE_S_MAX)
            drain = Drain(
                self.clock.elapsed_s() + left_s,
                state.drain.preemptor_priority,
                f"{left_s:.0f} s of grace left",
            )
            self.of_machine.setdefault(state.machine, drain)

    def of(self, machine: str) -> Drain | None:
        """What was told of it."""
        return self.of_machine.get(machine)

    def forget(self, machine: str) -> None:
        """It serves on, or begins another life."""
        self.of_machine.pop(machine, None)

    def tidy(self, lives: set[str]) -> None:
        """Forget what was told of machines that are not in any life of ours."""
        self.of_machine = {name: one for name, one in self.of_machine.items() if name in lives}

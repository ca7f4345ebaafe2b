"""What is known of drains that are under way, for clusters that were away when one was told.

An instruction is said once; how a machine stands is said to everybody who connects. In memory only:
a provider keeps nothing of a drain, so a shard that was restarted does not know it.
"""

from dataclasses import dataclass

from mainstay.model.frames import Drain
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.state import State
from mainstay.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class _Begun:
    ends_s: float
    preemptor_priority: int | None


class Drains:
    """Of every machine that we drain: who takes it, and how long it has."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: dict[MachineId, _Begun] = {}

    def begin(self, machine: MachineId, *, grace_s: int, preemptor_priority: int | None) -> None:
        """It is drained from now on."""
        ends_s = self._clock.elapsed_s() + grace_s
        self._begun[machine] = _Begun(ends_s, preemptor_priority)

    def seen(self, machine: Machine) -> None:
        """It stands so: what is said of one that is not drained any more is forgotten."""
        if machine.state is not State.DRAINING:
            self._begun.pop(machine.id, None)

    def of(self, machine: Machine) -> Drain | None:
        """What to say of it now; None: it is not drained, or not by us."""
        begun = self._begun.get(machine.id) if machine.state is State.DRAINING else None
        if begun is None:
            return None
        left_s = max(0.0, begun.ends_s - self._clock.elapsed_s())
        return Drain(left_s, begun.preemptor_priority)

"""Single machines asked for by Get, beside the lists of a provider: a few at a time."""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass

from mainstay.model.calls import GetRequest
from mainstay.model.errors import MainstayError, Rejected, Unavailable, UnknownMachine
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.runtime.clock import Clock
from mainstay.shard.ports import Link


@dataclass(frozen=True, slots=True)
class Found:
    """What a provider said of one machine when it was asked."""

    machine: MachineId
    asked_at_s: float
    record: Machine | None = None
    """None: it has no such machine, or it says nothing that could be read."""

    refused: MainstayError | None = None
    """Why its answer could not be read."""

    @property
    def is_denied(self) -> bool:
        """Whether the provider says that it has no such machine."""
        return self.record is None and self.refused is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """How eagerly single machines are asked for."""

    at_once: int = 8
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.timeout_s <= 0:
            raise Rejected(
                "machines are looked up one or more at once, each within some time:"
                f" {self.at_once} at once, {self.timeout_s} s"
            )


class Lookups:
    """Asks for machines; whoever asked takes the answers. What gets none must be asked for again.

    A provider that does not answer one is not asked for the rest: its next list says more.
    """

    def __init__(self, link: Link, clock: Clock, options: LookupOptions) -> None:
        self._link = link
        self._clock = clock
        self._options = options
        self._waiting: dict[MachineId, None] = {}
        self._asked: dict[MachineId, float] = {}
        self._found: list[Found] = []
        self._work = asyncio.Event()
        self.answered_at_s = -math.inf
        """When it last answered one, be it by a refusal."""

    def ask(self, machines: Iterable[MachineId]) -> None:
        """Ask for these, unless that is under way."""
        new = {name: None for name in machines if name not in self._asked}
        if new:
            self._waiting |= new
            self._work.set()

    def take(self) -> list[Found]:
        """What has been answered since."""
        found, self._found = self._found, []
        return found

    def pending(self) -> set[MachineId]:
        """What was asked for and whose answer has not been taken."""
        return {*self._asked, *(found.machine for found in self._found)}

    def oldest_s(self) -> float | None:
        """When the oldest question was asked whose answer has not been taken."""
        asked = [*self._asked.values(), *(found.asked_at_s for found in self._found)]
        return min(asked, default=None)

    async def run(self) -> None:
        """Ask, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self._options.at_once, len(self._waiting))):
                    tasks.create_task(self._ask_in_turn())

    async def _ask_in_turn(self) -> None:
        while self._waiting:
            machine, _ = self._waiting.popitem()
            try:
                found = await self._answer(machine)
            except Unavailable:
                self._waiting.clear()
            else:
                self._found.append(found)
                self.answered_at_s = self._clock.elapsed_s()

    async def _answer(self, machine: MachineId) -> Found:
        asked_at_s = self._asked[machine] = self._clock.elapsed_s()
        try:
            async with asyncio.timeout(self._options.timeout_s):
                record = await self._link.get(GetRequest(machine))
        except TimeoutError as error:
            raise Unavailable(f"no answer to Get of machine {machine}") from error
        except UnknownMachine:
            return Found(machine, asked_at_s)
        except Unavailable:
            raise
        except MainstayError as error:
            return Found(machine, asked_at_s, refused=error)
        except Exception as error:  # noqa: BLE001 - one answer must not end the others
            why = f"reading machine {machine} ended in a defect of ours: {type(error).__name__}"
            return Found(machine, asked_at_s, refused=Rejected(f"{why}: {error}"))
        finally:
            del self._asked[machine]
        if record.id != machine:
            other = Rejected(f"asked for machine {machine}, got {record.id[:80]!r}")
            return Found(machine, asked_at_s, refused=other)
        return Found(machine, asked_at_s, record)

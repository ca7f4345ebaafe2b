"""Operations on both inventories, chosen by picking, so that one generator serves every test."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mainstay.model.machine import Machine
from oracles.plain_inventory import ALL_PARTS, PARTS, PlainBatch
from oracles.records import (
    IDS,
    SOURCES,
    STATES,
    STRANGE_IDS,
    Pick,
    broken,
    drifted,
    moved,
    some_parts,
    valid,
    with_echo,
)
from oracles.twins import Twins

BATCHES_KEPT: Final = 3
"""Providers repeat themselves: so many batches may be merged again."""


class Driver:
    """Runs operations on the twins; time goes on by one second with every one."""

    def __init__(self) -> None:
        self.twins = Twins()
        self.now = 0.0
        self.operations = 0
        self._batches: list[PlainBatch] = []

    def run(self, name: str, pick: Pick) -> None:
        """One operation, then everything that must hold after it."""
        self.now += 1.0
        self.operations += 1
        OPERATIONS[name](self, pick)

    def check(self) -> None:
        """All that is not looked at after every operation."""
        self.twins.assert_snapshot_tells_the_same()
        self.twins.assert_changes_are_those_of_the_log()
        self.twins.assert_held_snapshots_still_say_what_they_said()

    def _add(self, pick: Pick) -> None:
        absent = [machine for machine in IDS if machine not in self.twins.plain]
        among_absent = bool(absent) and pick((True, True, False))
        machine = pick(absent if among_absent else IDS)
        record = with_sometimes_an_echo(pick, valid(pick, machine, pick(STATES)))
        self.twins.add(record, now=self.now, source=pick(SOURCES))

    def _add_broken(self, pick: Pick) -> None:
        record = broken(pick, valid(pick, pick(IDS), pick(STATES)))
        self.twins.add(record, now=self.now, source=pick(SOURCES))

    def _apply_move(self, pick: Pick) -> None:
        self.twins.apply(moved(pick, self._known(pick)), now=self.now)

    def _apply_drift(self, pick: Pick) -> None:
        record = with_sometimes_an_echo(pick, drifted(pick, self._known(pick)))
        self.twins.apply(record, now=self.now)

    def _apply_any(self, pick: Pick) -> None:
        self.twins.apply(valid(pick, pick(IDS), pick(STATES)), now=self.now)

    def _apply_broken(self, pick: Pick) -> None:
        known = self._known(pick)
        record = pick((known, valid(pick, known.id, pick(STATES))))
        self.twins.apply(broken(pick, record), now=self.now)

    def _assign(self, pick: Pick) -> None:
        known = self._known(pick)
        parts = ALL_PARTS if pick((False, False, True)) else PARTS[known.state]
        self.twins.assign(known.id, some_parts(pick, parts))

    def _clear(self, pick: Pick) -> None:
        self.twins.clear_assignment(pick(IDS))

    def _remove(self, pick: Pick) -> None:
        self.twins.remove(pick((*IDS, STRANGE_IDS[1])))

    def _merge(self, pick: Pick) -> None:
        repeat = bool(self._batches) and pick((True, False))
        if repeat:
            batch = pick(self._batches)
        else:
            batch = self._batch(pick)
            self._batches = [*self._batches, batch][-BATCHES_KEPT:]
        skip = {machine for machine in IDS if pick((False, False, False, True))}
        adopt = pick((None, None, lambda shape: shape.profile.zone == "z-a"))
        self.twins.merge(
            batch, now=self.now, skip=pick((frozenset(), frozenset(skip))), adopt=adopt
        )

    def _merge_what_is_known(self, pick: Pick) -> None:
        """A full list of what one source has, nothing new in it."""
        source = pick(SOURCES)
        entries = self.twins.plain.entries.values()
        records = [entry.record for entry in entries if entry.source == source]
        self.twins.merge(PlainBatch(records, source), now=self.now)

    def _snapshot(self, pick: Pick) -> None:
        self.twins.hold_snapshot()

    def _batch(self, pick: Pick) -> PlainBatch:
        count = pick((0, 1, 2, 4, 8))
        return PlainBatch(
            [self._report(pick) for _ in range(count)],
            source=pick(SOURCES),
            full=pick((True, False)),
            tombstones=[pick(IDS) for _ in range(pick((0, 1, 3)))],
        )

    def _report(self, pick: Pick) -> Machine:
        how = pick(("drift", "drift", "move", "move", "any", "broken"))
        record = self._known(pick)
        if how == "any":
            record = valid(pick, record.id, pick(STATES))
        elif how == "move":
            record = moved(pick, record)
        elif how == "broken":
            record = broken(pick, record)
        else:
            record = drifted(pick, record)
        return with_echo(pick, record)

    def _known(self, pick: Pick) -> Machine:
        """A machine that is there, or a new one for an id that is not."""
        machine = pick(IDS)
        entry = self.twins.plain.entries.get(machine)
        return entry.record if entry else valid(pick, machine, pick(STATES))


def with_sometimes_an_echo(pick: Pick, record: Machine) -> Machine:
    """Writes of our own may come with an echo, too; it must not be kept."""
    told = with_echo(pick, record).shard_metadata if pick((False, False, True)) else {}
    return dataclasses.replace(record, shard_metadata=told)


OPERATIONS: Final[Mapping[str, Callable[[Driver, Pick], None]]] = {
    "add": Driver._add,
    "add broken": Driver._add_broken,
    "apply move": Driver._apply_move,
    "apply drift": Driver._apply_drift,
    "apply any": Driver._apply_any,
    "apply broken": Driver._apply_broken,
    "assign": Driver._assign,
    "clear": Driver._clear,
    "remove": Driver._remove,
    "merge": Driver._merge,
    "merge what is known": Driver._merge_what_is_known,
    "snapshot": Driver._snapshot,
}

OFTEN: Final = (
    *OPERATIONS, "add", "add", "apply move", "apply move", "apply move", "assign", "merge", "merge",
)  # fmt: skip
"""What to choose from: every operation, those that build a fleet up more often."""

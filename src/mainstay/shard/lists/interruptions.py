"""Whose host will be taken back, over all providers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mainstay.inventory.merge import only
from mainstay.model.ids import MachineId
from mainstay.model.notice import InterruptionNotice, Notices, known_notices
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal, Listed


class Interruptions:
    """The notices that hold. Each is told once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._of: dict[str, Notices] = {}
        self._all: Notices = MappingProxyType({})

    @property
    def notices(self) -> Notices:
        """All of them; the same object while none changes."""
        return self._all

    def __contains__(self, machine: object) -> bool:
        return machine in self._all

    def heard(self, source: str, report: Listed, ours: Callable[[MachineId], bool]) -> None:
        """A list of a provider was taken in; a machine that is not `ours` any more has none."""
        known = self._of.get(source, {})
        told = {**_unnamed(known, report, ours), **known_notices(known, report)}
        now = {name: word for name, word in told.items() if ours(name)}
        if now == known:
            return
        for name, notice in now.items():
            if known.get(name) != notice:
                self._told(source, name, notice)
        self._put(source, now)

    def _told(self, source: str, machine: MachineId, notice: InterruptionNotice) -> None:
        self._journal.noticed(
            Event.INTERRUPTION_NOTICED,
            machine=machine,
            provider=source,
            at_s=notice.at_s,
            why=notice.reason,
        )

    def _put(self, source: str, notices: Notices) -> None:
        self._of[source] = notices
        together: Mapping[MachineId, InterruptionNotice] = {
            name: notice for known in self._of.values() for name, notice in known.items()
        }
        self._all = MappingProxyType(dict(together))


def _unnamed(
    known: Notices, report: Listed, ours: Callable[[MachineId], bool]
) -> dict[MachineId, InterruptionNotice]:
    """The notices of machines that a full list misses and that are not given up yet: when they are,
    it must be known that this was announced.
    """
    left = [name for name in known if name not in report.notices and ours(name)]
    if not left or not report.full:
        return {}
    named = {*only(report, left).ids}
    return {name: known[name] for name in left if name not in named}

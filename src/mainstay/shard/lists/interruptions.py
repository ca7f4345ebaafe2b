"""Whose host will be taken back, over all providers."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mainstay.model.ids import MachineId
from mainstay.model.notice import InterruptionNotice, Noticed, Notices, known_notices
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal


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

    def heard(self, source: str, report: Noticed, ours: Callable[[MachineId], bool]) -> None:
        """A list of a provider was taken in; a machine that is not `ours` any more has none."""
        known = self._of.get(source, {})
        now = {name: word for name, word in known_notices(known, report).items() if ours(name)}
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

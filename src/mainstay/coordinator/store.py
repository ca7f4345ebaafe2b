"""The small store a coordinator needs: one consistent read, one guarded write, one leader.

There is no log of our own. Whoever leads reads everything once, keeps it in memory, and writes
through its leadership: a write of a leader that was deposed, however late it arrives, is refused by
the store itself. Backends: `mainstay.coordinator.etcd`, `mainstay.coordinator.embedded`; both pass
tests/integration/coordinator/test_store.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from mainstay.model.errors import Fenced, Rejected, Unavailable

OPERATIONS_MAX: Final = 100
"""Of one change, compares counted too; etcd takes 128."""

CHANGE_BYTES_MAX: Final = 1 << 20
"""Of one change; etcd takes 1.5 MiB."""


class Entry(NamedTuple):
    """What is stored under a key."""

    value: bytes
    revision: int
    """Of the last write of this key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All of it or nothing."""

    puts: Mapping[str, bytes] = field(default_factory=dict)
    deletes: frozenset[str] = frozenset()
    expects: Mapping[str, int] = field(default_factory=dict)
    """The revision that a key must have for the change to be made; 0: it must not be there."""


class Everything(NamedTuple):
    """All entries at one revision."""

    entries: Mapping[str, Entry]
    revision: int


class Deposed(Fenced):
    """Somebody else leads, or nobody: stop acting as leader."""

    code = "deposed"
    what_to_do = "ask the coordinator that leads now"


class Overtaken(Unavailable):
    """A key is not as the change expects it: read again and decide again."""

    code = "overtaken"
    what_to_do = "read again and repeat"


class TooLarge(Rejected):
    """A change that no store would take; nothing of it was written."""

    code = "change_too_large"
    what_to_do = "split it"


def check(change: Change) -> None:
    """Refuse what a store could not take, before any of it is sent."""
    operations = len(change.puts) + len(change.deletes) + len(change.expects)
    if operations > OPERATIONS_MAX:
        raise TooLarge(f"a change of {operations} operations: at most {OPERATIONS_MAX}")
    keys = [*change.puts, *change.deletes, *change.expects]
    size = sum(map(len, change.puts.values())) + sum(len(_encoded(key)) for key in keys)
    if size > CHANGE_BYTES_MAX:
        raise TooLarge(f"a change of {size} bytes: at most {CHANGE_BYTES_MAX}")
    if both := change.deletes & change.puts.keys():
        raise Rejected(f"to be written and deleted in one change: {min(both)!a}")


def _encoded(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise Rejected(f"not a key: {key[:120]!a} (it is no Unicode text)") from error


class Leadership(Protocol):
    """The right to write. It ends with its lease."""

    @property
    def term(self) -> int:
        """Grows with every leadership of this store; a later leader has a greater one."""

    async def renew(self) -> None:
        """Extend the lease by its whole length. Deposed when it is gone, Unavailable when the store
        does not answer: then it may or may not be extended.
        """

    async def commit(self, change: Change) -> int:
        """Write; the revision it has. Deposed, Overtaken, TooLarge: nothing was written.
        Unavailable: it may or may not have been; read again before anything else.
        """

    async def resign(self) -> None:
        """Let somebody else lead at once. Never raises."""


class Leader(NamedTuple):
    """Who leads, as everybody can read it."""

    candidate: str
    """Its id."""

    address: str
    """Where it serves."""

    term: int


class Store(Protocol):
    """Raises only MainstayError."""

    @property
    def label(self) -> str:
        """For people: which engine, and whether it is replicated."""

    @property
    def lease_s(self) -> float:
        """A leadership that is not renewed lasts at least so long after it was last asked for."""

    async def load(self) -> Everything:
        """All there is, but the leader's own key; linearizable."""

    async def campaign(self, *, candidate: str, address: str) -> Leadership | None:
        """Lead, if nobody does; None when somebody does."""

    async def leader(self) -> Leader | None:
        """Who leads now; linearizable."""

    async def leaderless(self, *, patience_s: float) -> bool:
        """Wait until nobody leads; false when somebody still does after this time."""

    async def close(self) -> None:
        """Let go of connections and files. Does not resign."""

"""Everything the coordinator keeps, in memory, and drafts of what is to change in it.

The leader loads it once, then writes to the store first and here after: `apply` is what the store
has taken. A draft reads through to the fleet, and expects of every key it touches that it is as the
fleet knows it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from mainstay.coordinator import keys
from mainstay.coordinator.keys import Kind
from mainstay.coordinator.records import (
    FORMAT,
    SETTLED,
    ClusterRecord,
    DomainRecord,
    InstructionRecord,
    MetaRecord,
    MoveRecord,
    ProviderRecord,
    QuotaRecord,
    Record,
    ShardRecord,
    StrayRecord,
    decode,
    encode,
)
from mainstay.coordinator.store import Change, Entry
from mainstay.model.coordination import Domain, Handed, Payload, QuotaKind, QuotaMoved, QuotaOf
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId, ShardId

T = TypeVar("T")

RECORDS_A_CHANGE: Final = 40
"""So many of a kind go into one change: each is a write and a compare, and others go with them."""


class _Groups(dict[Any, dict[Any, None]]):
    """Ids by what they have in common, in the order they came."""

    def add(self, group: object, member: object) -> None:
        self.setdefault(group, {})[member] = None

    def drop(self, group: object, member: object) -> None:
        self[group].pop(member, None)
        if not self[group]:
            del self[group]

    def of(self, group: object) -> Collection[Any]:
        return self.get(group, {}).keys()


class Fleet:
    """What stands in the store, by what it is about. Only `apply` changes it."""

    def __init__(self) -> None:
        self._revisions: dict[str, int] = {}
        self._tables: dict[Kind, dict[Any, Any]] = {kind: {} for kind in Kind}
        self._pending: dict[ShardId, dict[int, InstructionRecord]] = {}
        self._groups = _Groups()
        self.shards: Final[Mapping[ShardId, ShardRecord]] = self._view(Kind.SHARD)
        self.clusters: Final[Mapping[ClusterId, ClusterRecord]] = self._view(Kind.CLUSTER)
        self.domains: Final[Mapping[Domain, DomainRecord]] = self._view(Kind.DOMAIN)
        self.strays: Final[Mapping[MachineId, StrayRecord]] = self._view(Kind.STRAY)
        self.quotas: Final[Mapping[QuotaOf, QuotaRecord]] = self._view(Kind.QUOTA)
        self.providers: Final[Mapping[str, ProviderRecord]] = self._view(Kind.PROVIDER)
        self.moves: Final[Mapping[str, MoveRecord]] = self._view(Kind.MOVE)

    @staticmethod
    def from_entries(entries: Mapping[str, Entry]) -> "Fleet":
        """The fleet that stands in a store. Rejected names the key that cannot be read."""
        fleet = Fleet()
        for key in sorted(entries):
            fleet._put(key, entries[key].value, entries[key].revision)
        if fleet.meta.format != FORMAT:
            raise Rejected(
                f"the store has format {fleet.meta.format}, this program reads {FORMAT}:"
                " use the version that wrote it"
            )
        return fleet

    @property
    def meta(self) -> MetaRecord:
        """What is true of the whole fleet."""
        found: MetaRecord = self._tables[Kind.META].get((), MetaRecord())
        return found

    @property
    def instructions(self) -> Mapping[ShardId, Mapping[int, InstructionRecord]]:
        """Those that were not acknowledged, by shard; `pending` has them in order."""
        return MappingProxyType(self._pending)

    def pending(self, shard: ShardId) -> list[tuple[int, InstructionRecord]]:
        """The instructions of a shard that were not acknowledged, by number."""
        return sorted(self._pending.get(shard, {}).items())

    def strays_of(self, shard: ShardId) -> Collection[MachineId]:
        """Which strays a shard has or was granted."""
        return self._groups.of((Kind.STRAY, shard))

    def strays_in(self, domain: Domain) -> Collection[MachineId]:
        """Which strays lie in a domain."""
        return self._groups.of((Kind.STRAY, domain))

    def domains_of(self, shard: ShardId) -> Collection[Domain]:
        """Which domains a shard owns, those that arrive and leave too."""
        return self._groups.of((Kind.DOMAIN, shard))

    def clusters_of(self, shard: ShardId) -> Collection[ClusterId]:
        """Which clusters are bound to a shard."""
        return self._groups.of((Kind.CLUSTER, shard))

    @property
    def open_moves(self) -> Collection[str]:
        """Moves that are not settled."""
        return self._groups.of((Kind.MOVE,))

    def revision(self, key: str) -> int:
        """Of the last write of a key; 0 when nothing stands there."""
        return self._revisions.get(key, 0)

    def apply(self, change: Change, revision: int) -> None:
        """Take in what the store has taken, at the revision it gave."""
        for key in sorted(change.deletes):
            self._drop(key)
        for key in sorted(change.puts):
            self._put(key, change.puts[key], revision)

    def _view(self, kind: Kind) -> Mapping[Any, Any]:
        return MappingProxyType(self._tables[kind])

    def _put(self, key: str, value: bytes, revision: int) -> None:
        kind, parts = keys.parse(key)
        record = decode(kind, value, key=key)
        self._drop(key)
        name = _name(kind, parts, key)
        self._tables[kind][name] = record
        self._revisions[key] = revision
        for group in _groups_of(record):
            self._groups.add((kind, *group), name)
        if isinstance(record, InstructionRecord):
            self._pending.setdefault(name[0], {})[name[1]] = record

    def _drop(self, key: str) -> None:
        if self._revisions.pop(key, None) is None:
            return
        kind, parts = keys.parse(key)
        name = _name(kind, parts, key)
        record = self._tables[kind].pop(name)
        for group in _groups_of(record):
            self._groups.drop((kind, *group), name)
        if isinstance(record, InstructionRecord):
            del self._pending[name[0]][name[1]]
            if not self._pending[name[0]]:
                del self._pending[name[0]]


def _name(kind: Kind, parts: tuple[str, ...], key: str) -> Any:
    try:
        return _NAMES[kind](parts)
    except ValueError as error:
        raise Rejected(f"not a key of the coordinator: {key!r}") from error


def _only(parts: tuple[str, ...]) -> str:
    return parts[0]


def _quota_of(parts: tuple[str, ...]) -> QuotaOf:
    return QuotaOf(QuotaKind(parts[0]), parts[1], parts[2])


def _place(parts: tuple[str, ...]) -> tuple[ShardId, int]:
    return ShardId(parts[0]), int(parts[1])


_NAMES: Final[Mapping[Kind, Callable[[tuple[str, ...]], Any]]] = {
    Kind.META: lambda _: (),
    Kind.SHARD: _only,
    Kind.CLUSTER: _only,
    Kind.DOMAIN: lambda parts: Domain(*parts),
    Kind.STRAY: _only,
    Kind.QUOTA: _quota_of,
    Kind.PROVIDER: _only,
    Kind.INSTRUCTION: _place,
    Kind.MOVE: _only,
}
"""What the parts of a key name."""


def _groups_of(record: Record) -> list[tuple[object, ...]]:
    match record:
        case StrayRecord(domain=None):
            return [(record.shard,)]
        case StrayRecord():
            return [(record.shard,), (record.domain,)]
        case DomainRecord() | ClusterRecord():
            return [(record.shard,)]
        case MoveRecord() if record.state not in SETTLED:
            return [()]
        case _:
            return []


class Draft:
    """A change in the making. What it has written it reads back; the fleet stays as it is."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet: Final = fleet
        self._touched: dict[str, Record | None] = {}

    def shard(self, name: ShardId) -> ShardRecord | None:
        """As it will be."""
        return self._read(keys.shard(name), self.fleet.shards.get(name), ShardRecord)

    def domain(self, of: Domain) -> DomainRecord | None:
        """As it will be."""
        return self._read(keys.domain(of), self.fleet.domains.get(of), DomainRecord)

    def stray(self, machine: MachineId) -> StrayRecord | None:
        """As it will be."""
        return self._read(keys.stray(machine), self.fleet.strays.get(machine), StrayRecord)

    def quota(self, of: QuotaOf) -> QuotaRecord | None:
        """As it will be."""
        return self._read(keys.quota(of), self.fleet.quotas.get(of), QuotaRecord)

    def put(self, key: str, record: Record) -> None:
        """Write."""
        self._touched[key] = record

    def delete(self, key: str) -> None:
        """Write that nothing stands there."""
        self._touched[key] = None

    def instruct(
        self,
        to: ShardId,
        payload: Payload,
        *,
        move: str = "",
        quota: tuple[QuotaMoved, ...] = (),
        now_ns: int,
    ) -> str:
        """Add an instruction for a shard that is there, after all it has; its id.

        The time is part of the id: a store that was restored gives the same numbers out again.
        """
        sequence = self.next_sequence(to)
        name = f"{to}-{sequence}-{now_ns:x}"
        if (record := self.shard(to)) is not None:
            self.put(keys.shard(to), replace(record, next_sequence=sequence + 1))
        told = InstructionRecord(
            id=name, payload=payload, move=move, created_at_ns=now_ns, quota=quota
        )
        self.put(keys.instruction(to, sequence), told)
        return name

    def next_sequence(self, to: ShardId) -> int:
        """Of the next instruction for a shard that is there."""
        record = self.shard(to)
        if record is None:
            raise AssertionError(f"an instruction for a shard that is not there: {to}")
        return record.next_sequence

    def change(self) -> Change:
        """All of it."""
        return Change(
            puts={key: encode(put) for key, put in self._touched.items() if put is not None},
            deletes=frozenset(
                key
                for key, put in self._touched.items()
                if put is None and self.fleet.revision(key)
            ),
            expects={key: self.fleet.revision(key) for key in self._touched},
        )

    def _read(self, key: str, standing: T | None, kind: type[T]) -> T | None:
        if key not in self._touched:
            return standing
        written = self._touched[key]
        return written if isinstance(written, kind) else None


Begin: TypeAlias = Callable[[], Draft]
"""A new draft on the fleet as it is now; of a report it carries the report's stamp."""


def batched(many: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many at a time as go into one change."""
    for start in range(0, len(many), RECORDS_A_CHANGE):
        yield many[start : start + RECORDS_A_CHANGE]


def in_chunks(
    begin: Begin,
    machines: Sequence[Handed],
    edit: Callable[[Draft, Handed], None],
    finish: Callable[[Draft], None],
) -> Iterator[Change]:
    """Edit every machine, in as many changes as it takes, and finish in the last of them."""
    chunks = [*batched(machines)] or [()]
    for at, chunk in enumerate(chunks, start=1):
        draft = begin()
        for handed in chunk:
            edit(draft, handed)
        if at == len(chunks):
            finish(draft)
        yield draft.change()

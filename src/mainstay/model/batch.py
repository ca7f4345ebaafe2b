"""Many machines as a provider reports them: the one type between wire, providers and inventory.

Plain columns and tables of distinct values. What repeats (shape, cluster, metadata, error) is a
code into a table; code 0 means there is none. A batch holds what was reported and no assignment:
that is decoded from the metadata by whoever takes the batch in.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mainstay.model.errors import InvalidMachine
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine, MachineRule
from mainstay.model.notice import Notices
from mainstay.model.profile import HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import state_name, state_of
from mainstay.model.texts import U64, Texts, mix, texts_of

Codes = NDArray[np.uint32]
Echo = tuple[tuple[str, str], ...]
"""A metadata map in canonical order."""

ValueT = TypeVar("ValueT", bound=Hashable)


class Shape(NamedTuple):
    """What a decision sees of a machine's kind: all machines of a shape match the same needs."""

    profile: Profile
    allocatable: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBatch:
    """Row i of every column is the i-th reported machine."""

    source: str
    """Which provider reported it: absence is judged among the machines of one source."""

    full: bool
    """Whether a machine that is not in it is gone; otherwise only `tombstones` are."""

    tombstones: tuple[MachineId, ...] = ()
    cursor: bytes = b""
    """Where the provider's next incremental list starts."""

    notices: Notices = field(default_factory=dict)
    """Whose host the provider will take back: few, so no column, and in no digest."""

    ids: Texts
    digest: U64
    """The same for the same report, never 0, whatever the order of map entries."""

    state: NDArray[np.uint8]
    host_provider: Codes
    host_ref: Texts
    shape: Codes
    cluster: Codes
    price_per_hour: NDArray[np.float64]
    interruption_probability: NDArray[np.float64]
    last_error: Codes
    metadata: Codes

    host_providers: tuple[str | None, ...]
    """Code 0 is None: no host."""

    shapes: tuple[Shape, ...]
    clusters: tuple[str, ...]
    last_errors: tuple[str, ...]
    metadatas: tuple[Echo, ...]

    def __len__(self) -> int:
        return len(self.state)

    def machine(self, position: int) -> Machine:
        """One report as a record; a state number that is none of ours is refused."""
        number = int(self.state[position])
        state = state_of(number)
        identity = MachineId(self.ids[position])
        if state is None:
            why = f"machine {identity}: unknown state {state_name(number)}"
            raise InvalidMachine(why, rule=MachineRule.STATE)
        shape = self.shapes[self.shape[position]]
        return Machine(
            id=identity,
            state=state,
            profile=shape.profile,
            host=self._host(position),
            cluster=ClusterId(self.clusters[self.cluster[position]]) or None,
            allocatable=shape.allocatable,
            price_per_hour=float(self.price_per_hour[position]),
            interruption_probability=float(self.interruption_probability[position]),
            last_error=self.last_errors[self.last_error[position]],
            shard_metadata=dict(self.metadatas[self.metadata[position]]),
        )

    def _host(self, position: int) -> HostRef | None:
        provider = self.host_providers[self.host_provider[position]]
        return None if provider is None else HostRef(provider, self.host_ref[position])


class Encoder(Generic[ValueT]):
    """Gives each distinct value a code: those named `first`, then in order of first sight."""

    def __init__(self, *first: ValueT) -> None:
        self._codes: dict[ValueT, int] = {value: code for code, value in enumerate(first)}

    def code(self, value: ValueT) -> int:
        """The code of `value`."""
        return self._codes.setdefault(value, len(self._codes))

    def codes(self, values: Sequence[ValueT]) -> Codes:
        """The codes of a whole column."""
        return np.fromiter(map(self.code, values), dtype=np.uint32, count=len(values))

    @property
    def table(self) -> tuple[ValueT, ...]:
        """The values by code."""
        return tuple(self._codes)


def batch_of(
    machines: Sequence[Machine],
    *,
    source: str = "",
    full: bool = True,
    tombstones: Sequence[MachineId] = (),
) -> MachineBatch:
    """A batch of records made in this process; their assignments are left out."""
    shapes: Encoder[Shape] = Encoder()
    clusters, errors = Encoder(""), Encoder("")
    providers, metadatas = Encoder[str | None](None), Encoder[Echo](())
    hosts = [machine.host for machine in machines]
    return with_digests(MachineBatch(
        source=source,
        full=full,
        tombstones=tuple(tombstones),
        ids=texts_of(machine.id for machine in machines),
        digest=np.zeros(len(machines), dtype=np.uint64),
        state=np.fromiter((m.state for m in machines), dtype=np.uint8, count=len(machines)),
        host_provider=providers.codes([host.provider if host else None for host in hosts]),
        host_ref=texts_of(host.ref if host else "" for host in hosts),
        shape=shapes.codes([Shape(m.profile, m.allocatable) for m in machines]),
        cluster=clusters.codes([m.cluster or "" for m in machines]),
        price_per_hour=np.array([m.price_per_hour for m in machines], dtype=np.float64),
        interruption_probability=np.array(
            [m.interruption_probability for m in machines], dtype=np.float64
        ),
        last_error=errors.codes([m.last_error for m in machines]),
        metadata=metadatas.codes([echo_of(m.shard_metadata) for m in machines]),
        host_providers=providers.table,
        shapes=shapes.table,
        clusters=clusters.table,
        last_errors=errors.table,
        metadatas=metadatas.table,
    ))  # fmt: skip


def with_digests(batch: MachineBatch) -> MachineBatch:
    """The same batch with a digest per row, computed from its columns."""
    value = batch.ids.hashes()
    for column in (
        batch.state.astype(np.uint64),
        _table_digests(batch.host_providers, repr)[batch.host_provider],
        batch.host_ref.hashes(),
        _table_digests(batch.shapes, _shape_text)[batch.shape],
        _table_digests(batch.clusters, repr)[batch.cluster],
        _bits(batch.price_per_hour),
        _bits(batch.interruption_probability),
        _table_digests(batch.last_errors, repr)[batch.last_error],
        _table_digests(batch.metadatas, repr)[batch.metadata],
    ):
        value = mix(value ^ column)
    digest = np.where(value == 0, np.uint64(1), value)
    return dataclasses.replace(batch, digest=digest)


def _bits(numbers: NDArray[np.float64]) -> U64:
    """The bits of each number; minus zero is zero."""
    return (numbers + 0.0).view(np.uint64)


def _table_digests(table: Sequence[ValueT], text: Callable[[ValueT], str]) -> U64:
    digests = (
        hashlib.blake2b(text(value).encode(errors="surrogatepass"), digest_size=8).digest()
        for value in table
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _shape_text(shape: Shape) -> str:
    profile = shape.profile
    return repr((
        profile.instance_type, profile.zone, int(profile.capacity_type),
        profile.resources.texts, profile.labels, shape.allocatable.texts,
    ))  # fmt: skip


def echo_of(metadata: Mapping[str, str]) -> Echo:
    """A metadata map in canonical order."""
    return tuple(sorted(metadata.items()))

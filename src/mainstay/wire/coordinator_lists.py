"""What BigFleet's tools list of a coordinator, to and from the wire; and its snapshot."""

from collections.abc import Iterable, Iterator
from typing import Final

from mainstay.model.coordination import Domain
from mainstay.model.coordinator_calls import (
    AssignedDomain,
    QuotaAllocation,
    RegisteredProvider,
    RegisteredShard,
    SeenReport,
    Snapshot,
)
from mainstay.model.errors import Rejected
from mainstay.wire.coordinator_codec import parsed, written
from mainstay.wire.handover_codec import (
    missing_from_wire,
    missing_to_wire,
    summary_from_wire,
    summary_to_wire,
)
from mainstay.wire.machines import sendable
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb

CHUNK_BYTES: Final = 1 << 20
"""Of each frame of a snapshot."""

_INT32_MAX: Final = 2**31 - 1


def shards_to_wire(rows: Iterable[RegisteredShard]) -> bytes:
    """The answer to ListShards."""
    return written(
        lambda: pb.ListShardsResponse(
            shards=[
                pb.ShardRegistryEntry(
                    shard_id=sendable(row.shard),
                    address=sendable(row.address),
                    registered_at_unix_ns=row.registered_at_ns,
                    last_heartbeat_unix_ns=row.last_heartbeat_ns,
                )
                for row in rows
            ]
        )
    )


def shards_from_wire(data: bytes) -> tuple[RegisteredShard, ...]:
    """The same, read."""
    return tuple(
        RegisteredShard(
            row.shard_id, row.address, row.registered_at_unix_ns, row.last_heartbeat_unix_ns
        )
        for row in parsed(pb.ListShardsResponse, data).shards
    )


def domains_to_wire(rows: Iterable[AssignedDomain]) -> bytes:
    """The answer to ListDomainAssignments."""
    return written(
        lambda: pb.ListDomainAssignmentsResponse(
            assignments=[
                pb.DomainAssignment(
                    topology_key=sendable(row.domain.key),
                    topology_value=sendable(row.domain.value),
                    shard_id=sendable(row.shard),
                )
                for row in rows
            ]
        )
    )


def domains_from_wire(data: bytes) -> tuple[AssignedDomain, ...]:
    """The same, read."""
    return tuple(
        AssignedDomain(Domain(row.topology_key, row.topology_value), row.shard_id)
        for row in parsed(pb.ListDomainAssignmentsResponse, data).assignments
    )


def reports_to_wire(rows: Iterable[SeenReport]) -> bytes:
    """The answer to ListShardReports; requirements of shortfalls are left out, as BigFleet does."""
    return written(lambda: pb.ListShardReportsResponse(reports=map(_report_message, rows)))


def _report_message(row: SeenReport) -> pb.ShardReportSnapshot:
    message = pb.ShardReportSnapshot(
        shard_id=sendable(row.shard),
        cycle=row.number,
        received_at_unix_ns=row.received_at_ns,
        summary=summary_to_wire(row.summary),
        shortfalls=map(missing_to_wire, row.missing),
    )
    for shortfall in message.shortfalls:
        shortfall.ClearField("requirements")
    return message


def reports_from_wire(data: bytes) -> tuple[SeenReport, ...]:
    """The same, read."""
    return tuple(
        SeenReport(
            shard=row.shard_id,
            number=row.cycle,
            received_at_ns=row.received_at_unix_ns,
            summary=summary_from_wire(row.summary),
            missing=tuple(map(missing_from_wire, row.shortfalls)),
        )
        for row in parsed(pb.ListShardReportsResponse, data).reports
    )


def quotas_to_wire(rows: Iterable[QuotaAllocation]) -> bytes:
    """The answer to ListQuotas."""
    return written(
        lambda: pb.ListQuotasResponse(
            allocations=[
                pb.QuotaAllocation(
                    provider=sendable(row.provider),
                    region=sendable(row.region),
                    per_shard={
                        sendable(shard): min(number, _INT32_MAX)
                        for shard, number in row.per_shard.items()
                    },
                )
                for row in rows
            ]
        )
    )


def quotas_from_wire(data: bytes) -> tuple[QuotaAllocation, ...]:
    """The same, read."""
    return tuple(
        QuotaAllocation(provider=row.provider, region=row.region, per_shard=dict(row.per_shard))
        for row in parsed(pb.ListQuotasResponse, data).allocations
    )


def providers_to_wire(rows: Iterable[RegisteredProvider]) -> bytes:
    """The answer to ListProviders."""
    return written(
        lambda: pb.ListProvidersResponse(
            providers=[
                pb.ProviderEntry(
                    name=sendable(row.name),
                    address=sendable(row.address),
                    region=sendable(row.region),
                )
                for row in rows
            ]
        )
    )


def providers_from_wire(data: bytes) -> tuple[RegisteredProvider, ...]:
    """The same, read."""
    return tuple(
        RegisteredProvider(row.name, row.address, row.region)
        for row in parsed(pb.ListProvidersResponse, data).providers
    )


def snapshot_to_wire(snapshot: Snapshot) -> Iterator[bytes]:
    """What it is, then what it holds, frame by frame."""
    yield pb.SnapshotSaveChunk(meta_json=snapshot.meta_json).SerializeToString()
    for start in range(0, len(snapshot.data), CHUNK_BYTES):
        chunk = snapshot.data[start : start + CHUNK_BYTES]
        yield pb.SnapshotSaveChunk(data=chunk).SerializeToString()


class SnapshotReader:
    """Puts the frames of a snapshot together again."""

    def __init__(self) -> None:
        self._meta: bytes | None = None
        self._parts: list[bytes] = []

    def heard(self, data: bytes) -> None:
        """The next frame; `Rejected` when it is none, or not in its place."""
        chunk = parsed(pb.SnapshotSaveChunk, data)
        match chunk.WhichOneof("payload"):
            case "meta_json" if self._meta is None:
                self._meta = chunk.meta_json
            case "data" if self._meta is not None:
                self._parts.append(chunk.data)
            case other:
                raise Rejected(f"not a snapshot: {other or 'nothing'} out of place")

    def whole(self) -> Snapshot:
        """All of it, when no more frame comes."""
        if self._meta is None:
            raise Rejected("not a snapshot: it has no frame")
        return Snapshot(self._meta, b"".join(self._parts))

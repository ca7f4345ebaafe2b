"""BigFleet's Coordinator on the network: bytes in, one typed call, bytes out.

Thin: what is checked about a request beyond its form is checked behind `CoordinatorCalls`. Here it
is decided who may call, in this order: whether this one leads, who calls, what is asked.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from mainstay.model.coordination import Domain, ReportAck, ShardReport
from mainstay.model.coordinator_calls import (
    AssignedDomain,
    Leads,
    QuotaAllocation,
    RegisteredProvider,
    RegisteredShard,
    SeenReport,
    Snapshot,
)
from mainstay.model.errors import MainstayError, NotSupported
from mainstay.model.ids import ShardId
from mainstay.wire import coordinator_lists as lists
from mainstay.wire.access import UNLED, admit, authorize, rule_of
from mainstay.wire.coordinator_codec import answer_to_wire, parsed, report_from_wire
from mainstay.wire.handover_codec import domain_from_wire, maybe_shard, shard_from_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.shard_view_server import Context, Handler, refuse
from mainstay.wire.tls import Identity, caller

SERVICE: Final = "bigfleet.v1alpha1.Coordinator"

REQUEST_BYTES_MAX: Final = 4 << 20
"""What gRPC takes in of one request before anybody here sees it."""

SERVER_OPTIONS: Final = (("grpc.max_receive_message_length", REQUEST_BYTES_MAX),)
"""For `mainstay.wire.transport.serving`, where these services are served."""

RowT = TypeVar("RowT")
MessageT = TypeVar("MessageT", bound=Message)
Body: TypeAlias = Callable[[bytes, Identity | None], Awaitable[bytes]]
"""What a call does once it is known that it may be made."""


class CoordinatorCalls(Leads, Protocol):
    """What may be asked of a coordinator. Raises only MainstayError.

    `by` is who asks, None on plaintext; the access table is kept before any of these is called.
    Lists come sorted.
    """

    async def report(self, report: ShardReport, by: Identity | None) -> ReportAck:
        """A heartbeat, and its answer. `by` is that very shard, or None."""

    async def assign_domain(self, domain: Domain, shard: ShardId, by: Identity | None) -> None:
        """Give a domain that nobody has to a shard. Unknown, Taken."""

    async def unassign_domain(self, domain: Domain, by: Identity | None) -> None:
        """Take a domain away; nothing when nobody has it."""

    async def remove_shard(
        self, shard: ShardId, by: Identity | None, *, force: bool = False
    ) -> None:
        """Forget a shard, and all that it has. Unknown."""

    async def list_shards(self) -> Sequence[RegisteredShard]:
        """By id."""

    async def list_domain_assignments(self) -> Sequence[AssignedDomain]:
        """By shard, key, value."""

    async def list_shard_reports(self, shard: str) -> Sequence[SeenReport]:
        """The last report of this shard, or of each."""

    async def list_quotas(self) -> Sequence[QuotaAllocation]:
        """Quotas of places, by provider and region."""

    async def list_providers(self) -> Sequence[RegisteredProvider]:
        """By name."""

    async def snapshot_save(self, by: Identity | None) -> Snapshot:
        """The whole state. Unknown when there is none yet."""


def coordinator_handler(calls: CoordinatorCalls) -> grpc.GenericRpcHandler:
    """The service Coordinator, for `mainstay.wire.transport.serving`."""
    bodies: dict[str, Body] = {
        "ReportShard": _report(calls),
        "AssignDomain": _assign(calls),
        "UnassignDomain": _unassign(calls),
        "RemoveShard": _remove(calls),
        "ListShardReports": _list_reports(calls),
        "ListShards": _listing(pb.ListShardsRequest, calls.list_shards, lists.shards_to_wire),
        "ListDomainAssignments": _listing(
            pb.ListDomainAssignmentsRequest, calls.list_domain_assignments, lists.domains_to_wire
        ),
        "ListQuotas": _listing(pb.ListQuotasRequest, calls.list_quotas, lists.quotas_to_wire),
        "ListProviders": _listing(
            pb.ListProvidersRequest, calls.list_providers, lists.providers_to_wire
        ),
        "JoinRaftCluster": _no_raft,
    }
    methods = {call: guarded(calls, SERVICE, call, body) for call, body in bodies.items()}
    methods["SnapshotSave"] = _snapshot(calls)
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def guarded(calls: Leads, service: str, call: str, body: Body) -> Handler:
    """A call of one request and one answer, behind the access table."""

    async def handle(data: bytes, context: Context) -> bytes:
        try:
            return await body(data, _admitted(calls, service, call, context))
        except MainstayError as error:
            await refuse(context, error)

    return grpc.unary_unary_rpc_method_handler(handle)


def _admitted(calls: Leads, service: str, call: str, context: Context) -> Identity | None:
    """Who calls, if anybody may here."""
    if (service, call) not in UNLED:
        calls.require_leading()
    identity = caller(context)
    admit(rule_of(service, call), identity)
    return identity


def _report(calls: CoordinatorCalls) -> Body:
    rule = rule_of(SERVICE, "ReportShard")

    async def body(data: bytes, by: Identity | None) -> bytes:
        report = report_from_wire(data)
        authorize(rule, by, report.shard)
        return answer_to_wire(await calls.report(report, by))

    return body


def _assign(calls: CoordinatorCalls) -> Body:
    async def body(data: bytes, by: Identity | None) -> bytes:
        asked = parsed(pb.AssignDomainRequest, data)
        domain = domain_from_wire(asked.topology_key, asked.topology_value)
        await calls.assign_domain(domain, shard_from_wire(asked.shard_id, "shard_id"), by)
        return pb.AssignDomainResponse().SerializeToString()

    return body


def _unassign(calls: CoordinatorCalls) -> Body:
    async def body(data: bytes, by: Identity | None) -> bytes:
        asked = parsed(pb.UnassignDomainRequest, data)
        await calls.unassign_domain(domain_from_wire(asked.topology_key, asked.topology_value), by)
        return pb.UnassignDomainResponse().SerializeToString()

    return body


def _remove(calls: CoordinatorCalls) -> Body:
    async def body(data: bytes, by: Identity | None) -> bytes:
        asked = parsed(pb.RemoveShardRequest, data)
        shard = shard_from_wire(asked.shard_id, "shard_id")
        await calls.remove_shard(shard, by, force=asked.force)
        return pb.RemoveShardResponse().SerializeToString()

    return body


def _list_reports(calls: CoordinatorCalls) -> Body:
    async def body(data: bytes, _: Identity | None) -> bytes:
        asked = parsed(pb.ListShardReportsRequest, data)
        rows = await calls.list_shard_reports(maybe_shard(asked.shard_id, "shard_id"))
        return await asyncio.to_thread(lists.reports_to_wire, rows)

    return body


def _listing(
    request: type[MessageT],
    rows: Callable[[], Awaitable[Sequence[RowT]]],
    encode: Callable[[Sequence[RowT]], bytes],
) -> Body:
    """A list that may be long: it is encoded beside the event loop."""

    async def body(data: bytes, _: Identity | None) -> bytes:
        parsed(request, data)
        return await asyncio.to_thread(encode, await rows())

    return body


async def _no_raft(data: bytes, _: Identity | None) -> bytes:
    asked = parsed(pb.JoinRaftClusterRequest, data)
    do = "start another `mainstay coordinator` on the same store"
    raise NotSupported(f"there is no Raft for {asked.node_id[:80]!a} to join: {do}")


def _snapshot(calls: CoordinatorCalls) -> Handler:
    async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            by = _admitted(calls, SERVICE, "SnapshotSave", context)
            parsed(pb.SnapshotSaveRequest, data)
            for frame in lists.snapshot_to_wire(await calls.snapshot_save(by)):
                yield frame
        except MainstayError as error:
            await refuse(context, error)

    return grpc.unary_stream_rpc_method_handler(handle)

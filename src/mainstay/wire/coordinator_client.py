"""A coordinator across the network, as shards, the command line and the dashboard ask it."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import grpc

from mainstay.model import coordinator_calls as c
from mainstay.model import coordinator_views as v
from mainstay.model.coordination import Domain, ReportAck, ShardReport
from mainstay.model.errors import MainstayError, NotLeading, Rejected, Unavailable
from mainstay.wire import coordinator_lists as lists
from mainstay.wire.access import ACCESS
from mainstay.wire.coordinator_codec import answer_from_wire, report_to_wire, written
from mainstay.wire.coordinator_server import SERVICE
from mainstay.wire.coordinator_view_codec import from_bytes, to_bytes
from mainstay.wire.coordinator_view_server import CONTROL_SERVICE, VIEW_SERVICE
from mainstay.wire.machines import sendable
from mainstay.wire.pb.bigfleet.v1alpha1 import coordinator_pb2 as pb
from mainstay.wire.status import CODE_KEY, error_from, leader_of

TIMEOUT_S: Final = 10.0
SNAPSHOT_BYTES_MAX: Final = 256 << 20

AnswerT = TypeVar("AnswerT")

_THEIRS: Final = frozenset(ACCESS[SERVICE]) - {"SnapshotSave"}


class RemoteCoordinator:
    """One coordinator over gRPC, leading or not. Raises only MainstayError."""

    def __init__(
        self, channel: grpc.aio.Channel, *, name: str, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`name` is how it is called in errors; the channel stays the caller's to close."""
        self._name, self._timeout_s = name, timeout_s
        self._snapshot: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            f"/{SERVICE}/SnapshotSave"
        )
        paths = [(SERVICE, call) for call in sorted(_THEIRS)]
        paths += [(ours, call) for ours in (VIEW_SERVICE, CONTROL_SERVICE) for call in ACCESS[ours]]
        self._methods: dict[tuple[str, str], grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {
            (service, call): channel.unary_unary(f"/{service}/{call}") for service, call in paths
        }

    async def report(self, report: ShardReport) -> ReportAck:
        """A heartbeat, and its answer."""
        return await self._theirs("ReportShard", report_to_wire(report), answer_from_wire)

    async def assign_domain(self, domain: Domain, shard: str) -> None:
        """Give a domain that nobody has to a shard."""
        asked = pb.AssignDomainRequest(
            topology_key=sendable(domain.key),
            topology_value=sendable(domain.value),
            shard_id=sendable(shard),
        )
        await self._theirs("AssignDomain", asked.SerializeToString(), _nothing)

    async def unassign_domain(self, domain: Domain) -> None:
        """Take a domain away."""
        asked = pb.UnassignDomainRequest(
            topology_key=sendable(domain.key), topology_value=sendable(domain.value)
        )
        await self._theirs("UnassignDomain", asked.SerializeToString(), _nothing)

    async def remove_shard(self, shard: str, *, force: bool = False) -> None:
        """Forget a shard, and all that it has."""
        asked = pb.RemoveShardRequest(shard_id=sendable(shard), force=force).SerializeToString()
        await self._theirs("RemoveShard", asked, _nothing)

    async def list_shards(self) -> tuple[c.RegisteredShard, ...]:
        """By id."""
        return await self._theirs("ListShards", b"", lists.shards_from_wire)

    async def list_domain_assignments(self) -> tuple[c.AssignedDomain, ...]:
        """By shard, key, value."""
        return await self._theirs("ListDomainAssignments", b"", lists.domains_from_wire)

    async def list_shard_reports(self, shard: str = "") -> tuple[c.SeenReport, ...]:
        """The last report of this shard, or of each."""
        asked = written(lambda: pb.ListShardReportsRequest(shard_id=sendable(shard)))
        return await self._theirs("ListShardReports", asked, lists.reports_from_wire)

    async def list_quotas(self) -> tuple[c.QuotaAllocation, ...]:
        """Quotas of places."""
        return await self._theirs("ListQuotas", b"", lists.quotas_from_wire)

    async def list_providers(self) -> tuple[c.RegisteredProvider, ...]:
        """By name."""
        return await self._theirs("ListProviders", b"", lists.providers_from_wire)

    async def join_raft_cluster(self, node: str, address: str) -> None:
        """What BigFleet's replicas call; refused by ours."""
        asked = pb.JoinRaftClusterRequest(node_id=sendable(node), raft_address=sendable(address))
        await self._theirs("JoinRaftCluster", asked.SerializeToString(), _nothing)

    async def snapshot_save(self) -> c.Snapshot:
        """The whole state."""
        reader, size = lists.SnapshotReader(), 0
        try:
            async for frame in self._snapshot(b"", timeout=self._timeout_s):
                size += len(frame)
                if size > SNAPSHOT_BYTES_MAX:
                    raise Unavailable(f"{self._name}: more than {SNAPSHOT_BYTES_MAX} bytes")
                self._read(reader.heard, frame)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        return self._read(lambda _: reader.whole(), b"")

    async def shards(self, query: v.ShardQuery) -> v.ShardRows:
        """Who reports."""
        return await self._ours(VIEW_SERVICE, "Shards", query, v.ShardRows)

    async def domains(self, query: v.DomainQuery) -> v.DomainRows:
        """Who has which domain."""
        return await self._ours(VIEW_SERVICE, "Domains", query, v.DomainRows)

    async def clusters(self, query: v.ClusterBindingQuery) -> v.ClusterBindingRows:
        """Who serves which cluster."""
        return await self._ours(VIEW_SERVICE, "Clusters", query, v.ClusterBindingRows)

    async def quotas(self, query: v.QuotaQuery) -> v.QuotaRows:
        """Who holds how much of what."""
        return await self._ours(VIEW_SERVICE, "Quotas", query, v.QuotaRows)

    async def providers(self, query: v.ProviderRegistryQuery) -> v.ProviderRegistryRows:
        """Providers that shards have told of."""
        return await self._ours(VIEW_SERVICE, "Providers", query, v.ProviderRegistryRows)

    async def instructions(self, query: v.InstructionQuery) -> v.InstructionRows:
        """What shards were told and have not done."""
        return await self._ours(VIEW_SERVICE, "Instructions", query, v.InstructionRows)

    async def moves(self, query: v.MoveQuery) -> v.MoveRows:
        """Hand-overs, under way and past."""
        return await self._ours(VIEW_SERVICE, "Moves", query, v.MoveRows)

    async def conflicts(self, query: v.ConflictQuery) -> v.ConflictRows:
        """What two claim."""
        return await self._ours(VIEW_SERVICE, "Conflicts", query, v.ConflictRows)

    async def plan(self, query: v.PlanQuery) -> v.PlanRow:
        """What the planner would do now, and why not more."""
        return await self._ours(VIEW_SERVICE, "Plan", query, v.PlanRow)

    async def standing(self, query: v.StandingQuery) -> v.StandingRow:
        """Who this one is, and who leads."""
        return await self._ours(VIEW_SERVICE, "Standing", query, v.StandingRow)

    async def move_domain(self, request: c.MoveDomainRequest) -> c.CoordinatorDone:
        """Give a domain to another shard."""
        return await self._ours(CONTROL_SERVICE, "MoveDomain", request, c.CoordinatorDone)

    async def set_quota(self, request: c.SetQuotaRequest) -> c.CoordinatorDone:
        """Entitle."""
        return await self._ours(CONTROL_SERVICE, "SetQuota", request, c.CoordinatorDone)

    async def clear_quota(self, request: c.ClearQuotaRequest) -> c.CoordinatorDone:
        """Limit no longer."""
        return await self._ours(CONTROL_SERVICE, "ClearQuota", request, c.CoordinatorDone)

    async def unbind_cluster(self, request: c.UnbindClusterRequest) -> c.CoordinatorDone:
        """Forget a binding."""
        return await self._ours(CONTROL_SERVICE, "UnbindCluster", request, c.CoordinatorDone)

    async def cancel_move(self, request: c.CancelMoveRequest) -> c.CoordinatorDone:
        """Take back a move."""
        return await self._ours(CONTROL_SERVICE, "CancelMove", request, c.CoordinatorDone)

    async def return_machines(self, request: c.ReturnMachinesRequest) -> c.CoordinatorDone:
        """Give a shard back what no shard has."""
        return await self._ours(CONTROL_SERVICE, "ReturnMachines", request, c.CoordinatorDone)

    async def _theirs(self, call: str, data: bytes, read: Callable[[bytes], AnswerT]) -> AnswerT:
        return self._read(read, await self._asked(SERVICE, call, data))

    async def _ours(self, service: str, call: str, request: Any, answer: type[AnswerT]) -> AnswerT:
        data = await self._asked(service, call, to_bytes(request))
        return self._read(lambda told: from_bytes(answer, told), data)

    async def _asked(self, service: str, call: str, data: bytes) -> bytes:
        method = self._methods[service, call]
        try:
            answer: bytes = await method(data, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from error
        return answer

    def _read(self, read: Callable[[bytes], AnswerT], data: bytes) -> AnswerT:
        """An answer that cannot be read is not the fault of the question."""
        try:
            return read(data)
        except Rejected as error:
            raise Unavailable(f"{self._name}: its answer is broken: {error.message}") from error

    def _error(self, error: grpc.aio.AioRpcError) -> MainstayError:
        code, metadata = error.code(), tuple(error.trailing_metadata() or ())
        told = f"{self._name}: {error.details()}"
        if any(key == CODE_KEY for key, _ in metadata):
            return error_from(code, told, metadata=metadata)
        if code is grpc.StatusCode.FAILED_PRECONDITION:
            # What BigFleet's coordinators say that do not lead.
            return NotLeading(told, leader=leader_of(metadata))
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            # gRPC's own word about a message that is too large.
            return Unavailable(told)
        known = error_from(code, told, metadata=metadata)
        if isinstance(known, Unavailable):
            why = error.details()
            return Unavailable(f"{self._name} does not answer, is it running? ({why})")
        return known


def _nothing(_: bytes) -> None:
    """An answer that says no more than that it is one."""

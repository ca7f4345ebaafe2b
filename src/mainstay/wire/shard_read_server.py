"""BigFleet's ShardRead on the network: what a shard made of each need, for tools that only read."""

from collections.abc import AsyncIterator, Iterable
from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError

from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.questions import InspectedNeed, Inspection, ShardViewCalls
from mainstay.wire.access import authorize, rule_of
from mainstay.wire.machines import sendable, sendable_map
from mainstay.wire.needs import need_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2
from mainstay.wire.pb.bigfleet.v1alpha1 import shardread_pb2 as pb
from mainstay.wire.shard_view_server import Context, Handler, refuse
from mainstay.wire.tls import caller

READ_SERVICE: Final = "bigfleet.v1alpha1.ShardRead"
READ_CALL: Final = "InspectNeeds"
_INT32_MAX: Final = 2**31 - 1


def read_handler(calls: ShardViewCalls) -> grpc.GenericRpcHandler:
    """The service ShardRead, for `mainstay.wire.transport.serving`."""

    rule = rule_of(READ_SERVICE, READ_CALL)

    async def handle(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            authorize(rule, caller(context))
            asked = _request(data)
            inspection = await calls.inspect(asked.cluster_id, asked.limit)
            for frame in frames(inspection):
                yield frame.SerializeToString()
        except MainstayError as error:
            await refuse(context, error)

    methods: dict[str, Handler] = {READ_CALL: grpc.unary_stream_rpc_method_handler(handle)}
    return grpc.method_handlers_generic_handler(READ_SERVICE, methods)


def frames(inspection: Inspection) -> Iterable[pb.InspectNeedsResponse]:
    """The header, always; then the needs."""
    header = pb.InspectNeedsHeader(
        cycle=inspection.cycle,
        computed_at_unix_nanos=inspection.computed_at_nanos,
        total_needs=_int32(inspection.total),
    )
    yield pb.InspectNeedsResponse(header=header)
    for need in inspection.needs:
        yield pb.InspectNeedsResponse(need=_view(need))


def _request(data: bytes) -> pb.InspectNeedsRequest:
    try:
        asked = pb.InspectNeedsRequest.FromString(data)
    except DecodeError as error:
        raise Rejected(f"{len(data)} bytes that are no InspectNeedsRequest") from error
    if asked.limit < 0:
        raise Rejected(f"limit must not be negative: {asked.limit} (0 is none)")
    return asked


def _view(need: InspectedNeed) -> pb.NeedView:
    view = pb.NeedView(
        need=need_to_wire(need.need),
        cluster_id=sendable(need.cluster),
        arrival_unix_nanos=need.arrival_nanos,
        profile_fingerprint=need.fingerprint,
        satisfied=need.satisfied,
        claimed_machine_count=_int32(need.claimed),
        bootstrap_count=_int32(need.bootstraps),
        provision_count=_int32(need.provisions),
        same_domain=sendable(need.domain),
        same_satisfiable=need.satisfiable,
        acquisition_parked=need.parked,
        parked_age_cycles=_int32(need.parked_age),
        age_cycles_unmet=_int32(need.unmet_age),
        unmet_reason=cast("pb.UnmetReason", int(need.reason)),
        same_candidates=[
            pb.DomainCoverage(
                domain=sendable(each.domain),
                coverage_per_mille=each.per_mille,
                satisfiable=each.satisfiable,
            )
            for each in need.candidates
        ],
    )
    if not need.satisfied:
        view.residual_deficit.CopyFrom(provider_pb2.Resources(resources=sendable_map(need.missing)))
    if need.supply is not None:
        idle, configured, speculative = map(_int32, need.supply)
        supply = pb.MatchingSupply(idle=idle, configured=configured, speculative=speculative)
        view.matching_supply.CopyFrom(supply)
    if need.victims is not None:
        freed = provider_pb2.Resources(resources=sendable_map(need.freed))
        summary = pb.PreemptionSummary(victims_found=_int32(need.victims), capacity_freed=freed)
        view.preemption.CopyFrom(summary)
    return view


def _int32(number: int) -> int:
    return min(number, _INT32_MAX)

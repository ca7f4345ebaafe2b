"""Values of mainstay.model.coordinator_views and coordinator_calls to and from the wire."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mainstay.model import coordinator_calls as c
from mainstay.model import coordinator_views as v
from mainstay.wire.pb.mainstay.v1 import coordinator_pb2 as pb
from mainstay.wire.values import ValueCodec

MESSAGES: Final[Mapping[type[Any], type[Message]]] = {
    v.CoordinatorStamp: pb.CoordinatorStamp,
    v.ShardQuery: pb.ShardQuery, v.ShardRow: pb.ShardRow, v.ShardRows: pb.ShardRows,
    v.DomainQuery: pb.DomainQuery, v.DomainRow: pb.DomainRow, v.DomainRows: pb.DomainRows,
    v.ClusterBindingQuery: pb.ClusterBindingQuery, v.ClusterBindingRow: pb.ClusterBindingRow,
    v.ClusterBindingRows: pb.ClusterBindingRows,
    v.QuotaQuery: pb.QuotaQuery, v.QuotaShare: pb.QuotaShare, v.QuotaRow: pb.QuotaRow,
    v.QuotaRows: pb.QuotaRows,
    v.ProviderRegistryQuery: pb.ProviderRegistryQuery,
    v.ProviderRegistryRow: pb.ProviderRegistryRow,
    v.ProviderRegistryRows: pb.ProviderRegistryRows,
    v.InstructionQuery: pb.InstructionQuery, v.InstructionRow: pb.InstructionRow,
    v.InstructionRows: pb.InstructionRows,
    v.MoveQuery: pb.MoveQuery, v.MoveRow: pb.MoveRow, v.MoveRows: pb.MoveRows,
    v.ConflictQuery: pb.ConflictQuery, v.ConflictRow: pb.ConflictRow,
    v.ConflictRows: pb.ConflictRows,
    v.PlanQuery: pb.PlanQuery, v.ProposalRow: pb.ProposalRow, v.VerdictRow: pb.VerdictRow,
    v.PlanRow: pb.PlanRow,
    v.StandingQuery: pb.StandingQuery, v.StandingRow: pb.StandingRow,
    c.MoveDomainRequest: pb.MoveDomainRequest, c.SetQuotaRequest: pb.SetQuotaRequest,
    c.ClearQuotaRequest: pb.ClearQuotaRequest, c.UnbindClusterRequest: pb.UnbindClusterRequest,
    c.CancelMoveRequest: pb.CancelMoveRequest,
    c.ReturnMachinesRequest: pb.ReturnMachinesRequest, c.CoordinatorDone: pb.CoordinatorDone,
}  # fmt: skip

_CODEC: Final = ValueCodec(MESSAGES)

to_bytes = _CODEC.to_bytes
from_bytes = _CODEC.from_bytes

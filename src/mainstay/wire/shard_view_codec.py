"""Values of mainstay.model.views and questions to and from the wire.

They go by the one rule of `mainstay.wire.values`; rows of demand are BigFleet's and go their own
way.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mainstay.model import group_views as g
from mainstay.model import money_views as m
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.progress import Progress
from mainstay.model.rollup import RawNeed
from mainstay.wire.needs import need_from_wire, need_to_wire
from mainstay.wire.pb.mainstay.v1 import shard_pb2 as pb
from mainstay.wire.values import OwnWay, ValueCodec

MESSAGES: Final[Mapping[type[Any], type[Message]]] = {
    v.Stamp: pb.Stamp, Progress: pb.Progress,
    v.MachineQuery: pb.MachineQuery, v.MachineRow: pb.MachineRow, v.MachineRows: pb.MachineRows,
    v.NeedQuery: pb.NeedQuery, v.NeedRow: pb.NeedRow, v.NeedRows: pb.NeedRows,
    v.ClusterQuery: pb.ClusterQuery, v.ClusterRow: pb.ClusterRow, v.ClusterRows: pb.ClusterRows,
    v.ActionQuery: pb.ActionQuery, v.ActionRow: pb.ActionRow, v.ActionRows: pb.ActionRows,
    v.ShortfallQuery: pb.ShortfallQuery, v.ShortfallRow: pb.ShortfallRow,
    v.ShortfallRows: pb.ShortfallRows,
    v.ProviderQuery: pb.ProviderQuery, v.ProviderRow: pb.ProviderRow,
    v.ProviderRows: pb.ProviderRows,
    v.ControlQuery: pb.ControlQuery, v.ControlRow: pb.ControlRow, v.ControlRows: pb.ControlRows,
    v.SummaryQuery: pb.SummaryQuery, v.Summary: pb.SummaryAnswer,
    m.MoneyQuery: pb.MoneyQuery, v.MoneyRow: pb.MoneyRow, m.MoneyRows: pb.MoneyRows,
    q.Question: pb.Question, q.Explanation: pb.Explanation, q.Expected: pb.Expected,
    q.Selection: pb.Selection, q.Match: pb.Match, q.PriceChange: pb.PriceChange,
    q.Addition: pb.Addition, q.QuotaChange: pb.QuotaChange, q.WhatIfQuery: pb.WhatIfQuery,
    q.NeedChange: pb.NeedChange, q.WhatIfAnswer: pb.WhatIfAnswer,
    q.SetControlRequest: pb.SetControlRequest, q.LiftControlRequest: pb.LiftControlRequest,
    q.RetireRequest: pb.RetireRequest, q.Retired: pb.Retired,
    g.GroupQuery: pb.GroupQuery, g.GroupRow: pb.GroupRow, g.GroupRows: pb.GroupRows,
}  # fmt: skip

_CODEC: Final = ValueCodec(MESSAGES, {RawNeed: OwnWay(need_to_wire, need_from_wire)})

to_bytes = _CODEC.to_bytes
from_bytes = _CODEC.from_bytes

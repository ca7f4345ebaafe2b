from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CoordinatorStamp(_message.Message):
    __slots__ = ("coordinator", "term")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    term: int
    def __init__(self, coordinator: _Optional[str] = ..., term: _Optional[int] = ...) -> None: ...

class ShardQuery(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: str
    def __init__(self, shard: _Optional[str] = ...) -> None: ...

class ShardRow(_message.Message):
    __slots__ = ("id", "address", "epoch", "registered_at_ns", "last_heartbeat_ns", "machines", "free", "domains", "clusters", "strays", "takes_all", "can_hand_over", "instructions", "conflicts", "shortfalls", "removing")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_NS_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    TAKES_ALL_FIELD_NUMBER: _ClassVar[int]
    CAN_HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    id: str
    address: str
    epoch: int
    registered_at_ns: int
    last_heartbeat_ns: int
    machines: int
    free: int
    domains: int
    clusters: int
    strays: int
    takes_all: bool
    can_hand_over: bool
    instructions: int
    conflicts: int
    shortfalls: int
    removing: bool
    def __init__(self, id: _Optional[str] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., registered_at_ns: _Optional[int] = ..., last_heartbeat_ns: _Optional[int] = ..., machines: _Optional[int] = ..., free: _Optional[int] = ..., domains: _Optional[int] = ..., clusters: _Optional[int] = ..., strays: _Optional[int] = ..., takes_all: _Optional[bool] = ..., can_hand_over: _Optional[bool] = ..., instructions: _Optional[int] = ..., conflicts: _Optional[int] = ..., shortfalls: _Optional[int] = ..., removing: _Optional[bool] = ...) -> None: ...

class ShardRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    rows: _containers.RepeatedCompositeFieldContainer[ShardRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ShardRow, _Mapping]]] = ...) -> None: ...

class DomainQuery(_message.Message):
    __slots__ = ("shard", "key", "value", "limit")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    key: str
    value: str
    limit: int
    def __init__(self, shard: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class DomainRow(_message.Message):
    __slots__ = ("key", "value", "shard", "to", "state", "strays")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    shard: str
    to: str
    state: str
    strays: int
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., shard: _Optional[str] = ..., to: _Optional[str] = ..., state: _Optional[str] = ..., strays: _Optional[int] = ...) -> None: ...

class DomainRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[DomainRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[DomainRow, _Mapping]]] = ...) -> None: ...

class ClusterBindingQuery(_message.Message):
    __slots__ = ("cluster", "shard", "limit")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    shard: str
    limit: int
    def __init__(self, cluster: _Optional[str] = ..., shard: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ClusterBindingRow(_message.Message):
    __slots__ = ("cluster", "shard", "bound_at_ns")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    BOUND_AT_NS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    shard: str
    bound_at_ns: int
    def __init__(self, cluster: _Optional[str] = ..., shard: _Optional[str] = ..., bound_at_ns: _Optional[int] = ...) -> None: ...

class ClusterBindingRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[ClusterBindingRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[ClusterBindingRow, _Mapping]]] = ...) -> None: ...

class QuotaQuery(_message.Message):
    __slots__ = ("kind", "name", "region")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    region: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class QuotaShare(_message.Message):
    __slots__ = ("shard", "granted", "held", "used", "wanted")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    shard: str
    granted: int
    held: int
    used: int
    wanted: int
    def __init__(self, shard: _Optional[str] = ..., granted: _Optional[int] = ..., held: _Optional[int] = ..., used: _Optional[int] = ..., wanted: _Optional[int] = ...) -> None: ...

class QuotaRow(_message.Message):
    __slots__ = ("kind", "name", "region", "entitled", "granted", "shares")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    region: str
    entitled: int
    granted: int
    shares: _containers.RepeatedCompositeFieldContainer[QuotaShare]
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., region: _Optional[str] = ..., entitled: _Optional[int] = ..., granted: _Optional[int] = ..., shares: _Optional[_Iterable[_Union[QuotaShare, _Mapping]]] = ...) -> None: ...

class QuotaRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    rows: _containers.RepeatedCompositeFieldContainer[QuotaRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[QuotaRow, _Mapping]]] = ...) -> None: ...

class ProviderRegistryQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProviderRegistryRow(_message.Message):
    __slots__ = ("name", "address", "region", "shards")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    region: str
    shards: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., region: _Optional[str] = ..., shards: _Optional[_Iterable[str]] = ...) -> None: ...

class ProviderRegistryRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    rows: _containers.RepeatedCompositeFieldContainer[ProviderRegistryRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ProviderRegistryRow, _Mapping]]] = ...) -> None: ...

class InstructionQuery(_message.Message):
    __slots__ = ("shard", "limit")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    limit: int
    def __init__(self, shard: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class InstructionRow(_message.Message):
    __slots__ = ("shard", "sequence", "id", "kind", "what", "move", "created_at_ns", "attempts", "last_outcome", "last_reason")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    MOVE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LAST_REASON_FIELD_NUMBER: _ClassVar[int]
    shard: str
    sequence: int
    id: str
    kind: str
    what: str
    move: str
    created_at_ns: int
    attempts: int
    last_outcome: str
    last_reason: str
    def __init__(self, shard: _Optional[str] = ..., sequence: _Optional[int] = ..., id: _Optional[str] = ..., kind: _Optional[str] = ..., what: _Optional[str] = ..., move: _Optional[str] = ..., created_at_ns: _Optional[int] = ..., attempts: _Optional[int] = ..., last_outcome: _Optional[str] = ..., last_reason: _Optional[str] = ...) -> None: ...

class InstructionRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[InstructionRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[InstructionRow, _Mapping]]] = ...) -> None: ...

class MoveQuery(_message.Message):
    __slots__ = ("shard", "unsettled", "limit")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    unsettled: bool
    limit: int
    def __init__(self, shard: _Optional[str] = ..., unsettled: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class MoveRow(_message.Message):
    __slots__ = ("id", "donor", "recipient", "tier", "state", "wanted", "machines", "created_at_ns", "settled_at_ns", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    DONOR_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    donor: str
    recipient: str
    tier: int
    state: str
    wanted: str
    machines: _containers.RepeatedScalarFieldContainer[str]
    created_at_ns: int
    settled_at_ns: int
    why: str
    def __init__(self, id: _Optional[str] = ..., donor: _Optional[str] = ..., recipient: _Optional[str] = ..., tier: _Optional[int] = ..., state: _Optional[str] = ..., wanted: _Optional[str] = ..., machines: _Optional[_Iterable[str]] = ..., created_at_ns: _Optional[int] = ..., settled_at_ns: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class MoveRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[MoveRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[MoveRow, _Mapping]]] = ...) -> None: ...

class ConflictQuery(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: str
    def __init__(self, shard: _Optional[str] = ...) -> None: ...

class ConflictRow(_message.Message):
    __slots__ = ("kind", "subject", "holder", "claimant", "first_seen_ns", "last_seen_ns", "times", "what_to_do")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    CLAIMANT_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEEN_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_NS_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    WHAT_TO_DO_FIELD_NUMBER: _ClassVar[int]
    kind: str
    subject: str
    holder: str
    claimant: str
    first_seen_ns: int
    last_seen_ns: int
    times: int
    what_to_do: str
    def __init__(self, kind: _Optional[str] = ..., subject: _Optional[str] = ..., holder: _Optional[str] = ..., claimant: _Optional[str] = ..., first_seen_ns: _Optional[int] = ..., last_seen_ns: _Optional[int] = ..., times: _Optional[int] = ..., what_to_do: _Optional[str] = ...) -> None: ...

class ConflictRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    rows: _containers.RepeatedCompositeFieldContainer[ConflictRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ConflictRow, _Mapping]]] = ...) -> None: ...

class PlanQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProposalRow(_message.Message):
    __slots__ = ("donor", "recipient", "tier", "wanted", "machines_max", "priority", "fingerprint", "why")
    DONOR_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    MACHINES_MAX_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    donor: str
    recipient: str
    tier: int
    wanted: str
    machines_max: int
    priority: int
    fingerprint: str
    why: str
    def __init__(self, donor: _Optional[str] = ..., recipient: _Optional[str] = ..., tier: _Optional[int] = ..., wanted: _Optional[str] = ..., machines_max: _Optional[int] = ..., priority: _Optional[int] = ..., fingerprint: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class VerdictRow(_message.Message):
    __slots__ = ("shard", "fingerprint", "priority", "age", "sentence")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    shard: str
    fingerprint: str
    priority: int
    age: int
    sentence: str
    def __init__(self, shard: _Optional[str] = ..., fingerprint: _Optional[str] = ..., priority: _Optional[int] = ..., age: _Optional[int] = ..., sentence: _Optional[str] = ...) -> None: ...

class PlanRow(_message.Message):
    __slots__ = ("stamp", "at_ns", "acts", "proposals", "verdicts")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    ACTS_FIELD_NUMBER: _ClassVar[int]
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    at_ns: int
    acts: bool
    proposals: _containers.RepeatedCompositeFieldContainer[ProposalRow]
    verdicts: _containers.RepeatedCompositeFieldContainer[VerdictRow]
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., at_ns: _Optional[int] = ..., acts: _Optional[bool] = ..., proposals: _Optional[_Iterable[_Union[ProposalRow, _Mapping]]] = ..., verdicts: _Optional[_Iterable[_Union[VerdictRow, _Mapping]]] = ...) -> None: ...

class StandingQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StandingRow(_message.Message):
    __slots__ = ("id", "leads", "term", "leader", "store")
    ID_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    id: str
    leads: bool
    term: int
    leader: str
    store: str
    def __init__(self, id: _Optional[str] = ..., leads: _Optional[bool] = ..., term: _Optional[int] = ..., leader: _Optional[str] = ..., store: _Optional[str] = ...) -> None: ...

class MoveDomainRequest(_message.Message):
    __slots__ = ("key", "value", "to", "reason", "by")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    to: str
    reason: str
    by: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., to: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class SetQuotaRequest(_message.Message):
    __slots__ = ("kind", "name", "region", "entitled", "reason", "by", "forget_waiting")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    ENTITLED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    FORGET_WAITING_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    region: str
    entitled: int
    reason: str
    by: str
    forget_waiting: bool
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., region: _Optional[str] = ..., entitled: _Optional[int] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., forget_waiting: _Optional[bool] = ...) -> None: ...

class ClearQuotaRequest(_message.Message):
    __slots__ = ("kind", "name", "region", "reason", "by")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    region: str
    reason: str
    by: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., region: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class UnbindClusterRequest(_message.Message):
    __slots__ = ("cluster", "reason", "by")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    reason: str
    by: str
    def __init__(self, cluster: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class CancelMoveRequest(_message.Message):
    __slots__ = ("move", "reason", "by")
    MOVE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    move: str
    reason: str
    by: str
    def __init__(self, move: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ReturnMachinesRequest(_message.Message):
    __slots__ = ("shard", "machines", "reason", "by")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    shard: str
    machines: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    by: str
    def __init__(self, shard: _Optional[str] = ..., machines: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class CoordinatorDone(_message.Message):
    __slots__ = ("stamp", "sentence")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    stamp: CoordinatorStamp
    sentence: str
    def __init__(self, stamp: _Optional[_Union[CoordinatorStamp, _Mapping]] = ..., sentence: _Optional[str] = ...) -> None: ...

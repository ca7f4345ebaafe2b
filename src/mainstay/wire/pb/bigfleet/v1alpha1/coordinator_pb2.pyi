from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as _provider_pb2
from mainstay.wire.pb.mainstay.v1 import handover_pb2 as _handover_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ShardReport(_message.Message):
    __slots__ = ("shard_id", "cycle", "timestamp_unix_nanos", "shard_epoch", "summary", "shortfalls", "instruction_acks", "shard_address", "can_hand_over", "term_seen", "clusters", "takes_all", "domains", "strays", "providers", "quota", "away")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_ACKS_FIELD_NUMBER: _ClassVar[int]
    SHARD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CAN_HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    TERM_SEEN_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    TAKES_ALL_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    cycle: int
    timestamp_unix_nanos: int
    shard_epoch: int
    summary: ShardSummary
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    instruction_acks: _containers.RepeatedCompositeFieldContainer[InstructAck]
    shard_address: str
    can_hand_over: bool
    term_seen: int
    clusters: _containers.RepeatedScalarFieldContainer[str]
    takes_all: bool
    domains: _containers.RepeatedCompositeFieldContainer[_handover_pb2.Domain]
    strays: _containers.RepeatedCompositeFieldContainer[_handover_pb2.Stray]
    providers: _containers.RepeatedCompositeFieldContainer[_handover_pb2.KnownProvider]
    quota: _containers.RepeatedCompositeFieldContainer[_handover_pb2.QuotaLine]
    away: _containers.RepeatedCompositeFieldContainer[_handover_pb2.HandedMachine]
    def __init__(self, shard_id: _Optional[str] = ..., cycle: _Optional[int] = ..., timestamp_unix_nanos: _Optional[int] = ..., shard_epoch: _Optional[int] = ..., summary: _Optional[_Union[ShardSummary, _Mapping]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ..., instruction_acks: _Optional[_Iterable[_Union[InstructAck, _Mapping]]] = ..., shard_address: _Optional[str] = ..., can_hand_over: _Optional[bool] = ..., term_seen: _Optional[int] = ..., clusters: _Optional[_Iterable[str]] = ..., takes_all: _Optional[bool] = ..., domains: _Optional[_Iterable[_Union[_handover_pb2.Domain, _Mapping]]] = ..., strays: _Optional[_Iterable[_Union[_handover_pb2.Stray, _Mapping]]] = ..., providers: _Optional[_Iterable[_Union[_handover_pb2.KnownProvider, _Mapping]]] = ..., quota: _Optional[_Iterable[_Union[_handover_pb2.QuotaLine, _Mapping]]] = ..., away: _Optional[_Iterable[_Union[_handover_pb2.HandedMachine, _Mapping]]] = ...) -> None: ...

class ShardSummary(_message.Message):
    __slots__ = ("total_machines", "free_machines", "per_instance_type_counts", "per_zone_counts", "provider_address", "free", "serving")
    class PerInstanceTypeCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class PerZoneCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_MACHINES_FIELD_NUMBER: _ClassVar[int]
    FREE_MACHINES_FIELD_NUMBER: _ClassVar[int]
    PER_INSTANCE_TYPE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PER_ZONE_COUNTS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    total_machines: int
    free_machines: int
    per_instance_type_counts: _containers.ScalarMap[str, int]
    per_zone_counts: _containers.ScalarMap[str, int]
    provider_address: str
    free: _containers.RepeatedCompositeFieldContainer[_handover_pb2.FreeMachines]
    serving: _containers.RepeatedCompositeFieldContainer[_handover_pb2.ServingMachines]
    def __init__(self, total_machines: _Optional[int] = ..., free_machines: _Optional[int] = ..., per_instance_type_counts: _Optional[_Mapping[str, int]] = ..., per_zone_counts: _Optional[_Mapping[str, int]] = ..., provider_address: _Optional[str] = ..., free: _Optional[_Iterable[_Union[_handover_pb2.FreeMachines, _Mapping]]] = ..., serving: _Optional[_Iterable[_Union[_handover_pb2.ServingMachines, _Mapping]]] = ...) -> None: ...

class Shortfall(_message.Message):
    __slots__ = ("requirements", "deficit", "priority", "age_cycles", "interruption_penalty_bucket", "min_unit", "topology", "quota", "fingerprint", "reclamation_penalty_bucket")
    class MinUnitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    DEFICIT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    AGE_CYCLES_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    MIN_UNIT_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    RECLAMATION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    requirements: _containers.RepeatedCompositeFieldContainer[_capacity_pb2.NodeSelectorRequirement]
    deficit: _provider_pb2.Resources
    priority: int
    age_cycles: int
    interruption_penalty_bucket: _capacity_pb2.PenaltyBucket
    min_unit: _containers.ScalarMap[str, str]
    topology: bool
    quota: bool
    fingerprint: str
    reclamation_penalty_bucket: _capacity_pb2.PenaltyBucket
    def __init__(self, requirements: _Optional[_Iterable[_Union[_capacity_pb2.NodeSelectorRequirement, _Mapping]]] = ..., deficit: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., priority: _Optional[int] = ..., age_cycles: _Optional[int] = ..., interruption_penalty_bucket: _Optional[_Union[_capacity_pb2.PenaltyBucket, str]] = ..., min_unit: _Optional[_Mapping[str, str]] = ..., topology: _Optional[bool] = ..., quota: _Optional[bool] = ..., fingerprint: _Optional[str] = ..., reclamation_penalty_bucket: _Optional[_Union[_capacity_pb2.PenaltyBucket, str]] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ("coordinator_term", "acknowledged", "instructions", "grants", "remarks")
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    coordinator_term: int
    acknowledged: bool
    instructions: _containers.RepeatedCompositeFieldContainer[CoordinatorInstruction]
    grants: _containers.RepeatedCompositeFieldContainer[_handover_pb2.QuotaGrant]
    remarks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, coordinator_term: _Optional[int] = ..., acknowledged: _Optional[bool] = ..., instructions: _Optional[_Iterable[_Union[CoordinatorInstruction, _Mapping]]] = ..., grants: _Optional[_Iterable[_Union[_handover_pb2.QuotaGrant, _Mapping]]] = ..., remarks: _Optional[_Iterable[str]] = ...) -> None: ...

class CoordinatorInstruction(_message.Message):
    __slots__ = ("coordinator_term", "sequence_number", "instruction_id", "assign_domain", "unassign_domain", "reassign_speculative", "cross_shard_drain", "transfer_ownership")
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    UNASSIGN_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    REASSIGN_SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    CROSS_SHARD_DRAIN_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_OWNERSHIP_FIELD_NUMBER: _ClassVar[int]
    coordinator_term: int
    sequence_number: int
    instruction_id: str
    assign_domain: AssignDomain
    unassign_domain: UnassignDomain
    reassign_speculative: ReassignSpeculative
    cross_shard_drain: CrossShardDrain
    transfer_ownership: TransferOwnership
    def __init__(self, coordinator_term: _Optional[int] = ..., sequence_number: _Optional[int] = ..., instruction_id: _Optional[str] = ..., assign_domain: _Optional[_Union[AssignDomain, _Mapping]] = ..., unassign_domain: _Optional[_Union[UnassignDomain, _Mapping]] = ..., reassign_speculative: _Optional[_Union[ReassignSpeculative, _Mapping]] = ..., cross_shard_drain: _Optional[_Union[CrossShardDrain, _Mapping]] = ..., transfer_ownership: _Optional[_Union[TransferOwnership, _Mapping]] = ...) -> None: ...

class AssignDomain(_message.Message):
    __slots__ = ("topology_key", "topology_value", "away")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    away: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., away: _Optional[_Iterable[str]] = ...) -> None: ...

class UnassignDomain(_message.Message):
    __slots__ = ("topology_key", "topology_value")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ...) -> None: ...

class ReassignSpeculative(_message.Message):
    __slots__ = ("machine_ids", "from_shard_id", "to_shard_id", "machines", "wanted")
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    TO_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    from_shard_id: str
    to_shard_id: str
    machines: _containers.RepeatedCompositeFieldContainer[_handover_pb2.HandedMachine]
    wanted: _handover_pb2.WantedMachines
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ..., from_shard_id: _Optional[str] = ..., to_shard_id: _Optional[str] = ..., machines: _Optional[_Iterable[_Union[_handover_pb2.HandedMachine, _Mapping]]] = ..., wanted: _Optional[_Union[_handover_pb2.WantedMachines, _Mapping]] = ...) -> None: ...

class CrossShardDrain(_message.Message):
    __slots__ = ("machine_ids", "preemptor_priority", "to_shard_id", "wanted")
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TO_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    preemptor_priority: int
    to_shard_id: str
    wanted: _handover_pb2.WantedMachines
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ..., preemptor_priority: _Optional[int] = ..., to_shard_id: _Optional[str] = ..., wanted: _Optional[_Union[_handover_pb2.WantedMachines, _Mapping]] = ...) -> None: ...

class TransferOwnership(_message.Message):
    __slots__ = ("machine_ids", "from_shard_id", "to_shard_id", "machines", "wanted")
    MACHINE_IDS_FIELD_NUMBER: _ClassVar[int]
    FROM_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    TO_SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    machine_ids: _containers.RepeatedScalarFieldContainer[str]
    from_shard_id: str
    to_shard_id: str
    machines: _containers.RepeatedCompositeFieldContainer[_handover_pb2.HandedMachine]
    wanted: _handover_pb2.WantedMachines
    def __init__(self, machine_ids: _Optional[_Iterable[str]] = ..., from_shard_id: _Optional[str] = ..., to_shard_id: _Optional[str] = ..., machines: _Optional[_Iterable[_Union[_handover_pb2.HandedMachine, _Mapping]]] = ..., wanted: _Optional[_Union[_handover_pb2.WantedMachines, _Mapping]] = ...) -> None: ...

class InstructAck(_message.Message):
    __slots__ = ("instruction_id", "outcome", "reason", "given", "quota")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[InstructAck.Outcome]
        OUTCOME_ACCEPTED: _ClassVar[InstructAck.Outcome]
        OUTCOME_REJECTED_STALE: _ClassVar[InstructAck.Outcome]
        OUTCOME_REJECTED_INVALID: _ClassVar[InstructAck.Outcome]
        OUTCOME_FAILED: _ClassVar[InstructAck.Outcome]
    OUTCOME_UNSPECIFIED: InstructAck.Outcome
    OUTCOME_ACCEPTED: InstructAck.Outcome
    OUTCOME_REJECTED_STALE: InstructAck.Outcome
    OUTCOME_REJECTED_INVALID: InstructAck.Outcome
    OUTCOME_FAILED: InstructAck.Outcome
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    outcome: InstructAck.Outcome
    reason: str
    given: _containers.RepeatedCompositeFieldContainer[_handover_pb2.HandedMachine]
    quota: _containers.RepeatedCompositeFieldContainer[_handover_pb2.QuotaMoved]
    def __init__(self, instruction_id: _Optional[str] = ..., outcome: _Optional[_Union[InstructAck.Outcome, str]] = ..., reason: _Optional[str] = ..., given: _Optional[_Iterable[_Union[_handover_pb2.HandedMachine, _Mapping]]] = ..., quota: _Optional[_Iterable[_Union[_handover_pb2.QuotaMoved, _Mapping]]] = ...) -> None: ...

class AssignDomainRequest(_message.Message):
    __slots__ = ("topology_key", "topology_value", "shard_id")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    shard_id: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., shard_id: _Optional[str] = ...) -> None: ...

class AssignDomainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnassignDomainRequest(_message.Message):
    __slots__ = ("topology_key", "topology_value")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ...) -> None: ...

class UnassignDomainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveShardRequest(_message.Message):
    __slots__ = ("shard_id", "force")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    force: bool
    def __init__(self, shard_id: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RemoveShardResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shards",)
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shards: _containers.RepeatedCompositeFieldContainer[ShardRegistryEntry]
    def __init__(self, shards: _Optional[_Iterable[_Union[ShardRegistryEntry, _Mapping]]] = ...) -> None: ...

class ShardRegistryEntry(_message.Message):
    __slots__ = ("shard_id", "address", "registered_at_unix_ns", "last_heartbeat_unix_ns")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    address: str
    registered_at_unix_ns: int
    last_heartbeat_unix_ns: int
    def __init__(self, shard_id: _Optional[str] = ..., address: _Optional[str] = ..., registered_at_unix_ns: _Optional[int] = ..., last_heartbeat_unix_ns: _Optional[int] = ...) -> None: ...

class ListDomainAssignmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDomainAssignmentsResponse(_message.Message):
    __slots__ = ("assignments",)
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    assignments: _containers.RepeatedCompositeFieldContainer[DomainAssignment]
    def __init__(self, assignments: _Optional[_Iterable[_Union[DomainAssignment, _Mapping]]] = ...) -> None: ...

class DomainAssignment(_message.Message):
    __slots__ = ("topology_key", "topology_value", "shard_id")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_VALUE_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    topology_value: str
    shard_id: str
    def __init__(self, topology_key: _Optional[str] = ..., topology_value: _Optional[str] = ..., shard_id: _Optional[str] = ...) -> None: ...

class ListShardReportsRequest(_message.Message):
    __slots__ = ("shard_id",)
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    def __init__(self, shard_id: _Optional[str] = ...) -> None: ...

class ListShardReportsResponse(_message.Message):
    __slots__ = ("reports",)
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[ShardReportSnapshot]
    def __init__(self, reports: _Optional[_Iterable[_Union[ShardReportSnapshot, _Mapping]]] = ...) -> None: ...

class ShardReportSnapshot(_message.Message):
    __slots__ = ("shard_id", "cycle", "received_at_unix_ns", "summary", "shortfalls")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SHORTFALLS_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    cycle: int
    received_at_unix_ns: int
    summary: ShardSummary
    shortfalls: _containers.RepeatedCompositeFieldContainer[Shortfall]
    def __init__(self, shard_id: _Optional[str] = ..., cycle: _Optional[int] = ..., received_at_unix_ns: _Optional[int] = ..., summary: _Optional[_Union[ShardSummary, _Mapping]] = ..., shortfalls: _Optional[_Iterable[_Union[Shortfall, _Mapping]]] = ...) -> None: ...

class JoinRaftClusterRequest(_message.Message):
    __slots__ = ("node_id", "raft_address")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RAFT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    raft_address: str
    def __init__(self, node_id: _Optional[str] = ..., raft_address: _Optional[str] = ...) -> None: ...

class JoinRaftClusterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotSaveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SnapshotSaveChunk(_message.Message):
    __slots__ = ("meta_json", "data")
    META_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    meta_json: bytes
    data: bytes
    def __init__(self, meta_json: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...

class ListQuotasRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListQuotasResponse(_message.Message):
    __slots__ = ("allocations",)
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    allocations: _containers.RepeatedCompositeFieldContainer[QuotaAllocation]
    def __init__(self, allocations: _Optional[_Iterable[_Union[QuotaAllocation, _Mapping]]] = ...) -> None: ...

class QuotaAllocation(_message.Message):
    __slots__ = ("provider", "region", "per_shard")
    class PerShardEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PER_SHARD_FIELD_NUMBER: _ClassVar[int]
    provider: str
    region: str
    per_shard: _containers.ScalarMap[str, int]
    def __init__(self, provider: _Optional[str] = ..., region: _Optional[str] = ..., per_shard: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListProvidersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListProvidersResponse(_message.Message):
    __slots__ = ("providers",)
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    providers: _containers.RepeatedCompositeFieldContainer[ProviderEntry]
    def __init__(self, providers: _Optional[_Iterable[_Union[ProviderEntry, _Mapping]]] = ...) -> None: ...

class ProviderEntry(_message.Message):
    __slots__ = ("name", "address", "region")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    region: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

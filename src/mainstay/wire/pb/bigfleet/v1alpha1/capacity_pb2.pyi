from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PenaltyBucket(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENALTY_BUCKET_UNSPECIFIED: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_ZERO: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_HALF_DOLLAR: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_1: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_2: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_4: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_8: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_16: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_32: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_64: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_128: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_256: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_512: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_1024: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_2048: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_4096: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_8192: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_16384: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_32768: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_65536: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_131072: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_262144: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_524288: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_1048576: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_2097152: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_4194304: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_8388608: _ClassVar[PenaltyBucket]
    PENALTY_BUCKET_PINNED: _ClassVar[PenaltyBucket]

class CapacityType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPACITY_TYPE_UNSPECIFIED: _ClassVar[CapacityType]
    CAPACITY_TYPE_BARE_METAL: _ClassVar[CapacityType]
    CAPACITY_TYPE_RESERVED: _ClassVar[CapacityType]
    CAPACITY_TYPE_ON_DEMAND: _ClassVar[CapacityType]
    CAPACITY_TYPE_SPOT: _ClassVar[CapacityType]
PENALTY_BUCKET_UNSPECIFIED: PenaltyBucket
PENALTY_BUCKET_ZERO: PenaltyBucket
PENALTY_BUCKET_HALF_DOLLAR: PenaltyBucket
PENALTY_BUCKET_1: PenaltyBucket
PENALTY_BUCKET_2: PenaltyBucket
PENALTY_BUCKET_4: PenaltyBucket
PENALTY_BUCKET_8: PenaltyBucket
PENALTY_BUCKET_16: PenaltyBucket
PENALTY_BUCKET_32: PenaltyBucket
PENALTY_BUCKET_64: PenaltyBucket
PENALTY_BUCKET_128: PenaltyBucket
PENALTY_BUCKET_256: PenaltyBucket
PENALTY_BUCKET_512: PenaltyBucket
PENALTY_BUCKET_1024: PenaltyBucket
PENALTY_BUCKET_2048: PenaltyBucket
PENALTY_BUCKET_4096: PenaltyBucket
PENALTY_BUCKET_8192: PenaltyBucket
PENALTY_BUCKET_16384: PenaltyBucket
PENALTY_BUCKET_32768: PenaltyBucket
PENALTY_BUCKET_65536: PenaltyBucket
PENALTY_BUCKET_131072: PenaltyBucket
PENALTY_BUCKET_262144: PenaltyBucket
PENALTY_BUCKET_524288: PenaltyBucket
PENALTY_BUCKET_1048576: PenaltyBucket
PENALTY_BUCKET_2097152: PenaltyBucket
PENALTY_BUCKET_4194304: PenaltyBucket
PENALTY_BUCKET_8388608: PenaltyBucket
PENALTY_BUCKET_PINNED: PenaltyBucket
CAPACITY_TYPE_UNSPECIFIED: CapacityType
CAPACITY_TYPE_BARE_METAL: CapacityType
CAPACITY_TYPE_RESERVED: CapacityType
CAPACITY_TYPE_ON_DEMAND: CapacityType
CAPACITY_TYPE_SPOT: CapacityType

class ClusterCapacityNeeds(_message.Message):
    __slots__ = ("cluster_id", "timestamp_unix_nanos", "needs")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    timestamp_unix_nanos: int
    needs: _containers.RepeatedCompositeFieldContainer[CapacityNeed]
    def __init__(self, cluster_id: _Optional[str] = ..., timestamp_unix_nanos: _Optional[int] = ..., needs: _Optional[_Iterable[_Union[CapacityNeed, _Mapping]]] = ...) -> None: ...

class CapacityNeed(_message.Message):
    __slots__ = ("requirements", "aggregate_resources", "priority", "spread", "interruption_penalty_bucket", "reclamation_penalty_bucket", "min_unit", "group")
    class AggregateResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MinUnitEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    RECLAMATION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    MIN_UNIT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    requirements: _containers.RepeatedCompositeFieldContainer[NodeSelectorRequirement]
    aggregate_resources: _containers.ScalarMap[str, str]
    priority: int
    spread: _containers.RepeatedCompositeFieldContainer[TopologySpread]
    interruption_penalty_bucket: PenaltyBucket
    reclamation_penalty_bucket: PenaltyBucket
    min_unit: _containers.ScalarMap[str, str]
    group: str
    def __init__(self, requirements: _Optional[_Iterable[_Union[NodeSelectorRequirement, _Mapping]]] = ..., aggregate_resources: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., spread: _Optional[_Iterable[_Union[TopologySpread, _Mapping]]] = ..., interruption_penalty_bucket: _Optional[_Union[PenaltyBucket, str]] = ..., reclamation_penalty_bucket: _Optional[_Union[PenaltyBucket, str]] = ..., min_unit: _Optional[_Mapping[str, str]] = ..., group: _Optional[str] = ...) -> None: ...

class NodeSelectorRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    class Operator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OPERATOR_UNSPECIFIED: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_IN: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_NOT_IN: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_EXISTS: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_DOES_NOT_EXIST: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_SAME: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_GT: _ClassVar[NodeSelectorRequirement.Operator]
        OPERATOR_LT: _ClassVar[NodeSelectorRequirement.Operator]
    OPERATOR_UNSPECIFIED: NodeSelectorRequirement.Operator
    OPERATOR_IN: NodeSelectorRequirement.Operator
    OPERATOR_NOT_IN: NodeSelectorRequirement.Operator
    OPERATOR_EXISTS: NodeSelectorRequirement.Operator
    OPERATOR_DOES_NOT_EXIST: NodeSelectorRequirement.Operator
    OPERATOR_SAME: NodeSelectorRequirement.Operator
    OPERATOR_GT: NodeSelectorRequirement.Operator
    OPERATOR_LT: NodeSelectorRequirement.Operator
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: NodeSelectorRequirement.Operator
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[_Union[NodeSelectorRequirement.Operator, str]] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class TopologySpread(_message.Message):
    __slots__ = ("topology_key", "max_skew", "when_unsatisfiable")
    class WhenUnsatisfiable(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHEN_UNSATISFIABLE_UNSPECIFIED: _ClassVar[TopologySpread.WhenUnsatisfiable]
        WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE: _ClassVar[TopologySpread.WhenUnsatisfiable]
        WHEN_UNSATISFIABLE_SCHEDULE_ANYWAY: _ClassVar[TopologySpread.WhenUnsatisfiable]
    WHEN_UNSATISFIABLE_UNSPECIFIED: TopologySpread.WhenUnsatisfiable
    WHEN_UNSATISFIABLE_DO_NOT_SCHEDULE: TopologySpread.WhenUnsatisfiable
    WHEN_UNSATISFIABLE_SCHEDULE_ANYWAY: TopologySpread.WhenUnsatisfiable
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    WHEN_UNSATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    max_skew: int
    when_unsatisfiable: TopologySpread.WhenUnsatisfiable
    def __init__(self, topology_key: _Optional[str] = ..., max_skew: _Optional[int] = ..., when_unsatisfiable: _Optional[_Union[TopologySpread.WhenUnsatisfiable, str]] = ...) -> None: ...

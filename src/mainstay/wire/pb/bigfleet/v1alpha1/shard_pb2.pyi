from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OperatorMessage(_message.Message):
    __slots__ = ("hello", "rollup", "bootstrap_response", "reclaim_ack")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ROLLUP_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_ACK_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    rollup: _capacity_pb2.ClusterCapacityNeeds
    bootstrap_response: BootstrapBlobResponse
    reclaim_ack: ReclaimAck
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., rollup: _Optional[_Union[_capacity_pb2.ClusterCapacityNeeds, _Mapping]] = ..., bootstrap_response: _Optional[_Union[BootstrapBlobResponse, _Mapping]] = ..., reclaim_ack: _Optional[_Union[ReclaimAck, _Mapping]] = ...) -> None: ...

class ShardMessage(_message.Message):
    __slots__ = ("ack", "bootstrap_request", "reclaim_instruction", "node_state_update", "available_capacity")
    ACK_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_REQUEST_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    NODE_STATE_UPDATE_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ack: Acknowledgement
    bootstrap_request: BootstrapRequest
    reclaim_instruction: ReclaimInstruction
    node_state_update: NodeStateUpdate
    available_capacity: AvailableCapacityUpdate
    def __init__(self, ack: _Optional[_Union[Acknowledgement, _Mapping]] = ..., bootstrap_request: _Optional[_Union[BootstrapRequest, _Mapping]] = ..., reclaim_instruction: _Optional[_Union[ReclaimInstruction, _Mapping]] = ..., node_state_update: _Optional[_Union[NodeStateUpdate, _Mapping]] = ..., available_capacity: _Optional[_Union[AvailableCapacityUpdate, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster_id", "protocol_version")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    protocol_version: str
    def __init__(self, cluster_id: _Optional[str] = ..., protocol_version: _Optional[str] = ...) -> None: ...

class Acknowledgement(_message.Message):
    __slots__ = ("echo", "coordinator_term", "shard_epoch")
    ECHO_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    echo: str
    coordinator_term: int
    shard_epoch: int
    def __init__(self, echo: _Optional[str] = ..., coordinator_term: _Optional[int] = ..., shard_epoch: _Optional[int] = ...) -> None: ...

class BootstrapRequest(_message.Message):
    __slots__ = ("request_id", "requirements", "cluster_id", "machine_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    requirements: _containers.RepeatedCompositeFieldContainer[_capacity_pb2.NodeSelectorRequirement]
    cluster_id: str
    machine_id: str
    def __init__(self, request_id: _Optional[str] = ..., requirements: _Optional[_Iterable[_Union[_capacity_pb2.NodeSelectorRequirement, _Mapping]]] = ..., cluster_id: _Optional[str] = ..., machine_id: _Optional[str] = ...) -> None: ...

class BootstrapBlobResponse(_message.Message):
    __slots__ = ("request_id", "user_data", "ttl_seconds", "error")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_DATA_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    user_data: bytes
    ttl_seconds: int
    error: str
    def __init__(self, request_id: _Optional[str] = ..., user_data: _Optional[bytes] = ..., ttl_seconds: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class ReclaimInstruction(_message.Message):
    __slots__ = ("instruction_id", "nodes", "grace_period_seconds", "preemptor_priority")
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTOR_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    grace_period_seconds: int
    preemptor_priority: int
    def __init__(self, instruction_id: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., grace_period_seconds: _Optional[int] = ..., preemptor_priority: _Optional[int] = ...) -> None: ...

class ReclaimAck(_message.Message):
    __slots__ = ("instruction_id", "nodes_started")
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_STARTED_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    nodes_started: int
    def __init__(self, instruction_id: _Optional[str] = ..., nodes_started: _Optional[int] = ...) -> None: ...

class NodeStateUpdate(_message.Message):
    __slots__ = ("supersedes_key", "machine_id", "cluster_id", "state", "node_name", "provider_id", "last_error", "labels", "resources", "taints", "price_per_hour", "reclamation_penalty_dollars", "drain_grace_left_seconds", "drain_preemptor_priority")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SUPERSEDES_KEY_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    RECLAMATION_PENALTY_DOLLARS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_GRACE_LEFT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_PREEMPTOR_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    supersedes_key: str
    machine_id: str
    cluster_id: str
    state: _provider_pb2.MachineState
    node_name: str
    provider_id: str
    last_error: str
    labels: _containers.ScalarMap[str, str]
    resources: _provider_pb2.Resources
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    price_per_hour: float
    reclamation_penalty_dollars: float
    drain_grace_left_seconds: float
    drain_preemptor_priority: int
    def __init__(self, supersedes_key: _Optional[str] = ..., machine_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., state: _Optional[_Union[_provider_pb2.MachineState, str]] = ..., node_name: _Optional[str] = ..., provider_id: _Optional[str] = ..., last_error: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., resources: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., price_per_hour: _Optional[float] = ..., reclamation_penalty_dollars: _Optional[float] = ..., drain_grace_left_seconds: _Optional[float] = ..., drain_preemptor_priority: _Optional[int] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class AvailableCapacityUpdate(_message.Message):
    __slots__ = ("supersedes_key", "requirements", "resources", "available_count", "confidence", "cost_per_hour")
    class Confidence(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONFIDENCE_UNSPECIFIED: _ClassVar[AvailableCapacityUpdate.Confidence]
        CONFIDENCE_NONE: _ClassVar[AvailableCapacityUpdate.Confidence]
        CONFIDENCE_LOW: _ClassVar[AvailableCapacityUpdate.Confidence]
        CONFIDENCE_MEDIUM: _ClassVar[AvailableCapacityUpdate.Confidence]
        CONFIDENCE_HIGH: _ClassVar[AvailableCapacityUpdate.Confidence]
    CONFIDENCE_UNSPECIFIED: AvailableCapacityUpdate.Confidence
    CONFIDENCE_NONE: AvailableCapacityUpdate.Confidence
    CONFIDENCE_LOW: AvailableCapacityUpdate.Confidence
    CONFIDENCE_MEDIUM: AvailableCapacityUpdate.Confidence
    CONFIDENCE_HIGH: AvailableCapacityUpdate.Confidence
    SUPERSEDES_KEY_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    COST_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    supersedes_key: str
    requirements: _containers.RepeatedCompositeFieldContainer[_capacity_pb2.NodeSelectorRequirement]
    resources: _provider_pb2.Resources
    available_count: int
    confidence: AvailableCapacityUpdate.Confidence
    cost_per_hour: float
    def __init__(self, supersedes_key: _Optional[str] = ..., requirements: _Optional[_Iterable[_Union[_capacity_pb2.NodeSelectorRequirement, _Mapping]]] = ..., resources: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., available_count: _Optional[int] = ..., confidence: _Optional[_Union[AvailableCapacityUpdate.Confidence, str]] = ..., cost_per_hour: _Optional[float] = ...) -> None: ...

from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MachineState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MACHINE_STATE_UNSPECIFIED: _ClassVar[MachineState]
    MACHINE_STATE_SPECULATIVE: _ClassVar[MachineState]
    MACHINE_STATE_CREATING: _ClassVar[MachineState]
    MACHINE_STATE_IDLE: _ClassVar[MachineState]
    MACHINE_STATE_CONFIGURING: _ClassVar[MachineState]
    MACHINE_STATE_CONFIGURED: _ClassVar[MachineState]
    MACHINE_STATE_DRAINING: _ClassVar[MachineState]
    MACHINE_STATE_DELETING: _ClassVar[MachineState]
    MACHINE_STATE_FAILED: _ClassVar[MachineState]
MACHINE_STATE_UNSPECIFIED: MachineState
MACHINE_STATE_SPECULATIVE: MachineState
MACHINE_STATE_CREATING: MachineState
MACHINE_STATE_IDLE: MachineState
MACHINE_STATE_CONFIGURING: MachineState
MACHINE_STATE_CONFIGURED: MachineState
MACHINE_STATE_DRAINING: MachineState
MACHINE_STATE_DELETING: MachineState
MACHINE_STATE_FAILED: MachineState

class HostRef(_message.Message):
    __slots__ = ("provider", "ref")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    provider: str
    ref: str
    def __init__(self, provider: _Optional[str] = ..., ref: _Optional[str] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("resources",)
    class ResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.ScalarMap[str, str]
    def __init__(self, resources: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Machine(_message.Message):
    __slots__ = ("id", "state", "host", "instance_type", "zone", "capacity_type", "price_per_hour", "interruption_probability", "resources", "labels", "last_error", "allocatable", "cluster", "shard_metadata", "interruption_notice", "attribution")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ShardMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AttributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_METADATA_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_NOTICE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: MachineState
    host: HostRef
    instance_type: str
    zone: str
    capacity_type: _capacity_pb2.CapacityType
    price_per_hour: float
    interruption_probability: float
    resources: Resources
    labels: _containers.ScalarMap[str, str]
    last_error: str
    allocatable: Resources
    cluster: str
    shard_metadata: _containers.ScalarMap[str, str]
    interruption_notice: _provider_pb2.InterruptionNotice
    attribution: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[MachineState, str]] = ..., host: _Optional[_Union[HostRef, _Mapping]] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., capacity_type: _Optional[_Union[_capacity_pb2.CapacityType, str]] = ..., price_per_hour: _Optional[float] = ..., interruption_probability: _Optional[float] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., last_error: _Optional[str] = ..., allocatable: _Optional[_Union[Resources, _Mapping]] = ..., cluster: _Optional[str] = ..., shard_metadata: _Optional[_Mapping[str, str]] = ..., interruption_notice: _Optional[_Union[_provider_pb2.InterruptionNotice, _Mapping]] = ..., attribution: _Optional[_Mapping[str, str]] = ...) -> None: ...

class MachineRef(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class MachineList(_message.Message):
    __slots__ = ("machines", "revision", "deleted_ids", "more", "incremental", "capabilities")
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DELETED_IDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    machines: _containers.RepeatedCompositeFieldContainer[Machine]
    revision: bytes
    deleted_ids: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    incremental: bool
    capabilities: _provider_pb2.ProviderCapabilities
    def __init__(self, machines: _Optional[_Iterable[_Union[Machine, _Mapping]]] = ..., revision: _Optional[bytes] = ..., deleted_ids: _Optional[_Iterable[str]] = ..., more: _Optional[bool] = ..., incremental: _Optional[bool] = ..., capabilities: _Optional[_Union[_provider_pb2.ProviderCapabilities, _Mapping]] = ...) -> None: ...

class ListFilter(_message.Message):
    __slots__ = ("states", "max_results", "since_revision")
    STATES_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_REVISION_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[MachineState]
    max_results: int
    since_revision: bytes
    def __init__(self, states: _Optional[_Iterable[_Union[MachineState, str]]] = ..., max_results: _Optional[int] = ..., since_revision: _Optional[bytes] = ...) -> None: ...

class CreateRequest(_message.Message):
    __slots__ = ("machine_id", "shard_id", "shard_epoch", "sequence_number", "attribution")
    class AttributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    shard_id: str
    shard_epoch: int
    sequence_number: int
    attribution: _containers.ScalarMap[str, str]
    def __init__(self, machine_id: _Optional[str] = ..., shard_id: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., sequence_number: _Optional[int] = ..., attribution: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ConfigureRequest(_message.Message):
    __slots__ = ("machine_id", "cluster_id", "bootstrap_blob", "shard_id", "shard_epoch", "sequence_number", "shard_metadata")
    class ShardMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_BLOB_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SHARD_METADATA_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    cluster_id: str
    bootstrap_blob: bytes
    shard_id: str
    shard_epoch: int
    sequence_number: int
    shard_metadata: _containers.ScalarMap[str, str]
    def __init__(self, machine_id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., bootstrap_blob: _Optional[bytes] = ..., shard_id: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., sequence_number: _Optional[int] = ..., shard_metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("machine_id", "grace_period_seconds", "shard_id", "shard_epoch", "sequence_number", "attribution")
    class AttributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    grace_period_seconds: int
    shard_id: str
    shard_epoch: int
    sequence_number: int
    attribution: _containers.ScalarMap[str, str]
    def __init__(self, machine_id: _Optional[str] = ..., grace_period_seconds: _Optional[int] = ..., shard_id: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., sequence_number: _Optional[int] = ..., attribution: _Optional[_Mapping[str, str]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("machine_id", "shard_id", "shard_epoch", "sequence_number")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    shard_id: str
    shard_epoch: int
    sequence_number: int
    def __init__(self, machine_id: _Optional[str] = ..., shard_id: _Optional[str] = ..., shard_epoch: _Optional[int] = ..., sequence_number: _Optional[int] = ...) -> None: ...

class TransitionAck(_message.Message):
    __slots__ = ("operation_id", "machine")
    OPERATION_ID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    operation_id: str
    machine: Machine
    def __init__(self, operation_id: _Optional[str] = ..., machine: _Optional[_Union[Machine, _Mapping]] = ...) -> None: ...

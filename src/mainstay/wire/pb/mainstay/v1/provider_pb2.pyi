from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InterruptionNotice(_message.Message):
    __slots__ = ("deadline_unix_nanos", "reason")
    DEADLINE_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    deadline_unix_nanos: int
    reason: str
    def __init__(self, deadline_unix_nanos: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ProviderCapabilities(_message.Message):
    __slots__ = ("deletable", "incremental", "tombstones", "paging", "interruption_notices", "attribution")
    DELETABLE_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_NOTICES_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    deletable: _containers.RepeatedScalarFieldContainer[_capacity_pb2.CapacityType]
    incremental: bool
    tombstones: bool
    paging: bool
    interruption_notices: bool
    attribution: bool
    def __init__(self, deletable: _Optional[_Iterable[_Union[_capacity_pb2.CapacityType, str]]] = ..., incremental: _Optional[bool] = ..., tombstones: _Optional[bool] = ..., paging: _Optional[bool] = ..., interruption_notices: _Optional[bool] = ..., attribution: _Optional[bool] = ...) -> None: ...

class ListEnvelope(_message.Message):
    __slots__ = ("revision", "deleted_ids", "more", "incremental", "capabilities")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DELETED_IDS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    revision: bytes
    deleted_ids: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    incremental: bool
    capabilities: ProviderCapabilities
    def __init__(self, revision: _Optional[bytes] = ..., deleted_ids: _Optional[_Iterable[str]] = ..., more: _Optional[bool] = ..., incremental: _Optional[bool] = ..., capabilities: _Optional[_Union[ProviderCapabilities, _Mapping]] = ...) -> None: ...

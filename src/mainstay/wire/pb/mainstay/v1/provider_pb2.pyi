from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChargesQuery(_message.Message):
    __slots__ = ("since",)
    SINCE_FIELD_NUMBER: _ClassVar[int]
    since: bytes
    def __init__(self, since: _Optional[bytes] = ...) -> None: ...

class ChargesAnswer(_message.Message):
    __slots__ = ("marks", "cursor", "more", "begins")
    MARKS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    marks: _containers.RepeatedCompositeFieldContainer[ChargeMark]
    cursor: bytes
    more: bool
    begins: bool
    def __init__(self, marks: _Optional[_Iterable[_Union[ChargeMark, _Mapping]]] = ..., cursor: _Optional[bytes] = ..., more: _Optional[bool] = ..., begins: _Optional[bool] = ...) -> None: ...

class ChargeMark(_message.Message):
    __slots__ = ("machine_id", "at_unix_nanos", "price_per_hour")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    at_unix_nanos: int
    price_per_hour: float
    def __init__(self, machine_id: _Optional[str] = ..., at_unix_nanos: _Optional[int] = ..., price_per_hour: _Optional[float] = ...) -> None: ...

class InterruptionNotice(_message.Message):
    __slots__ = ("deadline_unix_nanos", "reason")
    DEADLINE_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    deadline_unix_nanos: int
    reason: str
    def __init__(self, deadline_unix_nanos: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ProviderCapabilities(_message.Message):
    __slots__ = ("deletable", "incremental", "tombstones", "paging", "interruption_notices", "attribution", "drain_attribution")
    DELETABLE_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_NOTICES_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    DRAIN_ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    deletable: _containers.RepeatedScalarFieldContainer[_capacity_pb2.CapacityType]
    incremental: bool
    tombstones: bool
    paging: bool
    interruption_notices: bool
    attribution: bool
    drain_attribution: bool
    def __init__(self, deletable: _Optional[_Iterable[_Union[_capacity_pb2.CapacityType, str]]] = ..., incremental: _Optional[bool] = ..., tombstones: _Optional[bool] = ..., paging: _Optional[bool] = ..., interruption_notices: _Optional[bool] = ..., attribution: _Optional[bool] = ..., drain_attribution: _Optional[bool] = ...) -> None: ...

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

from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Domain(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class HandedMachine(_message.Message):
    __slots__ = ("machine_id", "provider", "domain")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    provider: str
    domain: Domain
    def __init__(self, machine_id: _Optional[str] = ..., provider: _Optional[str] = ..., domain: _Optional[_Union[Domain, _Mapping]] = ...) -> None: ...

class Stray(_message.Message):
    __slots__ = ("machine_id", "provider", "domain", "leaving")
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    machine_id: str
    provider: str
    domain: Domain
    leaving: bool
    def __init__(self, machine_id: _Optional[str] = ..., provider: _Optional[str] = ..., domain: _Optional[_Union[Domain, _Mapping]] = ..., leaving: _Optional[bool] = ...) -> None: ...

class FreeMachines(_message.Message):
    __slots__ = ("provider", "instance_type", "zone", "idle", "speculative")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    provider: str
    instance_type: str
    zone: str
    idle: int
    speculative: int
    def __init__(self, provider: _Optional[str] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., idle: _Optional[int] = ..., speculative: _Optional[int] = ...) -> None: ...

class ServingMachines(_message.Message):
    __slots__ = ("provider", "instance_type", "zone", "priority", "interruption_penalty_bucket", "machines")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    provider: str
    instance_type: str
    zone: str
    priority: int
    interruption_penalty_bucket: _capacity_pb2.PenaltyBucket
    machines: int
    def __init__(self, provider: _Optional[str] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., priority: _Optional[int] = ..., interruption_penalty_bucket: _Optional[_Union[_capacity_pb2.PenaltyBucket, str]] = ..., machines: _Optional[int] = ...) -> None: ...

class KnownProvider(_message.Message):
    __slots__ = ("name", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class QuotaOf(_message.Message):
    __slots__ = ("kind", "name", "region")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[QuotaOf.Kind]
        KIND_CLUSTER: _ClassVar[QuotaOf.Kind]
        KIND_PLACE: _ClassVar[QuotaOf.Kind]
    KIND_UNSPECIFIED: QuotaOf.Kind
    KIND_CLUSTER: QuotaOf.Kind
    KIND_PLACE: QuotaOf.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    kind: QuotaOf.Kind
    name: str
    region: str
    def __init__(self, kind: _Optional[_Union[QuotaOf.Kind, str]] = ..., name: _Optional[str] = ..., region: _Optional[str] = ...) -> None: ...

class QuotaLine(_message.Message):
    __slots__ = ("of", "held", "used", "wanted")
    OF_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    of: QuotaOf
    held: int
    used: int
    wanted: int
    def __init__(self, of: _Optional[_Union[QuotaOf, _Mapping]] = ..., held: _Optional[int] = ..., used: _Optional[int] = ..., wanted: _Optional[int] = ...) -> None: ...

class QuotaMoved(_message.Message):
    __slots__ = ("of", "count")
    OF_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    of: QuotaOf
    count: int
    def __init__(self, of: _Optional[_Union[QuotaOf, _Mapping]] = ..., count: _Optional[int] = ...) -> None: ...

class QuotaGrant(_message.Message):
    __slots__ = ("of", "granted", "target")
    OF_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    of: QuotaOf
    granted: int
    target: int
    def __init__(self, of: _Optional[_Union[QuotaOf, _Mapping]] = ..., granted: _Optional[int] = ..., target: _Optional[int] = ...) -> None: ...

class WantedMachines(_message.Message):
    __slots__ = ("requirements", "deficit", "min_unit", "priority", "interruption_penalty_bucket", "machines_max", "providers")
    class DeficitEntry(_message.Message):
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
    DEFICIT_FIELD_NUMBER: _ClassVar[int]
    MIN_UNIT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PENALTY_BUCKET_FIELD_NUMBER: _ClassVar[int]
    MACHINES_MAX_FIELD_NUMBER: _ClassVar[int]
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    requirements: _containers.RepeatedCompositeFieldContainer[_capacity_pb2.NodeSelectorRequirement]
    deficit: _containers.ScalarMap[str, str]
    min_unit: _containers.ScalarMap[str, str]
    priority: int
    interruption_penalty_bucket: _capacity_pb2.PenaltyBucket
    machines_max: int
    providers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, requirements: _Optional[_Iterable[_Union[_capacity_pb2.NodeSelectorRequirement, _Mapping]]] = ..., deficit: _Optional[_Mapping[str, str]] = ..., min_unit: _Optional[_Mapping[str, str]] = ..., priority: _Optional[int] = ..., interruption_penalty_bucket: _Optional[_Union[_capacity_pb2.PenaltyBucket, str]] = ..., machines_max: _Optional[int] = ..., providers: _Optional[_Iterable[str]] = ...) -> None: ...

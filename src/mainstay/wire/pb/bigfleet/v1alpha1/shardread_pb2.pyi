from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UnmetReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNMET_REASON_UNSPECIFIED: _ClassVar[UnmetReason]
    UNMET_REASON_PRIORITY_STARVED: _ClassVar[UnmetReason]
    UNMET_REASON_NO_MATCHING_SUPPLY: _ClassVar[UnmetReason]
    UNMET_REASON_TOPOLOGY_UNSATISFIABLE: _ClassVar[UnmetReason]
    UNMET_REASON_PREEMPTION_EXHAUSTED: _ClassVar[UnmetReason]
UNMET_REASON_UNSPECIFIED: UnmetReason
UNMET_REASON_PRIORITY_STARVED: UnmetReason
UNMET_REASON_NO_MATCHING_SUPPLY: UnmetReason
UNMET_REASON_TOPOLOGY_UNSATISFIABLE: UnmetReason
UNMET_REASON_PREEMPTION_EXHAUSTED: UnmetReason

class InspectNeedsRequest(_message.Message):
    __slots__ = ("cluster_id", "limit")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    limit: int
    def __init__(self, cluster_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class InspectNeedsResponse(_message.Message):
    __slots__ = ("header", "need")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    header: InspectNeedsHeader
    need: NeedView
    def __init__(self, header: _Optional[_Union[InspectNeedsHeader, _Mapping]] = ..., need: _Optional[_Union[NeedView, _Mapping]] = ...) -> None: ...

class InspectNeedsHeader(_message.Message):
    __slots__ = ("cycle", "computed_at_unix_nanos", "total_needs")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_AT_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_NEEDS_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    computed_at_unix_nanos: int
    total_needs: int
    def __init__(self, cycle: _Optional[int] = ..., computed_at_unix_nanos: _Optional[int] = ..., total_needs: _Optional[int] = ...) -> None: ...

class NeedView(_message.Message):
    __slots__ = ("need", "cluster_id", "arrival_unix_nanos", "profile_fingerprint", "satisfied", "residual_deficit", "claimed_machine_count", "bootstrap_count", "provision_count", "same_domain", "same_satisfiable", "acquisition_parked", "parked_age_cycles", "age_cycles_unmet", "unmet_reason", "matching_supply", "preemption", "same_candidates")
    NEED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_UNIX_NANOS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_FIELD_NUMBER: _ClassVar[int]
    RESIDUAL_DEFICIT_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_MACHINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROVISION_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAME_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SAME_SATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    ACQUISITION_PARKED_FIELD_NUMBER: _ClassVar[int]
    PARKED_AGE_CYCLES_FIELD_NUMBER: _ClassVar[int]
    AGE_CYCLES_UNMET_FIELD_NUMBER: _ClassVar[int]
    UNMET_REASON_FIELD_NUMBER: _ClassVar[int]
    MATCHING_SUPPLY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    SAME_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    need: _capacity_pb2.CapacityNeed
    cluster_id: str
    arrival_unix_nanos: int
    profile_fingerprint: str
    satisfied: bool
    residual_deficit: _provider_pb2.Resources
    claimed_machine_count: int
    bootstrap_count: int
    provision_count: int
    same_domain: str
    same_satisfiable: bool
    acquisition_parked: bool
    parked_age_cycles: int
    age_cycles_unmet: int
    unmet_reason: UnmetReason
    matching_supply: MatchingSupply
    preemption: PreemptionSummary
    same_candidates: _containers.RepeatedCompositeFieldContainer[DomainCoverage]
    def __init__(self, need: _Optional[_Union[_capacity_pb2.CapacityNeed, _Mapping]] = ..., cluster_id: _Optional[str] = ..., arrival_unix_nanos: _Optional[int] = ..., profile_fingerprint: _Optional[str] = ..., satisfied: _Optional[bool] = ..., residual_deficit: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ..., claimed_machine_count: _Optional[int] = ..., bootstrap_count: _Optional[int] = ..., provision_count: _Optional[int] = ..., same_domain: _Optional[str] = ..., same_satisfiable: _Optional[bool] = ..., acquisition_parked: _Optional[bool] = ..., parked_age_cycles: _Optional[int] = ..., age_cycles_unmet: _Optional[int] = ..., unmet_reason: _Optional[_Union[UnmetReason, str]] = ..., matching_supply: _Optional[_Union[MatchingSupply, _Mapping]] = ..., preemption: _Optional[_Union[PreemptionSummary, _Mapping]] = ..., same_candidates: _Optional[_Iterable[_Union[DomainCoverage, _Mapping]]] = ...) -> None: ...

class MatchingSupply(_message.Message):
    __slots__ = ("idle", "configured", "speculative", "capped")
    IDLE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    idle: int
    configured: int
    speculative: int
    capped: bool
    def __init__(self, idle: _Optional[int] = ..., configured: _Optional[int] = ..., speculative: _Optional[int] = ..., capped: _Optional[bool] = ...) -> None: ...

class PreemptionSummary(_message.Message):
    __slots__ = ("victims_found", "capacity_freed")
    VICTIMS_FOUND_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FREED_FIELD_NUMBER: _ClassVar[int]
    victims_found: int
    capacity_freed: _provider_pb2.Resources
    def __init__(self, victims_found: _Optional[int] = ..., capacity_freed: _Optional[_Union[_provider_pb2.Resources, _Mapping]] = ...) -> None: ...

class DomainCoverage(_message.Message):
    __slots__ = ("domain", "coverage_per_mille", "satisfiable")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_PER_MILLE_FIELD_NUMBER: _ClassVar[int]
    SATISFIABLE_FIELD_NUMBER: _ClassVar[int]
    domain: str
    coverage_per_mille: int
    satisfiable: bool
    def __init__(self, domain: _Optional[str] = ..., coverage_per_mille: _Optional[int] = ..., satisfiable: _Optional[bool] = ...) -> None: ...

from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as _capacity_pb2
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as _provider_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stamp(_message.Message):
    __slots__ = ("shard", "cycle", "at_s")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    shard: str
    cycle: int
    at_s: float
    def __init__(self, shard: _Optional[str] = ..., cycle: _Optional[int] = ..., at_s: _Optional[float] = ...) -> None: ...

class MachineQuery(_message.Message):
    __slots__ = ("states", "cluster", "instance_type", "zone", "provider", "limit", "after", "attribute", "value", "ids", "labels", "capacity_types", "text")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TYPES_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_provider_pb2.MachineState]
    cluster: str
    instance_type: str
    zone: str
    provider: str
    limit: int
    after: str
    attribute: str
    value: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    capacity_types: _containers.RepeatedScalarFieldContainer[str]
    text: str
    def __init__(self, states: _Optional[_Iterable[_Union[_provider_pb2.MachineState, str]]] = ..., cluster: _Optional[str] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., provider: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ..., attribute: _Optional[str] = ..., value: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., capacity_types: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ...) -> None: ...

class MachineRow(_message.Message):
    __slots__ = ("id", "state", "cluster", "instance_type", "zone", "capacity_type", "provider", "price_per_hour", "interruption_probability", "need", "group", "action", "idle_since_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TYPE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTION_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    IDLE_SINCE_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: _provider_pb2.MachineState
    cluster: str
    instance_type: str
    zone: str
    capacity_type: str
    provider: str
    price_per_hour: float
    interruption_probability: float
    need: str
    group: str
    action: str
    idle_since_s: float
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[_provider_pb2.MachineState, str]] = ..., cluster: _Optional[str] = ..., instance_type: _Optional[str] = ..., zone: _Optional[str] = ..., capacity_type: _Optional[str] = ..., provider: _Optional[str] = ..., price_per_hour: _Optional[float] = ..., interruption_probability: _Optional[float] = ..., need: _Optional[str] = ..., group: _Optional[str] = ..., action: _Optional[str] = ..., idle_since_s: _Optional[float] = ...) -> None: ...

class MachineRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[MachineRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[MachineRow, _Mapping]]] = ...) -> None: ...

class NeedQuery(_message.Message):
    __slots__ = ("cluster", "unmet", "limit", "after", "fingerprint", "group", "reason", "least_priority")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    UNMET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEAST_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    unmet: bool
    limit: int
    after: int
    fingerprint: str
    group: str
    reason: str
    least_priority: int
    def __init__(self, cluster: _Optional[str] = ..., unmet: _Optional[bool] = ..., limit: _Optional[int] = ..., after: _Optional[int] = ..., fingerprint: _Optional[str] = ..., group: _Optional[str] = ..., reason: _Optional[str] = ..., least_priority: _Optional[int] = ...) -> None: ...

class NeedRow(_message.Message):
    __slots__ = ("cluster", "fingerprint", "group", "priority", "asked", "missing", "reason", "age", "machines", "parked", "domain", "asks_for", "min_unit", "place", "progress")
    class AskedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MissingEntry(_message.Message):
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
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_FIELD_NUMBER: _ClassVar[int]
    MIN_UNIT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    fingerprint: str
    group: str
    priority: int
    asked: _containers.ScalarMap[str, str]
    missing: _containers.ScalarMap[str, str]
    reason: str
    age: int
    machines: int
    parked: bool
    domain: str
    asks_for: str
    min_unit: _containers.ScalarMap[str, str]
    place: int
    progress: Progress
    def __init__(self, cluster: _Optional[str] = ..., fingerprint: _Optional[str] = ..., group: _Optional[str] = ..., priority: _Optional[int] = ..., asked: _Optional[_Mapping[str, str]] = ..., missing: _Optional[_Mapping[str, str]] = ..., reason: _Optional[str] = ..., age: _Optional[int] = ..., machines: _Optional[int] = ..., parked: _Optional[bool] = ..., domain: _Optional[str] = ..., asks_for: _Optional[str] = ..., min_unit: _Optional[_Mapping[str, str]] = ..., place: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("serving", "coming", "held_back", "held_by")
    SERVING_FIELD_NUMBER: _ClassVar[int]
    COMING_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    serving: int
    coming: int
    held_back: int
    held_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, serving: _Optional[int] = ..., coming: _Optional[int] = ..., held_back: _Optional[int] = ..., held_by: _Optional[_Iterable[str]] = ...) -> None: ...

class NeedRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[NeedRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[NeedRow, _Mapping]]] = ...) -> None: ...

class ClusterQuery(_message.Message):
    __slots__ = ("cluster", "limit", "after")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    limit: int
    after: str
    def __init__(self, cluster: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ...) -> None: ...

class ClusterRow(_message.Message):
    __slots__ = ("cluster", "connected", "heard", "since_s", "protocol_version", "needs", "unmet", "machines", "spend_per_hour", "held_rollups", "waiting_frames", "quota", "limited", "progress")
    class MachinesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    UNMET_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    SPEND_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    HELD_ROLLUPS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FRAMES_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    LIMITED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    connected: bool
    heard: bool
    since_s: float
    protocol_version: str
    needs: int
    unmet: int
    machines: _containers.ScalarMap[str, int]
    spend_per_hour: float
    held_rollups: int
    waiting_frames: int
    quota: int
    limited: bool
    progress: Progress
    def __init__(self, cluster: _Optional[str] = ..., connected: _Optional[bool] = ..., heard: _Optional[bool] = ..., since_s: _Optional[float] = ..., protocol_version: _Optional[str] = ..., needs: _Optional[int] = ..., unmet: _Optional[int] = ..., machines: _Optional[_Mapping[str, int]] = ..., spend_per_hour: _Optional[float] = ..., held_rollups: _Optional[int] = ..., waiting_frames: _Optional[int] = ..., quota: _Optional[int] = ..., limited: _Optional[bool] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class ClusterRows(_message.Message):
    __slots__ = ("stamp", "rows", "matched")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    rows: _containers.RepeatedCompositeFieldContainer[ClusterRow]
    matched: int
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ClusterRow, _Mapping]]] = ..., matched: _Optional[int] = ...) -> None: ...

class ActionQuery(_message.Message):
    __slots__ = ("cluster", "machine", "disposition", "limit", "after", "kind")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    machine: str
    disposition: str
    limit: int
    after: str
    kind: str
    def __init__(self, cluster: _Optional[str] = ..., machine: _Optional[str] = ..., disposition: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class ActionRow(_message.Message):
    __slots__ = ("cycle", "decided", "kind", "machine", "cluster", "need", "group", "provider", "disposition", "reason", "outcome", "detail", "seconds", "price_per_hour", "saved_per_hour", "at_risk_dollars", "pinned", "id", "at_s", "need_cluster")
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    PRICE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    SAVED_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    AT_RISK_DOLLARS_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    NEED_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cycle: int
    decided: int
    kind: str
    machine: str
    cluster: str
    need: str
    group: str
    provider: str
    disposition: str
    reason: str
    outcome: str
    detail: str
    seconds: float
    price_per_hour: float
    saved_per_hour: float
    at_risk_dollars: float
    pinned: bool
    id: str
    at_s: float
    need_cluster: str
    def __init__(self, cycle: _Optional[int] = ..., decided: _Optional[int] = ..., kind: _Optional[str] = ..., machine: _Optional[str] = ..., cluster: _Optional[str] = ..., need: _Optional[str] = ..., group: _Optional[str] = ..., provider: _Optional[str] = ..., disposition: _Optional[str] = ..., reason: _Optional[str] = ..., outcome: _Optional[str] = ..., detail: _Optional[str] = ..., seconds: _Optional[float] = ..., price_per_hour: _Optional[float] = ..., saved_per_hour: _Optional[float] = ..., at_risk_dollars: _Optional[float] = ..., pinned: _Optional[bool] = ..., id: _Optional[str] = ..., at_s: _Optional[float] = ..., need_cluster: _Optional[str] = ...) -> None: ...

class ActionRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[ActionRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[ActionRow, _Mapping]]] = ...) -> None: ...

class ShortfallQuery(_message.Message):
    __slots__ = ("limit",)
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    limit: int
    def __init__(self, limit: _Optional[int] = ...) -> None: ...

class ShortfallRow(_message.Message):
    __slots__ = ("fingerprint", "priority", "missing", "age", "band", "clusters", "reasons", "asks_for", "needs", "clusters_in_all")
    class MissingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FOR_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_IN_ALL_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    priority: int
    missing: _containers.ScalarMap[str, str]
    age: int
    band: str
    clusters: _containers.RepeatedScalarFieldContainer[str]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    asks_for: str
    needs: int
    clusters_in_all: int
    def __init__(self, fingerprint: _Optional[str] = ..., priority: _Optional[int] = ..., missing: _Optional[_Mapping[str, str]] = ..., age: _Optional[int] = ..., band: _Optional[str] = ..., clusters: _Optional[_Iterable[str]] = ..., reasons: _Optional[_Iterable[str]] = ..., asks_for: _Optional[str] = ..., needs: _Optional[int] = ..., clusters_in_all: _Optional[int] = ...) -> None: ...

class ShortfallRows(_message.Message):
    __slots__ = ("stamp", "rows", "matched")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    rows: _containers.RepeatedCompositeFieldContainer[ShortfallRow]
    matched: int
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ShortfallRow, _Mapping]]] = ..., matched: _Optional[int] = ...) -> None: ...

class ProviderQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProviderRow(_message.Message):
    __slots__ = ("name", "health", "machines", "why", "failures", "listed_at_s", "incremental")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LISTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    health: str
    machines: int
    why: str
    failures: int
    listed_at_s: float
    incremental: bool
    def __init__(self, name: _Optional[str] = ..., health: _Optional[str] = ..., machines: _Optional[int] = ..., why: _Optional[str] = ..., failures: _Optional[int] = ..., listed_at_s: _Optional[float] = ..., incremental: _Optional[bool] = ...) -> None: ...

class ProviderRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    rows: _containers.RepeatedCompositeFieldContainer[ProviderRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ProviderRow, _Mapping]]] = ...) -> None: ...

class ControlQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ControlRow(_message.Message):
    __slots__ = ("kind", "cluster", "value", "reason", "by", "set_at_s", "expires_at_s", "fixed")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SET_AT_S_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_S_FIELD_NUMBER: _ClassVar[int]
    FIXED_FIELD_NUMBER: _ClassVar[int]
    kind: str
    cluster: str
    value: float
    reason: str
    by: str
    set_at_s: float
    expires_at_s: float
    fixed: bool
    def __init__(self, kind: _Optional[str] = ..., cluster: _Optional[str] = ..., value: _Optional[float] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ..., set_at_s: _Optional[float] = ..., expires_at_s: _Optional[float] = ..., fixed: _Optional[bool] = ...) -> None: ...

class ControlRows(_message.Message):
    __slots__ = ("stamp", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    rows: _containers.RepeatedCompositeFieldContainer[ControlRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[ControlRow, _Mapping]]] = ...) -> None: ...

class MoneyQuery(_message.Message):
    __slots__ = ("by",)
    BY_FIELD_NUMBER: _ClassVar[int]
    by: str
    def __init__(self, by: _Optional[str] = ...) -> None: ...

class MoneyRow(_message.Message):
    __slots__ = ("name", "hosts", "spend_per_hour", "spent", "idle_per_hour", "idle", "unclaimed_per_hour", "unclaimed", "saving_per_hour", "saving", "unpriced_per_hour", "unpriced")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SPEND_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    IDLE_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    IDLE_FIELD_NUMBER: _ClassVar[int]
    UNCLAIMED_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    UNCLAIMED_FIELD_NUMBER: _ClassVar[int]
    SAVING_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    SAVING_FIELD_NUMBER: _ClassVar[int]
    UNPRICED_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    UNPRICED_FIELD_NUMBER: _ClassVar[int]
    name: str
    hosts: int
    spend_per_hour: int
    spent: int
    idle_per_hour: int
    idle: int
    unclaimed_per_hour: int
    unclaimed: int
    saving_per_hour: int
    saving: int
    unpriced_per_hour: int
    unpriced: int
    def __init__(self, name: _Optional[str] = ..., hosts: _Optional[int] = ..., spend_per_hour: _Optional[int] = ..., spent: _Optional[int] = ..., idle_per_hour: _Optional[int] = ..., idle: _Optional[int] = ..., unclaimed_per_hour: _Optional[int] = ..., unclaimed: _Optional[int] = ..., saving_per_hour: _Optional[int] = ..., saving: _Optional[int] = ..., unpriced_per_hour: _Optional[int] = ..., unpriced: _Optional[int] = ...) -> None: ...

class MoneyRows(_message.Message):
    __slots__ = ("stamp", "since_s", "at_s", "by", "total", "rows", "as_seen", "on_demand")
    class OnDemandEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    AS_SEEN_FIELD_NUMBER: _ClassVar[int]
    ON_DEMAND_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    since_s: float
    at_s: float
    by: str
    total: MoneyRow
    rows: _containers.RepeatedCompositeFieldContainer[MoneyRow]
    as_seen: _containers.RepeatedScalarFieldContainer[str]
    on_demand: _containers.ScalarMap[str, int]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., since_s: _Optional[float] = ..., at_s: _Optional[float] = ..., by: _Optional[str] = ..., total: _Optional[_Union[MoneyRow, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[MoneyRow, _Mapping]]] = ..., as_seen: _Optional[_Iterable[str]] = ..., on_demand: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SummaryQuery(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SummaryAnswer(_message.Message):
    __slots__ = ("stamp", "epoch", "not_acting", "machines", "spend_per_hour", "needs", "unmet", "parked", "clusters", "connected", "seconds", "planned", "queued", "in_flight", "actions_per_minute", "controls", "held_rollups", "providers", "money", "money_since_s", "progress", "resting")
    class MachinesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class SpendPerHourEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class SecondsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class PlannedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    STAMP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOT_ACTING_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    SPEND_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    UNMET_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    CONTROLS_FIELD_NUMBER: _ClassVar[int]
    HELD_ROLLUPS_FIELD_NUMBER: _ClassVar[int]
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    MONEY_FIELD_NUMBER: _ClassVar[int]
    MONEY_SINCE_S_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESTING_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    epoch: int
    not_acting: str
    machines: _containers.ScalarMap[str, int]
    spend_per_hour: _containers.ScalarMap[str, float]
    needs: int
    unmet: int
    parked: int
    clusters: int
    connected: int
    seconds: _containers.ScalarMap[str, float]
    planned: _containers.ScalarMap[str, int]
    queued: int
    in_flight: int
    actions_per_minute: float
    controls: int
    held_rollups: int
    providers: _containers.RepeatedCompositeFieldContainer[ProviderRow]
    money: MoneyRow
    money_since_s: float
    progress: Progress
    resting: _containers.RepeatedCompositeFieldContainer[ControlRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., epoch: _Optional[int] = ..., not_acting: _Optional[str] = ..., machines: _Optional[_Mapping[str, int]] = ..., spend_per_hour: _Optional[_Mapping[str, float]] = ..., needs: _Optional[int] = ..., unmet: _Optional[int] = ..., parked: _Optional[int] = ..., clusters: _Optional[int] = ..., connected: _Optional[int] = ..., seconds: _Optional[_Mapping[str, float]] = ..., planned: _Optional[_Mapping[str, int]] = ..., queued: _Optional[int] = ..., in_flight: _Optional[int] = ..., actions_per_minute: _Optional[float] = ..., controls: _Optional[int] = ..., held_rollups: _Optional[int] = ..., providers: _Optional[_Iterable[_Union[ProviderRow, _Mapping]]] = ..., money: _Optional[_Union[MoneyRow, _Mapping]] = ..., money_since_s: _Optional[float] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., resting: _Optional[_Iterable[_Union[ControlRow, _Mapping]]] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("about", "name", "fingerprint", "group", "quick", "patience_s")
    class About(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ABOUT_UNSPECIFIED: _ClassVar[Question.About]
        ABOUT_NEED: _ClassVar[Question.About]
        ABOUT_GANG: _ClassVar[Question.About]
        ABOUT_MACHINE: _ClassVar[Question.About]
        ABOUT_CLUSTER: _ClassVar[Question.About]
    ABOUT_UNSPECIFIED: Question.About
    ABOUT_NEED: Question.About
    ABOUT_GANG: Question.About
    ABOUT_MACHINE: Question.About
    ABOUT_CLUSTER: Question.About
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUICK_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_S_FIELD_NUMBER: _ClassVar[int]
    about: Question.About
    name: str
    fingerprint: str
    group: str
    quick: bool
    patience_s: float
    def __init__(self, about: _Optional[_Union[Question.About, str]] = ..., name: _Optional[str] = ..., fingerprint: _Optional[str] = ..., group: _Optional[str] = ..., quick: _Optional[bool] = ..., patience_s: _Optional[float] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("stamp", "subject", "sentences", "document", "expected")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SENTENCES_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    subject: str
    sentences: _containers.RepeatedScalarFieldContainer[str]
    document: str
    expected: Expected
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., subject: _Optional[str] = ..., sentences: _Optional[_Iterable[str]] = ..., document: _Optional[str] = ..., expected: _Optional[_Union[Expected, _Mapping]] = ...) -> None: ...

class Expected(_message.Message):
    __slots__ = ("when", "seconds", "because")
    class When(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHEN_UNSPECIFIED: _ClassVar[Expected.When]
        WHEN_NOW: _ClassVar[Expected.When]
        WHEN_ABOUT: _ClassVar[Expected.When]
        WHEN_NOT_BEFORE: _ClassVar[Expected.When]
        WHEN_NEVER: _ClassVar[Expected.When]
        WHEN_UNKNOWN: _ClassVar[Expected.When]
    WHEN_UNSPECIFIED: Expected.When
    WHEN_NOW: Expected.When
    WHEN_ABOUT: Expected.When
    WHEN_NOT_BEFORE: Expected.When
    WHEN_NEVER: Expected.When
    WHEN_UNKNOWN: Expected.When
    WHEN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BECAUSE_FIELD_NUMBER: _ClassVar[int]
    when: Expected.When
    seconds: float
    because: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, when: _Optional[_Union[Expected.When, str]] = ..., seconds: _Optional[float] = ..., because: _Optional[_Iterable[str]] = ...) -> None: ...

class Selection(_message.Message):
    __slots__ = ("matches", "capacity_types", "states", "providers")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_TYPES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    PROVIDERS_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[Match]
    capacity_types: _containers.RepeatedScalarFieldContainer[str]
    states: _containers.RepeatedScalarFieldContainer[_provider_pb2.MachineState]
    providers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, matches: _Optional[_Iterable[_Union[Match, _Mapping]]] = ..., capacity_types: _Optional[_Iterable[str]] = ..., states: _Optional[_Iterable[_Union[_provider_pb2.MachineState, str]]] = ..., providers: _Optional[_Iterable[str]] = ...) -> None: ...

class Match(_message.Message):
    __slots__ = ("key", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class PriceChange(_message.Message):
    __slots__ = ("selection", "factor")
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    selection: Selection
    factor: float
    def __init__(self, selection: _Optional[_Union[Selection, _Mapping]] = ..., factor: _Optional[float] = ...) -> None: ...

class Addition(_message.Message):
    __slots__ = ("cluster", "need")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    need: _capacity_pb2.CapacityNeed
    def __init__(self, cluster: _Optional[str] = ..., need: _Optional[_Union[_capacity_pb2.CapacityNeed, _Mapping]] = ...) -> None: ...

class QuotaChange(_message.Message):
    __slots__ = ("cluster", "provider", "region", "held")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    provider: str
    region: str
    held: int
    def __init__(self, cluster: _Optional[str] = ..., provider: _Optional[str] = ..., region: _Optional[str] = ..., held: _Optional[int] = ...) -> None: ...

class WhatIfQuery(_message.Message):
    __slots__ = ("lost_zones", "lost", "prices", "additions", "quotas")
    LOST_ZONES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PRICES_FIELD_NUMBER: _ClassVar[int]
    ADDITIONS_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    lost_zones: _containers.RepeatedScalarFieldContainer[str]
    lost: _containers.RepeatedCompositeFieldContainer[Selection]
    prices: _containers.RepeatedCompositeFieldContainer[PriceChange]
    additions: _containers.RepeatedCompositeFieldContainer[Addition]
    quotas: _containers.RepeatedCompositeFieldContainer[QuotaChange]
    def __init__(self, lost_zones: _Optional[_Iterable[str]] = ..., lost: _Optional[_Iterable[_Union[Selection, _Mapping]]] = ..., prices: _Optional[_Iterable[_Union[PriceChange, _Mapping]]] = ..., additions: _Optional[_Iterable[_Union[Addition, _Mapping]]] = ..., quotas: _Optional[_Iterable[_Union[QuotaChange, _Mapping]]] = ...) -> None: ...

class NeedChange(_message.Message):
    __slots__ = ("cluster", "fingerprint", "group", "before", "after")
    class BeforeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    fingerprint: str
    group: str
    before: _containers.ScalarMap[str, str]
    after: _containers.ScalarMap[str, str]
    def __init__(self, cluster: _Optional[str] = ..., fingerprint: _Optional[str] = ..., group: _Optional[str] = ..., before: _Optional[_Mapping[str, str]] = ..., after: _Optional[_Mapping[str, str]] = ...) -> None: ...

class WhatIfAnswer(_message.Message):
    __slots__ = ("stamp", "actions_before", "actions_after", "cost_before", "cost_after", "satisfied", "unsatisfied", "moved", "drained", "spared", "satisfied_count", "unsatisfied_count", "moved_count", "drained_count", "spared_count", "unmatched")
    class ActionsBeforeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ActionsAfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    STAMP_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_AFTER_FIELD_NUMBER: _ClassVar[int]
    COST_BEFORE_FIELD_NUMBER: _ClassVar[int]
    COST_AFTER_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_FIELD_NUMBER: _ClassVar[int]
    UNSATISFIED_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    SPARED_FIELD_NUMBER: _ClassVar[int]
    SATISFIED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNSATISFIED_COUNT_FIELD_NUMBER: _ClassVar[int]
    MOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DRAINED_COUNT_FIELD_NUMBER: _ClassVar[int]
    SPARED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNMATCHED_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    actions_before: _containers.ScalarMap[str, int]
    actions_after: _containers.ScalarMap[str, int]
    cost_before: float
    cost_after: float
    satisfied: _containers.RepeatedCompositeFieldContainer[NeedChange]
    unsatisfied: _containers.RepeatedCompositeFieldContainer[NeedChange]
    moved: _containers.RepeatedCompositeFieldContainer[NeedChange]
    drained: _containers.RepeatedScalarFieldContainer[str]
    spared: _containers.RepeatedScalarFieldContainer[str]
    satisfied_count: int
    unsatisfied_count: int
    moved_count: int
    drained_count: int
    spared_count: int
    unmatched: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., actions_before: _Optional[_Mapping[str, int]] = ..., actions_after: _Optional[_Mapping[str, int]] = ..., cost_before: _Optional[float] = ..., cost_after: _Optional[float] = ..., satisfied: _Optional[_Iterable[_Union[NeedChange, _Mapping]]] = ..., unsatisfied: _Optional[_Iterable[_Union[NeedChange, _Mapping]]] = ..., moved: _Optional[_Iterable[_Union[NeedChange, _Mapping]]] = ..., drained: _Optional[_Iterable[str]] = ..., spared: _Optional[_Iterable[str]] = ..., satisfied_count: _Optional[int] = ..., unsatisfied_count: _Optional[int] = ..., moved_count: _Optional[int] = ..., drained_count: _Optional[int] = ..., spared_count: _Optional[int] = ..., unmatched: _Optional[_Iterable[str]] = ...) -> None: ...

class SetControlRequest(_message.Message):
    __slots__ = ("kind", "cluster", "value", "reason", "for_s", "by", "even_if_unknown")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    EVEN_IF_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    kind: str
    cluster: str
    value: float
    reason: str
    for_s: float
    by: str
    even_if_unknown: bool
    def __init__(self, kind: _Optional[str] = ..., cluster: _Optional[str] = ..., value: _Optional[float] = ..., reason: _Optional[str] = ..., for_s: _Optional[float] = ..., by: _Optional[str] = ..., even_if_unknown: _Optional[bool] = ...) -> None: ...

class LiftControlRequest(_message.Message):
    __slots__ = ("kind", "cluster", "reason", "by")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    cluster: str
    reason: str
    by: str
    def __init__(self, kind: _Optional[str] = ..., cluster: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class RetireRequest(_message.Message):
    __slots__ = ("machine", "reason", "by")
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    machine: str
    reason: str
    by: str
    def __init__(self, machine: _Optional[str] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class Retired(_message.Message):
    __slots__ = ("stamp", "machine", "last_error")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    machine: str
    last_error: str
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., machine: _Optional[str] = ..., last_error: _Optional[str] = ...) -> None: ...

class GroupQuery(_message.Message):
    __slots__ = ("attribute", "zone", "limit", "after", "value")
    ATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    attribute: str
    zone: str
    limit: int
    after: str
    value: str
    def __init__(self, attribute: _Optional[str] = ..., zone: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class GroupRow(_message.Message):
    __slots__ = ("value", "machines", "spend_per_hour")
    class MachinesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    SPEND_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    value: str
    machines: _containers.ScalarMap[str, int]
    spend_per_hour: float
    def __init__(self, value: _Optional[str] = ..., machines: _Optional[_Mapping[str, int]] = ..., spend_per_hour: _Optional[float] = ...) -> None: ...

class GroupRows(_message.Message):
    __slots__ = ("stamp", "matched", "rows")
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stamp: Stamp
    matched: int
    rows: _containers.RepeatedCompositeFieldContainer[GroupRow]
    def __init__(self, stamp: _Optional[_Union[Stamp, _Mapping]] = ..., matched: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[GroupRow, _Mapping]]] = ...) -> None: ...

"""Roll-ups and requests come back from the wire as they were."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from builders import a_machine
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.calls import (
    INT64_MAX,
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    Listing,
    ListRequest,
)
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need
from mainstay.model.profile import CapacityType
from mainstay.model.rollup import RawNeed, RawRequirement, RawSpread, raw_of
from mainstay.model.state import State
from mainstay.wire.calls import (
    Request,
    ack_from_wire,
    ack_to_wire,
    capabilities_from_wire,
    capabilities_to_wire,
    listing_to_wire,
    request_from_wire,
    request_to_wire,
)
from mainstay.wire.machines import machine_to_wire
from mainstay.wire.needs import RawRollup, rollup_from_wire, rollup_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import capacity_pb2 as pb
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb_provider

texts = st.text(max_size=6)
maps = st.dictionaries(texts, texts, max_size=3)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-INT64_MAX - 1, INT64_MAX)

raw_needs = st.one_of(
    strategies.needs().map(raw_of),
    st.builds(
        RawNeed,
        requirements=st.lists(
            st.builds(RawRequirement, texts, int32, st.lists(texts, max_size=3).map(tuple)),
            max_size=2,
        ).map(tuple),
        aggregate_resources=maps,
        priority=int32,
        spread=st.lists(st.builds(RawSpread, texts, int32, int32), max_size=2).map(tuple),
        interruption_penalty_bucket=int32,
        reclamation_penalty_bucket=int32,
        min_unit=maps,
        group=texts,
    ),
)


@given(texts, int64, st.lists(raw_needs, max_size=4).map(tuple))
def test_a_rollup_comes_back_as_it_was_whatever_is_in_it(
    cluster: str, timestamp: int, rows: tuple[RawNeed, ...]
) -> None:
    rollup = RawRollup(cluster, timestamp, rows)

    data = rollup_to_wire(rollup).SerializeToString()

    assert rollup_from_wire(pb.ClusterCapacityNeeds.FromString(data)) == rollup


@given(strategies.needs())
def test_a_need_of_ours_is_the_same_row_again(need: Need) -> None:
    rollup = RawRollup(need.cluster, need.arrival_nanos, (raw_of(need),))

    assert rollup_from_wire(rollup_to_wire(rollup)).rows == (raw_of(need),)


fences = st.builds(Fence, texts, int64, int64)
requests: dict[Call, st.SearchStrategy[Request]] = {
    Call.CREATE: st.builds(CreateRequest, texts, fence=fences, attribution=maps),
    Call.CONFIGURE: st.builds(
        ConfigureRequest, texts, texts, blob=st.binary(max_size=9), metadata=maps, fence=fences
    ),
    Call.DRAIN: st.builds(DrainRequest, texts, grace_s=int64, fence=fences),
    Call.DELETE: st.builds(DeleteRequest, texts, fence=fences),
    Call.GET: st.builds(GetRequest, texts),
    Call.LIST: st.builds(
        ListRequest,
        states=st.frozensets(st.sampled_from(State)),
        since=st.binary(max_size=9),
        results_max=int32,
    ),
}


@given(st.sampled_from(Call).flatmap(lambda call: st.tuples(st.just(call), requests[call])))
def test_a_request_comes_back_as_it_was(asked: tuple[Call, Request]) -> None:
    call, request = asked

    assert request_from_wire(call, request_to_wire(request)) == request


@given(texts, strategies.machines())
def test_an_acknowledgement_comes_back_as_it_was(operation: str, machine: Machine) -> None:
    ack = Ack(operation, replace(machine, assignment=NO_ASSIGNMENT))

    assert ack_from_wire(ack_to_wire(ack)) == ack


@given(
    st.builds(
        Capabilities,
        deletable=st.frozensets(st.sampled_from(CapacityType)),
        paging=st.booleans(),
        incremental=st.booleans(),
        tombstones=st.booleans(),
        attribution=st.booleans(),
        notices=st.booleans(),
    )
)
def test_capabilities_come_back_as_they_were(capabilities: Capabilities) -> None:
    assert capabilities_from_wire(capabilities_to_wire(capabilities)) == capabilities


@given(
    st.lists(strategies.machines(), max_size=4),
    st.binary(max_size=5),
    st.lists(strategies.machine_ids(), max_size=3).map(tuple),
    st.booleans(),
    st.booleans(),
)
def test_a_list_is_the_message_that_protobuf_would_write(
    machines: list[Machine], cursor: bytes, gone: tuple[MachineId, ...], full: bool, more: bool
) -> None:
    listing = Listing(machines=machines, full=full, cursor=cursor, tombstones=gone, more=more)

    message = pb_provider.MachineList.FromString(listing_to_wire(listing, Capabilities()))

    assert message == pb_provider.MachineList(
        machines=map(machine_to_wire, machines),
        revision=cursor,
        deleted_ids=gone,
        more=more,
        incremental=not full,
        capabilities=capabilities_to_wire(Capabilities()),
    )


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16_300, 16_400, 2_100_000])
def test_a_machine_of_any_length_stands_in_a_list(length: int) -> None:
    machine = a_machine(State.FAILED, last_error="x" * (length + 1))
    listing = Listing(machines=[machine, machine], full=True, cursor=b"")

    message = pb_provider.MachineList.FromString(listing_to_wire(listing, Capabilities()))

    assert [len(sent.last_error) for sent in message.machines] == [length + 1] * 2

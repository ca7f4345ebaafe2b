"""Requests that are refused where they are read or written, and what a list says beside itself."""

import pytest

from mainstay.model.calls import (
    INT64_MAX,
    Call,
    Capabilities,
    CreateRequest,
    DrainRequest,
    Fence,
    ListRequest,
)
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.state import State
from mainstay.wire.calls import (
    METHODS,
    Request,
    ack_from_wire,
    capabilities_from_wire,
    page_from_wire,
    request_from_wire,
    request_to_wire,
)
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from mainstay.wire.pb.mainstay.v1 import provider_pb2 as our_pb


def test_a_filter_with_a_state_that_is_none_of_ours_is_refused() -> None:
    """To leave it out would ask for more than was wanted: for all, if it was the only one."""
    data = pb.ListFilter()
    data.states.append(77)  # type: ignore[arg-type]

    with pytest.raises(Rejected, match="unknown state in a filter: 77"):
        request_from_wire(Call.LIST, data.SerializeToString())


@pytest.mark.parametrize("call", Call)
def test_bytes_that_are_no_request_are_refused(call: Call) -> None:
    with pytest.raises(Rejected, match=f"not a request of {call}"):
        request_from_wire(call, b"\xff\xff")


@pytest.mark.parametrize(
    "request_",
    [
        CreateRequest("m-1", Fence("s-0", INT64_MAX + 1, 1)),
        DrainRequest("m-1", grace_s=-INT64_MAX - 2),
        ListRequest(results_max=2**31),
    ],
)
def test_a_number_that_does_not_fit_is_refused(request_: Request) -> None:
    with pytest.raises(Rejected, match="does not fit the wire"):
        request_to_wire(request_)


def test_a_peer_that_knows_nothing_of_attribution_reads_the_same_create() -> None:
    """Drain has the numbers that BigFleet's Create has, and none of ours."""
    said = CreateRequest("m-1", Fence("s-0", 3, 4), attribution={"for": "web"})

    heard = pb.DrainRequest.FromString(request_to_wire(said))

    assert (heard.machine_id, heard.shard_id) == ("m-1", "s-0")
    assert (heard.shard_epoch, heard.sequence_number) == (3, 4)
    assert heard.grace_period_seconds == 0


def test_the_paths_are_those_of_the_peers_service() -> None:
    assert METHODS[Call.CONFIGURE] == "/bigfleet.v1alpha1.CapacityProvider/Configure"
    names = {path.rpartition("/")[2] for path in METHODS.values()}
    assert names == {"Create", "Configure", "Drain", "Delete", "Get", "List"}


def test_an_answer_that_cannot_be_read_is_no_answer() -> None:
    with pytest.raises(Unavailable, match="not a TransitionAck"):
        ack_from_wire(b"\xff")


def test_what_a_list_says_beside_its_machines_is_read_without_them() -> None:
    message = pb.MachineList(
        machines=[pb.Machine(id="m-1")], revision=b"9", deleted_ids=["m-2", "not an id", ""],
        more=True, incremental=True,
    )  # fmt: skip
    message.capabilities.paging = True

    page = page_from_wire(message.SerializeToString())

    assert page == (b"9", ("m-2",), True, True, Capabilities(paging=True))


def test_a_provider_that_declares_nothing_is_told_from_one_that_can_nothing() -> None:
    silent = pb.MachineList()
    humble = pb.MachineList(capabilities=our_pb.ProviderCapabilities())

    assert page_from_wire(silent.SerializeToString()).capabilities is None
    assert page_from_wire(humble.SerializeToString()).capabilities == Capabilities()


def test_a_capacity_type_that_we_do_not_know_is_not_deletable() -> None:
    message = our_pb.ProviderCapabilities()
    message.deletable.append(99)  # type: ignore[arg-type]

    assert capabilities_from_wire(message) == Capabilities()


def test_all_states_may_be_asked_for() -> None:
    every = ListRequest(states=frozenset(State))

    assert request_from_wire(Call.LIST, request_to_wire(every)) == every

"""Answers as they are, however odd."""

from mainstay.model.calls import Ack, Call, Capabilities, Listing, ListRequest
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.profile import CapacityType, HostRef, Profile
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.wire.calls import ack_to_wire, get_answer_to_wire, listing_to_wire, request_from_wire
from mainstay.wire.raw_calls import UNREADABLE, raw_filter, raw_request, read_reply

IMPOSSIBLE = Machine(
    id=MachineId("not an id"),
    state=State.IDLE,
    profile=Profile(
        "gp-4", "a", CapacityType.SPOT, Resources({"cpu": "4"}), labels=(("rack", "r1"),)
    ),
    cluster=None,
    price_per_hour=-1.0,
    interruption_probability=7.0,
    shard_metadata={"k": "\x00"},
)


def test_a_machine_that_cannot_exist_is_shown_as_it_was_sent() -> None:
    record = read_reply(Call.GET, get_answer_to_wire(IMPOSSIBLE)).machine

    assert record is not None
    assert (record.id, record.state, record.host) == ("not an id", State.IDLE, None)
    assert (record.price_per_hour, record.interruption_probability) == (-1.0, 7.0)
    assert (record.capacity_type, record.labels) == (CapacityType.SPOT, {"rack": "r1"})
    assert record.metadata == {"k": "\x00"}
    assert record.resources == {"cpu": "4"}
    assert record.allocatable is None


def test_an_ack_and_a_list_say_all_they_said() -> None:
    machine = Machine(
        id=MachineId("m-1"), state=State.FAILED, profile=Profile("gp-4"),
        host=HostRef("sim", "h-1"), last_error="why",
    )  # fmt: skip
    ack = read_reply(Call.CREATE, ack_to_wire(Ack("op-1", machine)))
    assert ack.operation == "op-1"
    assert ack.machine is not None
    assert (ack.machine.host, ack.machine.last_error) == (("sim", "h-1"), "why")

    capabilities = Capabilities(paging=True)
    listing = Listing(
        machines=[machine], full=False, cursor=b"c", tombstones=(MachineId("m-2"),), more=True
    )
    told = read_reply(Call.LIST, listing_to_wire(listing, capabilities))
    assert [record.id for record in told.machines] == ["m-1"]
    assert (told.cursor, told.tombstones, told.more, told.incremental) == (
        b"c",
        ("m-2",),
        True,
        True,
    )
    assert told.capabilities == capabilities


def test_bytes_that_are_no_answer_are_told_and_raise_nothing() -> None:
    for call in (Call.GET, Call.LIST, Call.DRAIN):
        assert read_reply(call, b"\xff\xff").status == UNREADABLE


def test_a_filter_may_name_states_that_nobody_knows() -> None:
    request = ListRequest(states=frozenset({State.IDLE}), since=b"c", results_max=3)

    assert request_from_wire(Call.LIST, raw_request(request)) == request
    assert request_from_wire(Call.LIST, raw_filter(request, [State.IDLE])) == request
    assert raw_filter(ListRequest(), [99]) == b"\x0a\x01c"

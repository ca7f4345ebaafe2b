"""A provider's list: what it says beside its machines, and what becomes of bytes that are wrong."""

import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from builders import a_machine
from mainstay.inventory.inventory import Inventory
from mainstay.model.batch import batch_of
from mainstay.model.errors import Rejected
from mainstay.model.ids import ID_LENGTH_MAX, MachineId
from mainstay.model.machine import HOST_REF_BYTES_MAX, Machine
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.wire import columns, listing, loops
from mainstay.wire.listing import UNREADABLE, listing_of
from mainstay.wire.machines import machine_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from oracles.wire_bytes import FIXED32, FIXED64, GROUP, a_list, a_map, entry, field, varint

M1: Final = MachineId("m-1")
HOST: Final = field(3, field(1, "metal") + field(2, "rack-1/host-1"))
IDLE: Final = field(1, "m-1") + field(2, State.IDLE) + HOST + field(4, "m5.2xlarge")


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "compiled":
        assert loops.warm(), "numba is part of the lock"
    yield request.param
    loops.cool()


def refusals(data: bytes) -> list[tuple[str, str]]:
    """Name and reason of every record that an inventory does not take in."""
    report = Inventory().merge(listing_of(data), now=1.0)
    return [(refusal.machine, refusal.reason) for refusal in report.refused]


class TestTheListItself:
    def test_an_empty_answer_is_an_empty_list(self) -> None:
        listing = listing_of(b"")

        assert (len(listing), listing.cursor, listing.tombstones) == (0, b"", ())
        assert len(listing.batch()[0]) == 0

    def test_what_it_says_beside_its_machines_is_kept(self) -> None:
        message = pb.MachineList(
            revision=b"7\xff", deleted_ids=["m-8", "not an id", "m-9"], more=True, incremental=True
        )
        message.capabilities.paging = True

        listing = listing_of(message.SerializeToString(), source="east", full=False)

        assert (listing.cursor, listing.more, listing.incremental) == (b"7\xff", True, True)
        assert listing.tombstones == ("m-8", "m-9")
        assert listing.capabilities == message.capabilities.SerializeToString()
        assert (listing.source, listing.full) == ("east", False)
        batch, _ = listing.batch()
        assert (batch.source, batch.full, batch.cursor) == ("east", False, b"7\xff")
        assert batch.tombstones == ("m-8", "m-9")

    def test_what_it_does_not_say_is_absent(self) -> None:
        listing = listing_of(a_list(IDLE) + field(1001, 0))

        assert (listing.more, listing.incremental, listing.capabilities) == (False, False, None)

    def test_pages_joined_are_one_list(self) -> None:
        first = pb.MachineList(machines=[pb.Machine(id="m-1")], revision=b"1", more=True)
        last = pb.MachineList(machines=[pb.Machine(id="m-2")], revision=b"2")
        last.more = False

        listing = listing_of(first.SerializeToString() + last.SerializeToString())

        assert list(listing.ids) == ["m-1", "m-2"]
        assert listing.cursor == b"2"

    def test_more_machines_than_one_part_holds_are_read_in_order(self) -> None:
        names = [f"m-{number}" for number in range(listing.PART_MACHINES + 10)]
        loops.warm()

        read = listing_of(a_list(*(field(1, name) for name in names)))

        assert list(read.ids) == names


class TestRejectedLists:
    """Where the frame of a list or of a machine is wrong, no id in it can be believed."""

    @pytest.mark.parametrize(
        "wrong",
        {
            "a length that ends nowhere": b"\x0a\xff",
            "a length beyond the end": field(1, IDLE)[:-1],
            "a length near 2**64": b"\x0a" + varint(2**64 - 1) + b"xxx",
            "a field numbered 0": b"\x02\x01a",
            "a field number beyond 2**29": varint(2**32 << 3 | 2) + b"\x01a",
            "a group": field(7, b"", GROUP),
            "a number of eleven bytes": b"\x38" + b"\x80" * 10 + b"\x01",
            "a number beyond 64 bits": b"\x38" + b"\xff" * 9 + b"\x02",
            "eight bytes cut off": field(7, b"\x01\x02\x03", FIXED64),
            "four bytes cut off": field(7, b"\x01\x02", FIXED32),
            "no tag at all": b"\xff",
        }.items(),
        ids=lambda case: case[0],
    )
    @pytest.mark.parametrize("within", [False, True], ids=["list", "machine"])
    def test_it_is_rejected_whole(self, wrong: tuple[str, bytes], within: bool) -> None:
        data = a_list(IDLE, IDLE + wrong[1]) if within else a_list(IDLE) + wrong[1]

        with pytest.raises(Rejected, match="not a machine list: no field at byte"):
            listing_of(data)

    def test_the_place_is_named(self) -> None:
        with pytest.raises(Rejected, match="at byte 5 of 7"):
            listing_of(field(1, field(1, "a")) + b"\x0a\x09")

    def test_a_list_of_too_many_machines_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "PART_MACHINES", 2)
        monkeypatch.setattr(listing, "PARTS_MAX", 2)

        assert len(listing_of(a_list(*[IDLE] * 4))) == 4
        with pytest.raises(Rejected, match="more than 4 machines"):
            listing_of(a_list(*[IDLE] * 5))

    def test_a_list_in_which_too_much_has_no_id_is_rejected(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listing, "NAMELESS_MAX", 2)

        assert len(listing_of(a_list(IDLE, b"", b"")).nameless) == 2
        with pytest.raises(Rejected, match="more than 2 records have no machine id"):
            listing_of(a_list(IDLE, b"", b"", b""))

    def test_a_list_of_too_many_map_entries_is_rejected(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(columns, "ENTRIES_MAX", 2)
        labels = IDLE + a_map(10, {"a": "1", "b": "2"})

        assert len(listing_of(a_list(labels)).batch()[0]) == 1
        with pytest.raises(Rejected, match="more than 2 map entries"):
            listing_of(a_list(labels, labels)).batch()


class TestRefusedRecords:
    """What is wrong inside of a machine concerns that machine alone."""

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        {
            "a zone that is no UTF-8": (field(5, b"\xff"), UNREADABLE),
            "a type with half a surrogate": (field(4, b"\xed\xa0\x80"), UNREADABLE),
            "a cluster that is no UTF-8": (field(14, b"\x80"), UNREADABLE),
            "an error that is no UTF-8": (field(12, b"a\xc3"), UNREADABLE),
            "a host's provider that is no UTF-8": (field(3, field(1, b"\xff")), UNREADABLE),
            "a host's ref that is no UTF-8": (field(3, field(2, b"\xff")), UNREADABLE),
            "a host that is cut off": (field(3, b"\x0a\x05ab"), UNREADABLE),
            "a host's ref that is too long": (
                field(3, field(2, "x" * (HOST_REF_BYTES_MAX + 1))), "host",
            ),
            "a host's ref of megabytes": (field(3, field(2, "x" * 2**22)), "host"),
            "resources that are cut off": (field(9, b"\x0a\x05ab"), UNREADABLE),
            "a label that is cut off": (field(10, b"\x0a\x05ab"), UNREADABLE),
            "a label that is no UTF-8": (field(10, entry("rack", b"\xff")), UNREADABLE),
            "metadata that is no UTF-8": (field(15, entry(b"\xff", "1")), UNREADABLE),
            "attribution that is no UTF-8": (field(1001, entry(b"\xff", "1")), UNREADABLE),
            "a label named twice": (
                a_map(10, {"rack": "1"}) + a_map(10, {"rack": "2"}), UNREADABLE,
            ),
            "a label written twice": (a_map(10, {"rack": "1"}) * 2, UNREADABLE),
            "a quantity that is none": (field(9, a_map(1, {"cpu": "many"})), "resources"),
            "an allocatable below zero": (field(13, a_map(1, {"cpu": "-1"})), "resources"),
            "too many resources": (
                field(9, a_map(1, {f"device-{n}": "1" for n in range(65)})), "resources",
            ),
            "no state": (field(2, 0), "state"),
            "a state that is none of ours": (field(2, 9), "state"),
            "a state beyond a byte": (field(2, 300), "state"),
            "a state below zero": (field(2, -1), "state"),
            "a price below zero": (field(7, struct.pack("<d", -1.0), FIXED64), "price"),
        }.values(),
        ids=lambda case: None,
    )  # fmt: skip
    def test_it_is_refused_by_name_and_the_others_are_taken_in(
        self, wrong: bytes, reason: str
    ) -> None:
        other = IDLE.replace(b"m-1", b"m-2")
        inventory = Inventory()

        report = inventory.merge(listing_of(a_list(IDLE + wrong, other)), now=1.0)

        assert [(r.machine, r.reason) for r in report.refused] == [("m-1", reason)]
        assert "m-1" in report.refused[0].message
        assert inventory.ids() == ["m-2"]

    def test_the_last_good_record_stays_and_is_not_absent(self) -> None:
        inventory = Inventory()
        inventory.merge(listing_of(a_list(IDLE)), now=1.0)
        before = inventory.snapshot()

        report = inventory.merge(listing_of(a_list(IDLE + field(5, b"\xff"))), now=2.0)

        assert (len(report.refused), list(report.absent)) == (1, [])
        assert inventory.snapshot() is before

    @pytest.mark.parametrize(
        "name",
        [b"", b"a b", "zürich".encode(), b"\xff", b"a\x7f", b"x" * (ID_LENGTH_MAX + 1),
         b"x" * 2**22],
        ids=["empty", "space", "not ASCII", "not UTF-8", "control", "long", "megabytes"],
    )  # fmt: skip
    def test_a_record_without_an_id_is_refused(self, name: bytes) -> None:
        record = field(1, name) + field(2, State.SPECULATIVE) + field(4, "m5.2xlarge")

        [(shown, reason)] = refusals(a_list(record))

        assert reason == (UNREADABLE if name == b"\xff" else "id")
        assert len(shown) <= 80

    def test_the_longest_id_is_one(self) -> None:
        record = field(1, "x" * ID_LENGTH_MAX) + field(2, State.SPECULATIVE)

        assert refusals(a_list(record)) == []

    def test_an_id_named_twice_is_refused_the_second_time_known_or_not(self) -> None:
        inventory = Inventory()
        twice = a_list(IDLE, IDLE + field(5, "zone-b"))

        for _ in range(2):
            report = inventory.merge(listing_of(twice), now=1.0)
            assert [(r.machine, r.reason) for r in report.refused] == [("m-1", "duplicate_machine")]

        assert inventory.machine(M1).profile.zone == ""


class TestWhatProtobufSays:
    """Rules of the wire format that an honest writer may use."""

    def test_of_a_value_given_twice_the_later_counts(self) -> None:
        record = field(1, "m-9") + field(5, "zone-a") + IDLE + field(5, "zone-b")

        [machine] = machines(a_list(record))

        assert (machine.id, machine.profile.zone) == ("m-1", "zone-b")

    def test_a_host_given_in_two_parts_is_one_host(self) -> None:
        parts = field(3, field(1, "metal")) + field(3, field(2, "r-1") + field(9, 5))

        [machine] = machines(a_list(field(1, "m-1") + field(2, State.IDLE) + parts))

        assert machine.host is not None
        assert (machine.host.provider, machine.host.ref) == ("metal", "r-1")

    def test_resources_given_in_two_parts_are_one_map(self) -> None:
        parts = field(9, a_map(1, {"cpu": "8"})) + field(9, a_map(1, {"memory": "1Gi"}))

        [machine] = machines(a_list(IDLE + parts))

        assert machine.profile.resources.as_dict() == {"cpu": "8", "memory": "1Gi"}

    def test_half_an_entry_has_an_empty_key_or_value(self) -> None:
        halves = field(10, field(1, "rack")) + field(10, field(2, "lost") + field(3, "unknown"))

        [machine] = machines(a_list(IDLE + halves))

        assert dict(machine.profile.labels) == {"rack": "", "": "lost"}

    def test_an_entry_may_have_its_value_first(self) -> None:
        [machine] = machines(a_list(IDLE + field(10, field(2, "7") + field(1, "rack"))))

        assert dict(machine.profile.labels) == {"rack": "7"}

    def test_a_known_number_with_another_wire_type_is_unknown(self) -> None:
        odd = field(5, 7) + field(2, "x") + field(7, b"\x00\x00\x00\x01", FIXED32) + field(10, 1)

        assert machines(a_list(IDLE + odd)) == machines(a_list(IDLE))

    def test_a_state_is_what_its_low_32_bits_say(self) -> None:
        record = field(1, "m-1") + varint(2 << 3) + varint(2**32 + State.SPECULATIVE)

        assert [machine.state for machine in machines(a_list(record))] == [State.SPECULATIVE]

    @pytest.mark.parametrize("number", [5, 300, -1])
    def test_a_capacity_type_that_is_none_of_ours_is_unspecified(self, number: int) -> None:
        [machine] = machines(a_list(IDLE + field(6, number)))

        assert machine.profile.capacity_type is CapacityType.UNSPECIFIED

    def test_what_create_was_given_is_echoed_under_what_configure_was_given(self) -> None:
        echo = a_map(1001, {"a": "1", "b": "1"}) + a_map(15, {"b": "2", "c": "2"})

        [machine] = machines(a_list(IDLE + echo))

        assert machine.shard_metadata == {"a": "1", "b": "2", "c": "2"}

    def test_hundreds_of_entries_of_several_maps_may_come_in_any_order(self) -> None:
        labels = {f"key-{number}": str(number) for number in range(100)}
        echo = {f"mark-{number}": str(number) for number in range(100)}
        mixed = b"".join(
            a_map(10, {key: labels[key]}) + a_map(15, {mark: echo[mark]})
            for key, mark in zip(reversed(labels), echo, strict=True)
        )

        one, other = machines(a_list(
            IDLE + a_map(10, labels) + a_map(15, echo), IDLE.replace(b"m-1", b"m-2") + mixed,
        ))  # fmt: skip

        assert dict(one.profile.labels) == labels
        assert (one.profile, one.shard_metadata) == (other.profile, other.shard_metadata)


class TestDigest:
    def test_unknown_fields_are_not_part_of_it(self) -> None:
        unknown = field(11, 5) + field(16, "new") + field(999, bytes(4), FIXED32)

        assert digest(IDLE + unknown) == digest(IDLE)

    @pytest.mark.parametrize("number", [1000, 1001, 1002])
    def test_our_own_fields_are_part_of_it(self, number: int) -> None:
        assert digest(IDLE + field(number, field(2, "soon"))) != digest(IDLE)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (a_map(10, {"a": "1"}), a_map(15, {"a": "1"})),
            (a_map(15, {"a": "1"}), a_map(1001, {"a": "1"})),
            (field(9, a_map(1, {"a": "1"})), field(13, a_map(1, {"a": "1"}))),
            (field(9, a_map(1, {"a": "1"})), a_map(10, {"a": "1"})),
            (a_map(10, {"a": "12"}), a_map(10, {"a1": "2"})),
            (a_map(10, {"a": "1", "b": "2"}), a_map(10, {"a": "2", "b": "1"})),
            (field(4, "x") + field(5, "y"), field(4, "y") + field(5, "x")),
            (field(4, "ab") + field(5, "c"), field(4, "a") + field(5, "bc")),
            (field(3, b""), b""),
            (a_map(10, {}), a_map(10, {"": ""})),
        ],
        ids=range(10),
    )
    def test_records_that_look_alike_are_told_apart(self, one: bytes, other: bytes) -> None:
        assert digest(IDLE + one) != digest(IDLE + other)

    def test_a_digest_of_another_kind_is_never_taken_for_one_of_these(self) -> None:
        """A record that came in one by one is compared once, and known from then on."""
        inventory, machine = Inventory(), a_machine(State.IDLE)
        inventory.merge(batch_of([machine]), now=1.0)
        data = pb.MachineList(machines=[machine_to_wire(machine)]).SerializeToString()
        revision = inventory.revision

        reports = [inventory.merge(listing_of(data), now=2.0) for _ in range(2)]

        assert [report.unchanged for report in reports] == [1, 1]
        assert inventory.revision == revision

    def test_a_list_is_a_copy_of_what_was_sent(self) -> None:
        data = bytearray(a_list(IDLE + field(5, "zone-a")))
        read = listing_of(data)  # type: ignore[arg-type]

        data[:] = bytes(len(data))

        assert [read.batch()[0].machine(0).profile.zone] == ["zone-a"]


def digest(record: bytes) -> int:
    return int(listing_of(a_list(record)).digest[0])


def machines(data: bytes) -> list[Machine]:
    batch, refused = listing_of(data).batch()
    assert refused == {}
    return [batch.machine(at) for at in np.arange(len(batch)).tolist()]

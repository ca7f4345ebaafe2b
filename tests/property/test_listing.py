"""A list read in columns says what it says read one by one; its digests say what has changed."""

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
import strategies
from builders import a_machine, a_profile
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import MergeReport, only
from mainstay.model.batch import batch_of
from mainstay.model.errors import InvalidMachine, Rejected
from mainstay.model.ids import MachineId, is_id
from mainstay.model.machine import Machine, MachineRule, check
from mainstay.wire import columns, interning, loops
from mainstay.wire.columns import bytes_of, interned
from mainstay.wire.listing import Listing, listing_of
from mainstay.wire.machines import machine_from_wire, machine_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from oracles import wire_bytes

REPORTED: Final = [
    rule for rule in strategies.RECORD_RULES
    if rule not in {MachineRule.ASSIGNMENT, MachineRule.PENALTY}
]  # fmt: skip
"""What is wrong with an assignment alone is not on the wire."""

QUANTITIES: Final = ("8", "32Gi", "-1", "many", "1e99", "")

Verdict = Machine | str


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "compiled":
        assert loops.warm(), "numba is part of the lock"
    yield request.param
    loops.cool()


def messages() -> st.SearchStrategy[pb.Machine]:
    """Machines on the wire: good ones, ones that break a rule, ones whose resources do."""
    good = strategies.machines().map(machine_to_wire)
    bad = [strategies.breaking(rule).map(machine_to_wire) for rule in REPORTED]
    noticed = st.builds(_noticed, good, st.integers(-(2**63), 2**63 - 1))
    spoilt = st.builds(_spoilt, good, st.sampled_from(QUANTITIES))
    return st.one_of(good, good, *bad, noticed, spoilt)


def _noticed(message: pb.Machine, deadline_unix_nanos: int) -> pb.Machine:
    message.interruption_notice.deadline_unix_nanos = deadline_unix_nanos
    return message


def _spoilt(message: pb.Machine, quantity: str) -> pb.Machine:
    message.resources.resources["cpu"] = quantity
    message.allocatable.resources["odd"] = quantity
    return message


def rounds_of_a_small_fleet() -> st.SearchStrategy[list[list[pb.Machine]]]:
    """Lists about the same few machines, each named once in a list."""
    named = st.builds(_named, messages(), st.sampled_from(["m-1", "m-2", "m-3", "m-4"]))
    return st.lists(st.lists(named, max_size=5, unique_by=lambda m: m.id), min_size=1, max_size=4)


def _named(message: pb.Machine, name: str) -> pb.Machine:
    message.id = name if is_id(message.id) else message.id
    return message


def sent(listed: list[pb.Machine]) -> bytes:
    return pb.MachineList(machines=listed).SerializeToString()


def one_by_one(message: pb.Machine) -> Verdict:
    try:
        return machine_from_wire(message)
    except InvalidMachine as error:
        return str(error.rule)


def in_columns(listing: Listing) -> list[Verdict]:
    batch, refused = listing.batch()
    places = iter(range(len(batch)))
    verdicts: list[Verdict] = []
    for position in range(len(listing)):
        if position in refused:
            verdicts.append(str(refused[position].rule))
            continue
        try:
            machine = batch.machine(next(places))
            check(machine)
            verdicts.append(machine)
        except InvalidMachine as error:
            verdicts.append(str(error.rule))
    return verdicts


class TestReading:
    @settings(max_examples=outside.examples(50))
    @given(st.lists(messages(), max_size=6))
    def test_every_machine_and_every_refusal_is_that_of_the_one_by_one_reader(
        self, listed: list[pb.Machine]
    ) -> None:
        listing = listing_of(sent(listed))

        named = [message for message in listed if is_id(message.id)]
        nameless = [message for message in listed if not is_id(message.id)]
        assert list(listing.ids) == [message.id for message in named]
        assert in_columns(listing) == [one_by_one(message) for message in named]
        assert [str(error.rule) for _, error in listing.nameless] == [
            one_by_one(message) for message in nameless
        ]

    @settings(max_examples=outside.examples(30))
    @given(st.lists(strategies.machines(), max_size=6), st.data())
    def test_some_rows_are_read_as_all_of_them_are(
        self, machines: list[Machine], data: st.DataObject
    ) -> None:
        listing = listing_of(sent([machine_to_wire(machine) for machine in machines]))
        wanted = data.draw(st.lists(st.sampled_from(range(len(machines))), unique=True)
                           if machines else st.just([]))  # fmt: skip
        whole, _ = listing.batch()

        part, _ = listing.read(np.array(wanted, dtype=np.intp))

        assert [part.machine(at) for at in range(len(part))] == [whole.machine(at) for at in wanted]
        assert part.digest.tolist() == [listing.digest[at] for at in wanted]


class TestDigest:
    @settings(max_examples=outside.examples(40))
    @given(strategies.machines(), st.integers(0, 2**32))
    def test_the_order_of_map_entries_does_not_matter(self, machine: Machine, seed: int) -> None:
        rng = random.Random(seed)
        record = machine_to_wire(machine).SerializeToString()
        turned = wire_bytes.shuffled(record, rng)

        one, other = listing_of(wire_bytes.a_list(record)), listing_of(wire_bytes.a_list(turned))

        assert list(one.digest) == list(other.digest)
        assert in_columns(one) == in_columns(other)

    @settings(max_examples=outside.examples(40))
    @given(strategies.machines(), strategies.machines())
    def test_it_tells_machines_apart(self, one: Machine, other: Machine) -> None:
        listing = listing_of(sent([machine_to_wire(one), machine_to_wire(other)]))
        first, second = in_columns(listing)

        assert (listing.digest[0] == listing.digest[1]) == (first == second)

    @settings(max_examples=outside.examples(30))
    @given(st.lists(strategies.machines(), min_size=1, max_size=4), st.data())
    def test_it_depends_on_the_record_and_on_nothing_around_it(
        self, machines: list[Machine], data: st.DataObject
    ) -> None:
        order = data.draw(st.permutations(range(len(machines))))
        records = [machine_to_wire(machine) for machine in machines]
        alone = [listing_of(sent([record])).digest[0] for record in records]

        together = listing_of(sent([records[at] for at in order])).digest

        assert together.tolist() == [alone[at] for at in order]
        assert 0 not in alone


class TestSome:
    @settings(max_examples=outside.examples(30))
    @given(st.lists(messages(), max_size=6), st.data())
    def test_the_records_of_some_machines_are_those_that_can_be_read(
        self, listed: list[pb.Machine], data: st.DataObject
    ) -> None:
        listing = listing_of(sent(listed), source="east")
        names = list(dict.fromkeys(listing.ids))
        wanted = set(map(MachineId, data.draw(st.lists(st.sampled_from(names)) if names
                                              else st.just([]))))  # fmt: skip
        whole, refused = listing.batch()
        first = {name: listing_at for listing_at, name in reversed(list(enumerate(listing.ids)))}
        kept = [name for name in names if name in wanted and first[name] not in refused]

        some = only(listing, wanted)

        assert list(some.ids) == kept
        assert (some.source, some.full, some.tombstones, some.cursor) == ("east", False, (), b"")
        places = {name: place for place, name in reversed(list(enumerate(whole.ids)))}
        assert some.digest.tolist() == [whole.digest[places[name]] for name in kept]

    def test_a_record_that_cannot_be_read_is_refused_before_anybody_asks_whose_it_is(self) -> None:
        ours, theirs, spoilt = (
            machine_to_wire(a_machine(id=id_, profile=a_profile(zone=zone)))
            for id_, zone in (("m-1", "east"), ("m-2", "west"), ("m-3", "west"))
        )
        listing = listing_of(sent([ours, theirs, _spoilt(spoilt, "many")]))

        report = Inventory().merge(listing, now=1.0, adopt=lambda s: s.profile.zone == "east")

        assert (len(report.added), report.foreign) == (1, 1)
        assert [refusal.machine for refusal in report.refused] == ["m-3"]


class TestMerging:
    """The inventory ends the same, whether a list came in columns or as records."""

    @settings(max_examples=outside.examples(60))
    @given(rounds_of_a_small_fleet(), st.integers(0, 2**32))
    def test_lists_are_taken_in_like_the_records_they_hold(
        self, rounds: list[list[pb.Machine]], seed: int
    ) -> None:
        rng = random.Random(seed)
        listed_in, records = Inventory(), Inventory()

        for number, listed in enumerate(rounds):
            shuffled = [wire_bytes.shuffled(m.SerializeToString(), rng) for m in listed]
            skip = frozenset(rng.sample(listed_in.ids(), len(listed_in) // 3))
            report = listed_in.merge(
                listing_of(wire_bytes.a_list(*shuffled), source="east", full=number != 1),
                now=float(number),
                skip=skip,
            )
            readable = [m for m in map(one_by_one, listed) if isinstance(m, Machine)]
            named = {MachineId(m.id) for m in listed}
            expected = records.merge(
                batch_of(readable, source="east", full=False), now=float(number), skip=skip
            )
            gone = () if number == 1 else set(records.ids()) - named - skip

            assert told(listed_in, report) == {**told(records, expected), "absent": sorted(gone)}
            assert listed_in.ids() == records.ids()
            assert all(listed_in.machine(m) == records.machine(m) for m in listed_in.ids())

    @settings(max_examples=outside.examples(30))
    @given(
        st.lists(strategies.machines(), max_size=5, unique_by=lambda m: m.id),
        st.integers(0, 2**32),
    )
    def test_a_list_that_was_taken_in_is_not_read_again(
        self, machines: list[Machine], seed: int
    ) -> None:
        records = [machine_to_wire(machine).SerializeToString() for machine in machines]
        inventory, rng = Inventory(), random.Random(seed)
        inventory.merge(listing_of(wire_bytes.a_list(*records)), now=1.0)
        revision = inventory.revision
        again = Unread(listing_of(wire_bytes.a_list(*(
            wire_bytes.shuffled(record, rng) for record in records
        ))))  # fmt: skip

        report = inventory.merge(again, now=2.0)

        assert again.asked == []
        assert (report.unchanged, inventory.revision) == (len(machines), revision)
        assert list(report.absent) == []


def told(inventory: Inventory, report: MergeReport) -> dict[str, Any]:
    """A report by names. What an object reader refuses never reaches its inventory."""
    snapshot = inventory.snapshot()
    return {
        "added": sorted(snapshot.machine_ids(report.added)),
        "changed": sorted(snapshot.machine_ids(report.changed)),
        "absent": sorted(snapshot.machine_ids(report.absent)),
        "illegal": [r.machine for r in report.refused if r.reason == "illegal_transition"],
    }


class Unread:
    """A listing that notes which rows somebody reads."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listing, name)

    def read(self, positions: Any) -> Any:
        self.asked += positions.tolist()
        return self._listing.read(positions)


class TestHostileBytes:
    """Any bytes at all: a typed error or a list, the same from both forms, never anything else."""

    @pytest.fixture(autouse=True)
    def form(self) -> Iterator[None]:
        yield
        loops.cool()

    @settings(max_examples=outside.examples(80))
    @given(st.binary(max_size=60))
    def test_noise_is_rejected_or_read(self, noise: bytes) -> None:
        assert_same_in_both_forms(noise)

    @settings(max_examples=outside.examples(80))
    @given(st.lists(messages(), min_size=1, max_size=3), st.data())
    def test_a_list_that_was_tampered_with_is_rejected_or_read(
        self, listed: list[pb.Machine], data: st.DataObject
    ) -> None:
        raw = bytearray(sent(listed))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(raw)))
            cut = data.draw(st.integers(0, 3))
            raw[at : at + cut] = data.draw(st.binary(max_size=3))

        assert_same_in_both_forms(bytes(raw))

    @settings(max_examples=outside.examples(40))
    @given(st.lists(messages(), min_size=1, max_size=2), st.data())
    def test_a_list_that_is_cut_off_is_rejected_unless_it_ends_between_two_fields(
        self, listed: list[pb.Machine], data: st.DataObject
    ) -> None:
        raw = sent(listed)
        at = data.draw(st.integers(0, len(raw) - 1))
        ends = {0, len(sent(listed[:1]))}

        if at in ends:
            assert len(listing_of(raw[:at])) + len(listing_of(raw[:at]).nameless) in {0, 1}
        else:
            with pytest.raises(Rejected, match="not a machine list"):
                listing_of(raw[:at])


def assert_same_in_both_forms(raw: bytes) -> None:
    loops.cool()
    plain = outcome(raw)
    assert loops.warm()
    assert outcome(raw) == plain


def outcome(raw: bytes) -> object:
    """All there is to know of a list, or why it is rejected."""
    try:
        listing = listing_of(raw)
        verdicts = in_columns(listing)
    except Rejected as error:
        return error.message
    nameless = [(name, error.message) for name, error in listing.nameless]
    said = (listing.cursor, listing.tombstones, listing.more, listing.capabilities)
    read = list(map(repr, verdicts)), dict(listing.notices)
    return listing.digest.tolist(), list(listing.ids), read, nameless, said


class TestInterning:
    @settings(max_examples=outside.examples(40))
    @given(st.lists(st.binary(max_size=20), max_size=30))
    def test_equal_bytes_and_only_they_get_one_code(self, texts: list[bytes]) -> None:
        codes, firsts = interned_texts(texts)

        assert [texts[firsts[code]] for code in codes] == texts
        assert len(firsts) == len(set(texts))

    def test_the_table_grows_with_the_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(columns, "_SLOTS_MIN", 16)
        texts = [str(number % 500).encode() for number in range(2_000)]

        codes, firsts = interned_texts(texts)

        assert codes == [number % 500 for number in range(2_000)]
        assert len(firsts) == 500


def interned_texts(texts: list[bytes]) -> tuple[list[int], list[int]]:
    lengths = np.array([len(text) for text in texts], dtype=np.uint32)
    places = np.column_stack([np.cumsum(lengths) - lengths, lengths]).astype(np.uint32)
    codes, firsts = interned(bytes_of(b"".join(texts)), places)
    return codes.tolist(), firsts.tolist()


class TestAHashProvesNothing:
    @pytest.fixture(autouse=True)
    def _one_hash_for_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loops.cool()
        monkeypatch.setattr(interning, "hashed", lambda words, at, length: 7)

    @settings(max_examples=outside.examples(40))
    @given(st.lists(st.binary(max_size=9), max_size=12))
    def test_values_of_one_hash_are_told_apart_by_their_bytes(self, texts: list[bytes]) -> None:
        codes, firsts = interned_texts(texts)

        assert [texts[firsts[code]] for code in codes] == texts

    @settings(max_examples=outside.examples(30))
    @given(st.lists(strategies.machines(), max_size=3))
    def test_a_list_is_read_right_whatever_the_hashes_are(self, machines: list[Machine]) -> None:
        messages = [machine_to_wire(machine) for machine in machines]

        assert in_columns(listing_of(sent(messages))) == [one_by_one(m) for m in messages]

    def test_a_thousand_values_made_to_have_one_hash_are_rejected(self) -> None:
        texts = [str(number).encode() for number in range(interning.PROBES_MAX + 2)]

        with pytest.raises(Rejected, match="one hash"):
            interned_texts(texts)

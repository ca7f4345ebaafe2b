"""Interruption notices on the wire: one by one, in lists, and in records that are broken."""

from collections.abc import Iterator

import numpy as np
import pytest

from builders import a_machine
from mainstay.model.calls import INT64_MAX, Capabilities, Listing
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice
from mainstay.wire import loops
from mainstay.wire.calls import listing_to_wire
from mainstay.wire.listing import listing_of
from mainstay.wire.machines import machine_bytes, machine_to_wire
from mainstay.wire.notices import notice_bytes, notice_in
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from oracles.wire_bytes import a_list, field

AT_S = 1_800_000_000.5
NOTICE = InterruptionNotice(AT_S, "spot")
RECORD = machine_bytes(a_machine(id="m-1"))
NOT_UTF8 = field(12, b"\xff")
"""A diagnosis that refuses the whole record."""


@pytest.fixture(params=["plain", "compiled"], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "compiled":
        assert loops.warm(), "numba is part of the lock"
    yield request.param
    loops.cool()


class TestOne:
    def test_it_stands_in_the_field_of_its_machine(self) -> None:
        message = pb.Machine.FromString(RECORD + notice_bytes(NOTICE))

        assert message.id == "m-1"
        assert message.interruption_notice.deadline_unix_nanos == 1_800_000_000_500_000_000
        assert message.interruption_notice.reason == "spot"

    def test_without_one_nothing_is_sent(self) -> None:
        assert notice_bytes(None) == b""
        assert notice_in(RECORD) is None

    def test_one_that_says_nothing_but_that_the_host_goes_is_still_one(self) -> None:
        assert notice_in(RECORD + notice_bytes(InterruptionNotice())) == InterruptionNotice()

    def test_a_time_beyond_what_the_wire_holds_is_the_last_it_holds(self) -> None:
        told = notice_in(notice_bytes(InterruptionNotice(1e300)))

        assert told == InterruptionNotice(INT64_MAX / 10**9)

    def test_a_time_before_all_time_is_not_known(self) -> None:
        message = pb.Machine()
        message.interruption_notice.deadline_unix_nanos = -5

        assert notice_in(message.SerializeToString()) == InterruptionNotice()

    def test_words_that_are_no_unicode_are_still_sent(self) -> None:
        told = notice_in(notice_bytes(InterruptionNotice(AT_S, "\udcff")))

        assert told == InterruptionNotice(AT_S, "?")

    def test_one_in_two_parts_is_one(self) -> None:
        parts = field(1000, field(1, 7 * 10**9)) + field(1000, field(2, "spot"))

        for record in (RECORD + parts, RECORD + NOT_UTF8 + parts):
            assert notice_in(record) == InterruptionNotice(7.0, "spot")

    def test_one_that_cannot_be_read_still_says_that_the_host_goes(self) -> None:
        for torn in (b"\xff", field(2, b"\xff")):
            assert notice_in(RECORD + field(1000, torn)) == InterruptionNotice()


def sent(*machines: Machine, **notices: InterruptionNotice) -> bytes:
    told = {MachineId(name): notice for name, notice in notices.items()}
    listing = Listing(machines=machines, full=True, cursor=b"", notices=told)
    return listing_to_wire(listing, Capabilities())


A, B, C = (a_machine(id=name) for name in "abc")


class TestInLists:
    def test_a_list_tells_whose_host_will_go_and_nothing_else_is_other(self) -> None:
        listing = listing_of(sent(A, B, C, b=NOTICE))
        batch, refused = listing.batch()

        assert listing.notices == batch.notices == {"b": NOTICE}
        assert refused == {}
        assert [batch.machine(at) for at in range(3)] == [A, B, C]

    def test_some_rows_tell_of_themselves_only(self) -> None:
        listing = listing_of(sent(A, B, C, a=NOTICE, c=NOTICE))

        batch, _ = listing.read(np.array([1, 2]))

        assert batch.notices == {"c": NOTICE}

    def test_a_notice_that_comes_changes_or_goes_changes_the_digest(self) -> None:
        lists = [sent(A), sent(A, a=NOTICE), sent(A, a=InterruptionNotice(AT_S + 1, "spot"))]

        assert len({int(listing_of(each).digest[0]) for each in lists}) == 3

    def test_a_record_that_cannot_be_read_still_tells(self) -> None:
        broken = RECORD + notice_bytes(NOTICE) + NOT_UTF8

        listing = listing_of(a_list(broken))
        batch, refused = listing.batch()

        assert listing.notices == batch.notices == {"m-1": NOTICE}
        assert (len(batch), list(refused)) == (0, [0])

    def test_of_two_notices_of_one_machine_the_first_counts(self) -> None:
        first = InterruptionNotice(1.0)
        assert listing_of(sent(A, a=first) + sent(A, a=NOTICE)).notices == {"a": first}

    def test_a_peer_that_knows_of_no_notices_has_none(self) -> None:
        plain = pb.MachineList(machines=[machine_to_wire(A)]).SerializeToString()

        assert listing_of(plain).notices == {}

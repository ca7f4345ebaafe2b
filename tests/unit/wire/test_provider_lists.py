"""How a list is put together from the answers of providers that can, and of those that cannot."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from builders import a_machine, a_profile
from mainstay.inventory.inventory import Inventory
from mainstay.model.batch import MachineBatch, batch_of
from mainstay.model.calls import Capabilities, Listing, ListRequest
from mainstay.model.errors import Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.notice import InterruptionNotice, Notices
from mainstay.model.state import State
from mainstay.wire.calls import listing_to_wire
from mainstay.wire.machines import machine_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb
from mainstay.wire.provider_lists import ListReader

PAGING = Capabilities(paging=True, incremental=True, tombstones=True)


def page(
    *machines: Machine, cursor: bytes = b"end", more: bool = False, full: bool = True,
    gone: Sequence[str] = (), notices: Notices | None = None,
) -> bytes:  # fmt: skip
    listing = Listing(
        machines=machines, full=full, cursor=cursor, more=more,
        tombstones=tuple(map(MachineId, gone)), notices=notices or {},
    )  # fmt: skip
    return listing_to_wire(listing, PAGING)


def plain(*machines: Machine, cursor: bytes = b"7") -> bytes:
    """What a provider of BigFleet answers: no field of ours."""
    message = pb.MachineList(machines=map(machine_to_wire, machines), revision=cursor)
    return message.SerializeToString()


class Provider:
    """Answers one after the other; keeps what it was asked."""

    def __init__(self, *answers: bytes) -> None:
        self.asked: list[ListRequest] = []
        self._answers = list(answers)

    async def __call__(self, request: ListRequest) -> bytes:
        self.asked.append(request)
        return self._answers.pop(0)


def read(provider: Provider, request: ListRequest | None = None) -> MachineBatch:
    return asyncio.run(ListReader(provider, source="lab").batch(request or ListRequest()))


def named(batch: MachineBatch) -> list[str]:
    return list(batch.ids)


A, B, C = (a_machine(id=name) for name in "abc")
PROBE = page(A, cursor=b"1", more=True)
FIRST = page(A, B, cursor=b"1", more=True)


class TestPages:
    def test_a_provider_that_pages_is_asked_until_there_is_no_more(self) -> None:
        provider = Provider(
            PROBE,
            page(A, cursor=b"1", more=True),
            page(B, cursor=b"2", more=True, full=False),
            page(C, full=False),
        )

        batch = read(provider, ListRequest(results_max=1))

        assert named(batch) == ["a", "b", "c"]
        assert batch.full
        assert batch.cursor == b"end"
        assert [asked.since for asked in provider.asked] == [b"", b"", b"1", b"2"]
        assert {asked.results_max for asked in provider.asked} == {1}

    def test_the_later_word_about_a_machine_is_true(self) -> None:
        later = replace(A, price_per_hour=9.0)
        provider = Provider(PROBE, FIRST, page(later, full=False))

        batch = read(provider)

        assert [batch.machine(i) for i in range(len(batch))] == [B, later]

    def test_the_later_word_about_its_host_is_true(self) -> None:
        soon, later = InterruptionNotice(1.8e9), InterruptionNotice(1.9e9)
        first = page(A, B, C, cursor=b"1", more=True, notices={A.id: soon, B.id: soon, C.id: soon})
        second = page(A, B, full=False, notices={A.id: later})

        assert read(Provider(PROBE, first, second)).notices == {A.id: later, C.id: soon}

    def test_a_notice_of_a_machine_that_went_is_not_in_the_list(self) -> None:
        first = page(A, B, cursor=b"1", more=True, notices={A.id: InterruptionNotice(1.8e9)})

        assert read(Provider(PROBE, first, page(full=False, gone=["a"]))).notices == {}

    def test_a_machine_that_went_while_it_was_listed_is_not_in_the_list(self) -> None:
        provider = Provider(PROBE, FIRST, page(C, full=False, gone=["a"]))

        batch = read(provider)

        assert named(batch) == ["b", "c"]
        assert batch.tombstones == ("a",)

    @pytest.mark.parametrize(
        "first", [FIRST, page(A, cursor=b"5", more=True, full=False)], ids=["whole", "changes"]
    )
    def test_a_list_that_begins_again_forgets_what_was_begun(self, first: bytes) -> None:
        provider = Provider(PROBE, first, page(B, C))

        batch = read(provider, ListRequest(since=b"4"))

        assert named(batch) == ["b", "c"]
        assert batch.full

    def test_changes_in_pages_are_still_only_changes(self) -> None:
        provider = Provider(PROBE, page(A, cursor=b"5", more=True, full=False), page(B, full=False))

        batch = read(provider, ListRequest(since=b"4"))

        assert named(batch) == ["a", "b"]
        assert not batch.full

    @pytest.mark.parametrize("cursor", [b"", b"4"])
    def test_a_list_that_does_not_advance_is_given_up(self, cursor: bytes) -> None:
        provider = Provider(PROBE, page(A, cursor=cursor, more=True))

        with pytest.raises(Unavailable, match="does not end"):
            read(provider, ListRequest(since=b"4"))

    def test_what_it_declares_is_asked_once(self) -> None:
        provider = Provider(PROBE, page(A), page(B))
        reader = ListReader(provider, source="lab", page_machines=50)

        async def twice() -> None:
            await reader.batch(ListRequest())
            await reader.batch(ListRequest(since=b"end"))

        asyncio.run(twice())
        assert [asked.results_max for asked in provider.asked] == [1, 50, 50]
        assert reader.capabilities == PAGING


class TestOneAnswer:
    def test_a_provider_that_declares_nothing_is_never_cut_short(self) -> None:
        provider = Provider(plain(A), plain(A, B))

        batch = read(provider, ListRequest(results_max=1))

        assert named(batch) == ["a", "b"]
        assert [asked.results_max for asked in provider.asked] == [1, 0]

    def test_one_that_takes_the_place_of_another_is_asked_again_in_full(self) -> None:
        provider = Provider(PROBE, page(A, cursor=b"1", more=True), plain(B), plain(A, B))

        batch = read(provider, ListRequest(results_max=1))

        assert named(batch) == ["a", "b"]
        assert provider.asked[-1] == ListRequest()


class TestFull:
    @pytest.mark.parametrize(
        ("request_", "answer", "full"),
        [
            (ListRequest(), page(A), True),
            (ListRequest(since=b"1"), page(A, full=False), False),
            (ListRequest(since=b"?"), page(A), True),
            (ListRequest(), plain(A), True),
            (ListRequest(since=b"1"), plain(A), False),
            (ListRequest(states=frozenset({State.IDLE})), page(A), False),
        ],
        ids=["all", "since", "unknown", "undeclared", "undeclared since", "some states"],
    )
    def test_what_is_not_named_is_gone_only_where_that_is_sure(
        self, request_: ListRequest, answer: bytes, full: bool
    ) -> None:
        probe = PROBE if b"end" in answer else plain(A)

        assert read(Provider(probe, answer), request_).full is full


class TestUnreadable:
    def test_a_record_that_cannot_be_read_is_counted_and_spoils_nothing(self) -> None:
        broken = machine_to_wire(replace(B, profile=a_profile()))
        broken.resources.resources["cpu"] = "many"
        nameless = machine_to_wire(replace(C, id=MachineId("")))
        answer = pb.MachineList(machines=[machine_to_wire(A), broken, nameless])
        provider = Provider(plain(A), answer.SerializeToString())
        reader = ListReader(provider, source="lab")

        batch = asyncio.run(reader.batch(ListRequest()))

        assert named(batch) == ["a", "b"]
        assert batch.machine(0) == A
        assert reader.refused == {"resources": 1, "id": 1}

    def test_its_last_good_record_stays(self) -> None:
        """It is named, so it is not gone."""
        inventory = Inventory()
        inventory.merge(batch_of([A, B], source="lab"), now=1.0)
        broken = machine_to_wire(B)
        broken.resources.resources["cpu"] = "many"
        answer = pb.MachineList(machines=[machine_to_wire(A), broken])
        batch = read(Provider(plain(A), answer.SerializeToString()))

        report = inventory.merge(batch, now=2.0)

        assert report.absent.size == 0
        assert [refusal.machine for refusal in report.refused] == ["b"]
        assert inventory.machine(B.id) == B
        assert np.array_equal(batch.state, [State.IDLE, State.UNSPECIFIED])

    def test_bytes_that_are_no_list_are_no_answer(self) -> None:
        with pytest.raises(Unavailable, match="cannot be read"):
            read(Provider(b"\xff\xff"))

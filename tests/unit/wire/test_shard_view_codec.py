"""Answers and questions of a shard over the wire: the same fields, and every value comes back."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from built import SMALL, built
from mainstay.model import questions as q
from mainstay.model import views as v
from mainstay.model.errors import Rejected
from mainstay.model.rollup import RawNeed, RawRequirement
from mainstay.model.state import State
from mainstay.wire.pb.mainstay.v1 import shard_pb2 as pb
from mainstay.wire.shard_view_codec import MESSAGES, from_bytes, to_bytes

NEED = RawNeed(
    requirements=(RawRequirement("zone", 1, ("a", "b")),),
    aggregate_resources={"cpu": "64"},
    priority=-3,
    min_unit={"cpu": "8"},
    group="g",
)
LEAVES = {**SMALL, RawNeed: st.just(NEED)}


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_value_and_its_message_have_the_same_fields(kind: type[Any]) -> None:
    ours = {each.name for each in dataclasses.fields(kind)}
    theirs = {each.name for each in MESSAGES[kind].DESCRIPTOR.fields}

    assert ours == theirs


def test_every_message_of_the_services_has_a_value() -> None:
    made = {message.DESCRIPTOR.name for message in MESSAGES.values()}

    assert made == {message.name for message in pb.DESCRIPTOR.message_types_by_name.values()}


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_value_comes_back_as_it_was_sent(kind: type[Any]) -> None:
    @settings(max_examples=outside.examples(20), deadline=None)
    @given(st.data())
    def comes_back(data: st.DataObject) -> None:
        value = data.draw(built(kind, LEAVES))

        assert from_bytes(kind, to_bytes(value)) == value

    comes_back()


def test_a_quota_of_nothing_is_not_a_quota_of_any_number() -> None:
    none, anything = q.QuotaChange(cluster="web", held=0), q.QuotaChange(cluster="web")

    assert from_bytes(q.QuotaChange, to_bytes(none)).held == 0
    assert from_bytes(q.QuotaChange, to_bytes(anything)).held is None


def test_a_least_priority_of_zero_is_not_any_priority() -> None:
    zero, anything = v.NeedQuery(least_priority=0), v.NeedQuery()

    assert from_bytes(v.NeedQuery, to_bytes(zero)).least_priority == 0
    assert from_bytes(v.NeedQuery, to_bytes(anything)).least_priority is None


def test_a_state_that_nobody_knows_reads_as_none_said() -> None:
    data = pb.MachineRow(id="m-1", state=99).SerializeToString()  # type: ignore[arg-type]

    assert from_bytes(v.MachineRow, data).state is State.UNSPECIFIED


def test_bytes_that_are_no_message_are_refused_by_name() -> None:
    with pytest.raises(Rejected, match="3 bytes that are no NeedQuery"):
        from_bytes(v.NeedQuery, b"\xff\xff\xff")


def test_text_that_is_no_unicode_is_sent_all_the_same() -> None:
    row = v.ProviderRow(name="p", why="broken \udcff text")

    assert from_bytes(v.ProviderRow, to_bytes(row)).why == "broken ? text"

"""Answers and orders of a coordinator over the wire: the same fields, and all of it comes back."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from built import built
from mainstay.model import coordinator_calls as c
from mainstay.model import coordinator_views as v
from mainstay.model.errors import Rejected
from mainstay.wire.access import ACCESS
from mainstay.wire.coordinator_view_codec import MESSAGES, from_bytes, to_bytes
from mainstay.wire.coordinator_view_server import (
    CONTROL_SERVICE,
    ORDERS,
    QUERIES,
    VIEW_SERVICE,
)
from mainstay.wire.pb.mainstay.v1 import coordinator_pb2 as pb


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_value_and_its_message_have_the_same_fields(kind: type[Any]) -> None:
    ours = {each.name for each in dataclasses.fields(kind)}
    theirs = {each.name for each in MESSAGES[kind].DESCRIPTOR.fields}

    assert ours == theirs


def test_every_message_of_the_services_has_a_value() -> None:
    made = {message.DESCRIPTOR.name for message in MESSAGES.values()}

    assert made == {message.name for message in pb.DESCRIPTOR.message_types_by_name.values()}


@pytest.mark.parametrize(
    ("service", "served"),
    [(VIEW_SERVICE, QUERIES), (CONTROL_SERVICE, ORDERS)],
    ids=["view", "control"],
)
def test_every_call_of_the_services_is_served_with_its_messages(
    service: str, served: dict[str, tuple[type[Any], type[Any]]]
) -> None:
    methods = pb.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods
    published = {each.name: (each.input_type.name, each.output_type.name) for each in methods}

    assert {call: (a.__name__, b.__name__) for call, (a, b) in served.items()} == published
    assert set(ACCESS[service]) == set(published)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_value_comes_back_as_it_was_sent(kind: type[Any]) -> None:
    @settings(max_examples=outside.examples(15), deadline=None)
    @given(st.data())
    def comes_back(data: st.DataObject) -> None:
        value = data.draw(built(kind))

        assert from_bytes(kind, to_bytes(value)) == value

    comes_back()


def test_bytes_that_are_no_message_are_refused_by_name() -> None:
    with pytest.raises(Rejected, match="3 bytes that are no ShardQuery"):
        from_bytes(v.ShardQuery, b"\xff\xff\xff")


def test_a_number_that_does_not_fit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(Rejected, match="SetQuotaRequest does not fit the wire"):
        to_bytes(c.SetQuotaRequest(kind="cluster", name="web", entitled=2**63))

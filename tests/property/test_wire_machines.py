"""What goes over the wire comes back the same; what cannot exist comes back as its reason."""

import dataclasses

import numpy as np
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
import strategies
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.batch import batch_of
from mainstay.model.machine import Machine, MachineRule
from mainstay.wire.machines import machine_from_wire, machine_to_wire, machines_from_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb

ON_THE_WIRE = (
    MachineRule.ID, MachineRule.STATE, MachineRule.HOST, MachineRule.CLUSTER,
    MachineRule.DIAGNOSIS, MachineRule.PRICE, MachineRule.INTERRUPTION_PROBABILITY,
)  # fmt: skip
"""The rules about what a message carries; an assignment is not in it."""


def sent(machine: Machine) -> pb.Machine:
    return pb.Machine.FromString(machine_to_wire(machine).SerializeToString())


def reported(machine: Machine) -> Machine:
    """A machine as a provider has it: what it is committed to is nobody's but the shard's."""
    return dataclasses.replace(machine, assignment=NO_ASSIGNMENT)


@given(strategies.machines().map(reported))
def test_a_machine_comes_back_from_the_wire_as_it_was(machine: Machine) -> None:
    assert machine_from_wire(sent(machine)) == machine


@given(st.lists(strategies.machines().map(reported), max_size=5))
@settings(max_examples=outside.examples(50))
def test_a_list_from_the_wire_makes_the_same_batch(machines: list[Machine]) -> None:
    screened = machines_from_wire([sent(machine) for machine in machines])

    ours, theirs = batch_of(machines), batch_of(screened.machines)
    assert screened.refused == ()
    assert np.array_equal(ours.digest, theirs.digest)
    assert [theirs.machine(i) for i in range(len(theirs))] == machines


@given(
    st.sampled_from(ON_THE_WIRE).flatmap(
        lambda rule: strategies.breaking(rule).map(
            lambda machine: strategies.Invalid(rule, reported(machine))
        )
    ),
    strategies.machines().map(reported),
)
def test_a_record_that_cannot_exist_is_counted_by_its_rule_and_spoils_no_other(
    invalid: strategies.Invalid, valid: Machine
) -> None:
    screened = machines_from_wire([sent(invalid.machine), sent(valid)])

    assert screened.machines == (valid,)
    assert screened.counts == {invalid.rule: 1}


@st.composite
def messages(draw: st.DrawFn) -> pb.Machine:
    """Any message at all, mostly with a few fields that make sense."""
    number = st.integers(-(2**31), 2**31 - 1)
    texts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2)
    message = pb.Machine(
        id=draw(st.one_of(strategies.ids(), st.text(max_size=5))),
        instance_type=draw(st.text(max_size=3)),
        price_per_hour=draw(st.floats()),
        interruption_probability=draw(st.floats()),
        cluster=draw(st.one_of(st.just(""), st.text(max_size=3))),
        last_error=draw(st.text(max_size=3)),
        labels=draw(texts),
        shard_metadata=draw(texts),
        attribution=draw(texts),
    )
    message.state = draw(st.one_of(st.integers(0, 9), number))  # type: ignore[assignment]
    message.capacity_type = draw(number)  # type: ignore[assignment]
    if draw(st.booleans()):
        message.host.ref = draw(st.text(max_size=3))
    if draw(st.booleans()):
        message.resources.resources.update(draw(texts))
    if draw(st.booleans()):
        message.allocatable.resources.update(draw(texts))
    return message


@given(messages())
def test_any_message_is_a_machine_or_a_typed_refusal(message: pb.Machine) -> None:
    screened = machines_from_wire([message])

    assert [machine_from_wire(sent(machine)) for machine in screened.machines] == [
        *screened.machines
    ]
    assert len(screened.machines) + screened.counts.total() == 1
    assert [refusal for refusal in screened.refused if "\n" in refusal.message] == []


@given(st.binary(max_size=60))
def test_any_bytes_that_are_a_message_are_a_machine_or_a_refusal(data: bytes) -> None:
    message = pb.Machine()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return

    screened = machines_from_wire([message])

    assert len(screened.machines) + len(screened.refused) == 1

"""What of a machine goes where on the wire."""

import pytest

from builders import A_CLUSTER, a_machine, a_profile
from mainstay.model.errors import InvalidMachine
from mainstay.model.machine import Machine, MachineRule
from mainstay.model.profile import CapacityType, HostRef
from mainstay.model.state import State
from mainstay.wire.machines import machine_from_wire, machine_to_wire
from mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2 as pb

ECHO = {"bigfleet.lucy.sh/assigned-group": "gang-1"}


class TestEcho:
    @pytest.mark.parametrize("state", [State.CONFIGURING, State.CONFIGURED, State.DRAINING])
    def test_what_configure_was_given_is_where_a_peer_looks_for_it(self, state: State) -> None:
        message = machine_to_wire(a_machine(state, shard_metadata=ECHO))

        assert (dict(message.shard_metadata), dict(message.attribution)) == (ECHO, {})

    @pytest.mark.parametrize("state", [State.CREATING, State.FAILED])
    def test_what_create_was_given_is_where_no_peer_looks(self, state: State) -> None:
        message = machine_to_wire(a_machine(state, shard_metadata=ECHO))

        assert (dict(message.shard_metadata), dict(message.attribution)) == ({}, ECHO)

    def test_a_machine_that_failed_while_bound_keeps_its_echo_in_place(self) -> None:
        failed = a_machine(State.FAILED, cluster=A_CLUSTER, shard_metadata=ECHO)

        assert machine_to_wire(failed).shard_metadata == ECHO

    @pytest.mark.parametrize("state", [State.DRAINING, State.FAILED])
    def test_what_drain_was_given_is_where_no_peer_looks(self, state: State) -> None:
        drained = {"mainstay/drained-for-cluster": "web"}
        machine = a_machine(state, cluster=A_CLUSTER, shard_metadata=ECHO | drained)
        message = machine_to_wire(machine)

        assert (dict(message.shard_metadata), dict(message.attribution)) == (ECHO, drained)
        assert machine_from_wire(message).shard_metadata == machine.shard_metadata

    def test_both_echoes_are_read_and_the_binding_wins(self) -> None:
        message = machine_to_wire(a_machine(State.CONFIGURED))
        message.attribution.update({"a": "created", "b": "created"})
        message.shard_metadata["a"] = "configured"

        read = machine_from_wire(message).shard_metadata

        assert read == {"a": "configured", "b": "created"}


class TestPresence:
    def test_a_machine_without_host_or_resources_sends_none(self) -> None:
        message = machine_to_wire(a_machine(State.SPECULATIVE, profile=a_profile(resources={})))

        assert [field.name for field, _ in message.ListFields()] == [
            "id", "state", "instance_type", "zone", "capacity_type",
        ]  # fmt: skip

    def test_a_host_without_a_name_is_sent_as_a_host(self) -> None:
        message = machine_to_wire(a_machine(State.IDLE, host=HostRef("", "")))

        assert message.HasField("host")

    def test_a_host_that_is_there_and_empty_is_there(self) -> None:
        message = machine_to_wire(a_machine(State.IDLE))
        message.host.Clear()
        message.host.SetInParent()

        assert refusal(message) is MachineRule.HOST

    def test_a_capacity_type_that_we_do_not_know_is_read_as_unspecified(self) -> None:
        message = machine_to_wire(a_machine())
        message.capacity_type = 99  # type: ignore[assignment]

        assert machine_from_wire(message).profile.capacity_type is CapacityType.UNSPECIFIED


class TestScreen:
    @pytest.mark.parametrize("state", [9, 255, 256, 1000, -1, 2**31 - 1, -(2**31)])
    def test_a_state_that_is_none_of_ours_is_refused(self, state: int) -> None:
        message = machine_to_wire(a_machine())
        message.state = state  # type: ignore[assignment]

        assert refusal(message) is MachineRule.STATE

    @pytest.mark.parametrize("text", ["many", "", "-1", "1e99", "9" * 65, "1" * 40, "1 Gi"])
    @pytest.mark.parametrize("field", ["resources", "allocatable"])
    def test_a_quantity_that_is_none_is_refused(self, field: str, text: str) -> None:
        message = machine_to_wire(a_machine())
        getattr(message, field).resources["cpu"] = text

        assert refusal(message) is MachineRule.RESOURCES

    def test_too_many_resources_are_refused(self) -> None:
        message = machine_to_wire(a_machine())
        message.resources.resources.update({f"x{number}": "1" for number in range(65)})

        assert refusal(message) is MachineRule.RESOURCES

    def test_text_that_is_no_unicode_is_still_sent(self) -> None:
        machine = a_machine(State.FAILED, last_error="disk \udcff gone")

        assert machine_to_wire(machine).last_error == "disk ? gone"


def refusal(message: pb.Machine) -> MachineRule:
    with pytest.raises(InvalidMachine) as caught:
        machine_from_wire(message)
    assert message.id in caught.value.message
    return MachineRule(caught.value.rule)


def test_every_state_can_be_sent() -> None:
    sent = [machine_to_wire(a_machine(state)) for state in State if state]

    read: list[Machine] = [machine_from_wire(message) for message in sent]
    assert [machine.state for machine in read] == [state for state in State if state]

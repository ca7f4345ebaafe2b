"""A batch gives back what was put into it, and its digests tell one report from another."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import strategies
from builders import a_machine, a_profile, an_assignment
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.batch import batch_of
from mainstay.model.errors import InvalidMachine
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine, MachineRule
from mainstay.model.profile import CapacityType, HostRef
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.records import FAULTS

BASE: Final = a_machine(
    State.CONFIGURED,
    profile=a_profile(labels={"rack": "7", "row": "b"}),
    allocatable=Resources({"cpu": "7", "memory": "30Gi"}),
    price_per_hour=1.5,
    interruption_probability=0.25,
    last_error="slow disk",
    shard_metadata={"one": "1", "two": "2"},
)

OTHER_FIELDS: Final[dict[str, Any]] = {
    "id": "m-2",
    "state": State.DRAINING,
    "profile": a_profile(labels={"rack": "7", "row": "c"}),
    "host": HostRef("metal", "rack-1/host-2"),
    "cluster": "batch",
    "allocatable": Resources({"cpu": "7000m", "memory": "30Gi"}),
    "price_per_hour": math.nextafter(1.5, 2.0),
    "interruption_probability": math.nextafter(0.25, 1.0),
    "last_error": "slow disk ",
    "shard_metadata": {"one": "1", "two": "3"},
}
OTHER_PROFILE_FIELDS: Final[dict[str, Any]] = {
    "instance_type": "m5.4xlarge",
    "zone": "zone-b",
    "capacity_type": CapacityType.SPOT,
    "resources": Resources({"cpu": "8000m", "memory": "32Gi"}),
    "labels": (("rack", "7"),),
}

# Pairs that a careless digest, one that only joins texts, would take for the same.
ALIKE: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "host": ({"host": HostRef("ab", "c")}, {"host": HostRef("a", "bc")}),
    "no host": ({"host": None}, {"host": HostRef("", "")}),
    "no ref": ({"host": HostRef("ab", "")}, {"host": HostRef("", "ab")}),
    "metadata": ({"shard_metadata": {"ab": "c"}}, {"shard_metadata": {"a": "bc"}}),
    "metadata quotes": (
        {"shard_metadata": {"a": "', 'b"}}, {"shard_metadata": {"a', '": "b"}},
    ),
    "swapped": (
        {"cluster": "x", "last_error": "y"}, {"cluster": "y", "last_error": "x"},
    ),
    "cost": (
        {"price_per_hour": 0.25, "interruption_probability": 0.5},
        {"price_per_hour": 0.5, "interruption_probability": 0.25},
    ),
    "labels": (
        {"profile": a_profile(labels={"ab": "c"})}, {"profile": a_profile(labels={"a": "bc"})},
    ),
    "zone": (
        {"profile": a_profile(instance_type="ab", zone="c")},
        {"profile": a_profile(instance_type="a", zone="bc")},
    ),
    "padding": ({"id": "m-1"}, {"id": "m-1\x00"}),
    "ref padding": ({"host": HostRef("p", "r")}, {"host": HostRef("p", "r\x00")}),
}  # fmt: skip


def digest(machine: Machine) -> int:
    [only] = batch_of([machine]).digest
    return int(only)


def reported(machine: Machine) -> Machine:
    return dataclasses.replace(machine, assignment=NO_ASSIGNMENT)


def changed(machine: Machine, **parts: Any) -> Machine:
    return dataclasses.replace(machine, **parts)


class TestRoundTrip:
    @given(st.lists(strategies.machines(), max_size=4))
    def test_every_record_comes_back_without_its_assignment(self, machines: list[Machine]) -> None:
        batch = batch_of(machines)

        assert len(batch) == len(machines)
        assert [batch.machine(i) for i in range(len(batch))] == [reported(m) for m in machines]

    @given(st.sampled_from(FAULTS).map(MachineRule).flatmap(strategies.breaking))
    def test_a_record_that_will_be_refused_comes_back_as_it_was(self, machine: Machine) -> None:
        assume(machine.state in set(State))
        machine = changed(
            reported(machine), state=State(machine.state), cluster=machine.cluster or None
        )

        back = batch_of([machine]).machine(0)

        assert back.shard_metadata == machine.shard_metadata
        assert _described(back) == _described(machine)

    @pytest.mark.parametrize("number", [9, 42, 255])
    def test_a_state_that_is_none_is_refused_when_it_is_looked_at(self, number: int) -> None:
        batch = batch_of([BASE, changed(BASE, state=number)])

        with pytest.raises(InvalidMachine, match="m-1") as raised:
            batch.machine(1)

        assert raised.value.rule == "state"
        assert batch.machine(0) == BASE

    def test_source_completeness_and_tombstones_are_kept(self) -> None:
        batch = batch_of([], source="east", full=False, tombstones=[MachineId("m-9")])

        assert (batch.source, batch.full) == ("east", False)
        assert list(batch.tombstones) == ["m-9"]
        assert len(batch) == 0
        assert len(batch.digest) == 0

    def test_a_batch_is_a_full_list_unless_it_says_otherwise(self) -> None:
        assert batch_of([BASE]).full


class TestDigest:
    @given(st.lists(strategies.machines(), min_size=1, max_size=4), st.data())
    def test_it_depends_on_the_record_and_on_nothing_around_it(
        self, machines: list[Machine], data: st.DataObject
    ) -> None:
        order = data.draw(st.permutations(range(len(machines))))
        alone = [digest(machine) for machine in machines]

        together = batch_of([machines[i] for i in order], source="east", full=False).digest

        assert [int(value) for value in together] == [alone[i] for i in order]
        assert 0 not in alone

    @given(strategies.machines(), st.randoms(use_true_random=False))
    def test_the_order_of_map_entries_does_not_matter(self, machine: Machine, rng: Any) -> None:
        profile = machine.profile
        turned = dataclasses.replace(
            machine,
            profile=dataclasses.replace(profile, resources=_turned(profile.resources, rng)),
            allocatable=_turned(machine.allocatable, rng),
            shard_metadata=_shuffled(machine.shard_metadata, rng),
        )

        assert digest(turned) == digest(machine)

    @given(strategies.machines())
    def test_it_says_nothing_of_the_assignment(self, machine: Machine) -> None:
        assert digest(changed(machine, assignment=an_assignment())) == digest(machine)

    @given(strategies.machines(), strategies.machines())
    def test_it_tells_machines_apart(self, one: Machine, other: Machine) -> None:
        assert (digest(one) == digest(other)) == (reported(one) == reported(other))

    @pytest.mark.parametrize("name", OTHER_FIELDS)
    def test_any_other_field_is_another_digest(self, name: str) -> None:
        assert digest(changed(BASE, **{name: OTHER_FIELDS[name]})) != digest(BASE)

    @pytest.mark.parametrize("name", OTHER_PROFILE_FIELDS)
    def test_any_other_field_of_the_profile_is_another_digest(self, name: str) -> None:
        parts = {name: OTHER_PROFILE_FIELDS[name]}
        profile = dataclasses.replace(BASE.profile, **parts)

        assert digest(changed(BASE, profile=profile)) != digest(BASE)

    @pytest.mark.parametrize("name", ["host", "cluster"])
    def test_nothing_at_all_is_another_digest(self, name: str) -> None:
        assert digest(changed(BASE, **{name: None})) != digest(BASE)

    @pytest.mark.parametrize("name", ["allocatable", "last_error", "shard_metadata"])
    def test_an_empty_value_is_another_digest(self, name: str) -> None:
        empty: dict[str, Callable[[], object]] = {
            "allocatable": lambda: Resources({}), "last_error": str, "shard_metadata": dict,
        }  # fmt: skip

        assert digest(changed(BASE, **{name: empty[name]()})) != digest(BASE)

    @pytest.mark.parametrize("name", ALIKE)
    def test_records_that_read_alike_are_told_apart(self, name: str) -> None:
        one, other = (changed(BASE, **parts) for parts in ALIKE[name])

        assert digest(one) != digest(other)

    def test_minus_zero_is_zero(self) -> None:
        """Equal records have equal digests, and -0.0 equals 0.0."""
        zero, minus = changed(BASE, price_per_hour=0.0), changed(BASE, price_per_hour=-0.0)

        assert zero == minus
        assert digest(zero) == digest(minus)


def _described(machine: Machine) -> str:
    """All but the metadata as text, since a price that is no number does not equal itself."""
    return repr(changed(machine, shard_metadata={}))


def _turned(resources: Resources, rng: Any) -> Resources:
    return Resources(_shuffled(resources.as_dict(), rng))


def _shuffled(texts: Any, rng: Any) -> dict[str, str]:
    items = list(texts.items())
    rng.shuffle(items)
    return dict(items)

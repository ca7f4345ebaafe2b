"""The inventory against a dictionary of records: the same writes, the same refusals, no trace left.

Hypothesis looks for a short sequence on which they differ; a long seeded run counts what happened,
so that no edge and no kind of refusal is left out unnoticed.
"""

import random
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from typing_extensions import override

import outside
from builders import a_machine
from mainstay.inventory.inventory import Inventory
from mainstay.model.assignment import Assignment
from mainstay.model.errors import (
    DuplicateMachine,
    IllegalTransition,
    InvalidMachine,
    UnknownMachine,
)
from mainstay.model.ids import ID_LENGTH_MAX, Fingerprint, MachineId
from mainstay.model.state import State
from oracles.operations import OFTEN, Driver
from oracles.plain_inventory import EDGES
from oracles.records import FAULTS

T = TypeVar("T")

SEQUENCES: Final = 60
STEPS: Final = 90
LONG_RUN: Final = 10_000
CHECK_EVERY: Final = 10

NOBODY: Final = MachineId("nobody")


class BothInventories(RuleBasedStateMachine):
    """One random operation after another on the real inventory and the plain one."""

    operations: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()

    @rule(name=st.sampled_from(OFTEN), data=st.data())
    def operate(self, name: str, data: st.DataObject) -> None:
        def pick(options: Sequence[T], /) -> T:
            return data.draw(st.sampled_from(options))

        self.driver.run(name, pick)
        BothInventories.operations += 1
        if self.driver.operations % CHECK_EVERY == 0:
            self.driver.check()

    @override
    def teardown(self) -> None:
        self.driver.check()


def test_random_writes_end_the_same_in_columns_and_in_a_dictionary() -> None:
    BothInventories.operations = 0

    run_state_machine_as_test(
        BothInventories,
        settings=settings(
            max_examples=outside.examples(SEQUENCES),
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert BothInventories.operations >= 5_000


@pytest.mark.parametrize("seed", range(outside.examples(1)))
def test_a_long_run_meets_every_edge_and_every_refusal(seed: int) -> None:
    driver, pick = Driver(), random.Random(seed).choice

    for step in range(LONG_RUN):
        driver.run(pick(OFTEN), pick)
        if step % CHECK_EVERY == 0:
            driver.check()
    driver.check()

    counts = driver.twins.counts
    refused = {name.removeprefix("refused ") for name in counts if name.startswith("refused ")}
    merge_refused = {name for name in counts if name.startswith("merge refused ")}
    not_in_a_batch = {"penalty", "assignment"}  # they are about assignments, which no batch has
    assert driver.operations == LONG_RUN
    assert set(driver.twins.edges) == EDGES
    assert refused == {
        "UnknownMachine", "DuplicateMachine", "IllegalTransition",
        *(f"InvalidMachine {fault}" for fault in FAULTS),
    }  # fmt: skip
    assert merge_refused == {
        "merge refused duplicate_machine", "merge refused illegal_transition",
        *(f"merge refused {fault}" for fault in FAULTS if fault not in not_in_a_batch),
    }  # fmt: skip
    assert counts["accepted"] > LONG_RUN / 10
    assert counts["changes told"] > counts["changes forgotten"]
    assert (
        min(counts[name] for name in ("merged", "unchanged", "skipped", "absent")) > LONG_RUN / 100
    )
    assert counts["foreign"] > LONG_RUN / 1_000


class TestRefusals:
    def test_nothing_is_known_of_a_machine_that_is_not_there(self) -> None:
        inventory = Inventory()

        for ask in (inventory.machine, inventory.idle_since, inventory.source, inventory.remove):
            with pytest.raises(UnknownMachine, match=NOBODY):
                ask(NOBODY)

    def test_a_machine_with_the_longest_of_ids_is_named_whole(self) -> None:
        inventory, longest = Inventory(), MachineId("m" * ID_LENGTH_MAX)
        machine = a_machine(State.IDLE, id=longest)

        with pytest.raises(UnknownMachine, match=longest):
            inventory.apply(machine, now=1.0)
        inventory.add(machine, now=2.0)
        with pytest.raises(DuplicateMachine, match=longest):
            inventory.add(machine, now=3.0)
        with pytest.raises(IllegalTransition, match=longest):
            inventory.apply(a_machine(State.CONFIGURED, id=longest), now=4.0)

    def test_an_unknown_machine_is_told_before_a_broken_record(self) -> None:
        with pytest.raises(UnknownMachine, match=NOBODY):
            Inventory().apply(a_machine(State.IDLE, id=NOBODY, host=None), now=1.0)

    def test_a_broken_record_is_told_before_an_illegal_edge(self) -> None:
        inventory = Inventory()
        inventory.add(a_machine(State.SPECULATIVE), now=1.0)

        with pytest.raises(InvalidMachine) as raised:
            inventory.apply(a_machine(State.CONFIGURED, host=None), now=2.0)

        assert raised.value.rule == "host"

    def test_a_broken_record_is_told_before_a_duplicate(self) -> None:
        inventory = Inventory()
        inventory.add(a_machine(State.IDLE), now=1.0)

        with pytest.raises(InvalidMachine):
            inventory.add(a_machine(State.IDLE, price_per_hour=-1.0), now=2.0)

    def test_an_assignment_the_state_does_not_allow_is_refused(self) -> None:
        inventory = Inventory()
        inventory.add(a_machine(State.IDLE), now=1.0)

        with pytest.raises(InvalidMachine) as raised:
            inventory.assign(MachineId("m-1"), Assignment(fingerprint=Fingerprint("f")))

        assert raised.value.rule == "assignment"


class TestSnapshot:
    def test_an_empty_inventory_has_an_empty_snapshot(self) -> None:
        snapshot = Inventory().snapshot()

        assert snapshot.by_state == {}
        assert list(snapshot.rows_in(*State)) == []

    def test_a_column_cannot_be_written(self) -> None:
        inventory = Inventory()
        inventory.add(a_machine(State.IDLE), now=1.0)
        snapshot = inventory.snapshot()

        with pytest.raises(ValueError, match="read-only"):
            snapshot.state[:] = 0

    def test_the_row_of_a_machine_that_went_is_used_again(self) -> None:
        inventory = Inventory()

        for number in range(1_000):
            inventory.add(a_machine(State.IDLE, id=f"m-{number}"), now=1.0)
            inventory.add(a_machine(State.IDLE, id=f"n-{number}"), now=1.0)
            inventory.remove(MachineId(f"m-{number}"))
            inventory.remove(MachineId(f"n-{number}"))
        inventory.add(a_machine(State.IDLE), now=2.0)

        assert list(inventory.snapshot().rows_in(State.IDLE)) < [4]

    def test_a_reader_who_is_too_far_behind_is_told_nothing_rather_than_too_little(self) -> None:
        inventory = Inventory()
        start = inventory.revision
        for number in range(5_000):
            inventory.add(a_machine(State.IDLE, id=f"m-{number}"), now=1.0)
            inventory.apply(a_machine(State.IDLE, id=f"m-{number}", price_per_hour=1.0), now=2.0)

        changes = inventory.snapshot().changes(start)

        assert changes is None or len(changes.rows) == 5_000


class TestIdleSince:
    def test_it_starts_when_a_machine_becomes_idle_and_ends_when_it_is_used(self) -> None:
        inventory, machine = Inventory(), MachineId("m-1")
        inventory.add(a_machine(State.CREATING), now=1.0)
        told = [inventory.idle_since(machine)]

        for now, record in (
            (2.0, a_machine(State.IDLE)),
            (3.0, a_machine(State.IDLE, price_per_hour=9.0)),
            (4.0, a_machine(State.CONFIGURING)),
            (5.0, a_machine(State.IDLE)),
        ):
            inventory.apply(record, now=now)
            told.append(inventory.idle_since(machine))

        assert told == [None, 2.0, 2.0, None, 5.0]

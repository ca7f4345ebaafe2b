"""A merge in bulk ends like the loop over its records: the same machines, the same report."""

import dataclasses
import random
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
import strategies
from builders import A_CLUSTER, A_FINGERPRINT, A_NEED_REF, a_machine, a_profile, an_assignment
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import Adopt, only
from mainstay.model.assignment import NO_ASSIGNMENT, Assignment, carried
from mainstay.model.batch import MachineBatch, Shape, batch_of
from mainstay.model.errors import IllegalTransition, InvalidMachine
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine, MachineRule
from mainstay.model.metadata import GROUP_KEY, PRIORITY_KEY, decode, encode
from mainstay.model.notice import InterruptionNotice
from mainstay.model.profile import HostRef
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.plain_inventory import PlainReport
from oracles.records import (
    FAULTS,
    IDS,
    SOURCES,
    STATES,
    STRANGE_IDS,
    Pick,
    broken,
    drifted,
    moved,
    valid,
    with_echo,
)
from oracles.twins import assert_same_report, view

BULK: Final = 400
ROUNDS: Final = 4

REPORTED_RULES: Final = {*FAULTS} - {"assignment", "penalty"}

M1: Final = MachineId("m-1")
M2: Final = MachineId("m-2")


class Looped:
    """An inventory that is merged into by the loop: one `add` or `apply` for every record."""

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.sources: dict[MachineId, str] = {}

    def merge(
        self, batch: MachineBatch, *, now: float, skip: Collection[MachineId] = ()
    ) -> PlainReport:
        report, seen = PlainReport(), set[MachineId]()
        for position in range(len(batch)):
            record = batch.machine(position)
            if record.id in seen:
                report.refused.append((record.id, "duplicate_machine"))
            elif record.id in skip:
                report.skipped += 1
            else:
                self._merge_one(record, batch.source, now, report)
            seen.add(record.id)
        ours = {machine for machine, source in self.sources.items() if source == batch.source}
        gone = ours - seen if batch.full else self.sources.keys() & set(batch.tombstones)
        report.absent = [str(machine) for machine in gone if machine not in skip]
        return report

    def remove(self, machine: MachineId) -> None:
        self.inventory.remove(machine)
        del self.sources[machine]

    def _merge_one(self, record: Machine, source: str, now: float, report: PlainReport) -> None:
        inventory = self.inventory
        known = inventory.machine(record.id) if record.id in inventory else None
        echo = decode(record.shard_metadata).assignment
        ours = known.assignment if known else NO_ASSIGNMENT
        commitment = carried(ours, echo, record.state)
        merged = dataclasses.replace(record, assignment=commitment, shard_metadata={})
        try:
            if known is None:
                inventory.add(merged, now=now, source=source)
                report.added.append(record.id)
            elif merged == known:
                report.unchanged += 1
                report.handed_over += [record.id] if self.sources[record.id] != source else []
            else:
                inventory.apply(merged, now=now)
                report.changed.append(record.id)
        except InvalidMachine as error:
            report.refused.append((record.id, error.rule))
        except IllegalTransition:
            report.refused.append((record.id, "illegal_transition"))
        else:
            self.sources[record.id] = source


def assert_same(merged: Inventory, looped: Looped) -> None:
    assert merged.ids() == looped.inventory.ids()
    for machine in merged.ids():
        assert merged.machine(machine) == looped.inventory.machine(machine)
        assert merged.idle_since(machine) == looped.inventory.idle_since(machine)
        assert merged.source(machine) == looped.sources[machine]
    assert view(merged.snapshot()) == view(looped.inventory.snapshot())


class Row(NamedTuple):
    """A record, and the rule it breaks, if any."""

    rule: str
    machine: Machine


def some_rows() -> st.SearchStrategy[Row]:
    """Good records and bad ones; what is wrong with an assignment alone no batch can say."""
    rules = [rule for rule in MachineRule if rule.value in REPORTED_RULES]
    good = strategies.machines().map(lambda machine: Row("", machine))
    bad = [strategies.breaking(rule).map(partial(Row, rule.value)) for rule in rules]
    return st.one_of(good, *bad).filter(lambda row: row.machine.state >= 0)


class TestBulk:
    @pytest.mark.parametrize("seed", range(outside.examples(6)))
    def test_hundreds_of_machines_end_as_one_by_one(self, seed: int) -> None:
        rng = random.Random(seed)
        merged, looped = Inventory(), Looped()

        for number in range(ROUNDS):
            batch = a_bulk(rng, merged)
            skip = frozenset(rng.sample(merged.ids(), len(merged) // 20))
            expected = looped.merge(batch, now=float(number), skip=skip)
            report = merged.merge(batch, now=float(number), skip=skip)

            assert_same_report(merged, report, expected)
            assert_same(merged, looped)

    @given(st.lists(st.lists(strategies.machines(), max_size=4), min_size=1, max_size=3))
    def test_any_machines_at_all_end_as_one_by_one(self, rounds: list[list[Machine]]) -> None:
        merged, looped = Inventory(), Looped()

        for number, machines in enumerate(rounds):
            batch = batch_of(machines, full=number != 1)
            expected = looped.merge(batch, now=float(number))
            assert_same_report(merged, merged.merge(batch, now=float(number)), expected)

        assert_same(merged, looped)

    @settings(max_examples=outside.examples(60))
    @given(st.lists(some_rows(), max_size=5, unique_by=lambda row: row.machine.id))
    def test_a_record_that_breaks_a_rule_is_refused_under_its_name(self, rows: list[Row]) -> None:
        inventory = Inventory()

        report = inventory.merge(batch_of([row.machine for row in rows]), now=1.0)

        told = {(refusal.machine, refusal.reason) for refusal in report.refused}
        assert told == {(row.machine.id, row.rule) for row in rows if row.rule}
        assert inventory.ids() == sorted(row.machine.id for row in rows if not row.rule)


class TestGrowth:
    """Every value another one, so that all that grows must grow, and codes are given again."""

    def test_thousands_of_different_machines_end_as_one_by_one(self) -> None:
        merged, looped = Inventory(), Looped()
        pasts = []

        for start in (0, 1_500, 700):
            batch = batch_of([all_its_own(number) for number in range(start, start + 1_200)])
            expected = looped.merge(batch, now=float(start))
            assert_same_report(merged, merged.merge(batch, now=float(start)), expected)
            assert_same(merged, looped)
            pasts.append((snapshot := merged.snapshot(), view(snapshot)))
            for machine in expected.absent:
                merged.remove(MachineId(machine))
                looped.remove(MachineId(machine))

        assert_same(merged, looped)
        for snapshot, said in pasts:
            assert view(snapshot) == said


def all_its_own(number: int) -> Machine:
    """A machine that shares no value with any other."""
    need = an_assignment(fingerprint=f"f-{number}", priority=number, cluster=f"c-{number}")
    return a_machine(
        State.CONFIGURED,
        id=f"m-{number}",
        profile=a_profile(
            instance_type=f"type-{number}",
            resources={"cpu": str(number), f"device-{number % 50}": "1"},
            labels={"rack": f"r-{number}"},
        ),
        host=HostRef(f"provider-{number}", f"ref-{number}" * 9),
        cluster=f"c-{number}",
        price_per_hour=number / 7,
        last_error=f"error {number}",
        shard_metadata=encode(need),
    )


def a_bulk(rng: random.Random, known: Inventory) -> MachineBatch:
    """Some hundreds of reports: new, repeated, drifted, moved, broken and doubled."""
    pick: Pick = rng.choice
    records = [_report(pick, known, MachineId(f"m-{n}")) for n in range(BULK) if rng.random() < 0.8]
    records += [with_echo(pick, broken(pick, valid(pick, pick(IDS), pick(STATES))))]
    records += [with_echo(pick, valid(pick, pick(STRANGE_IDS), pick(STATES)))]
    records += rng.choices(records, k=5)
    rng.shuffle(records)
    tombstones = rng.sample(known.ids(), min(len(known), 10))
    full = rng.random() < 0.7
    return batch_of(records, source=pick(SOURCES), full=full, tombstones=tombstones)


def _report(pick: Pick, known: Inventory, machine: MachineId) -> Machine:
    if machine not in known:
        return with_echo(pick, valid(pick, machine, pick(STATES)))
    record = known.machine(machine)
    how = pick(("same", "same", "drift", "move", "any", "broken"))
    if how == "same":
        return record
    if how == "any":
        return with_echo(pick, valid(pick, machine, pick(STATES)))
    if how == "broken":
        return with_echo(pick, broken(pick, record))
    return with_echo(pick, drifted(pick, record) if how == "drift" else moved(pick, record))


class TestRepeated:
    """A provider mostly says again what it said before."""

    @given(st.lists(strategies.machines(), min_size=1, max_size=5, unique_by=lambda m: m.id))
    def test_what_was_merged_before_changes_nothing(self, machines: list[Machine]) -> None:
        inventory, batch = Inventory(), batch_of(machines)
        inventory.merge(batch, now=1.0)
        revision, snapshot = inventory.revision, inventory.snapshot()

        report = inventory.merge(batch_of(machines), now=2.0)

        assert (report.unchanged, list(report.changed)) == (len(machines), [])
        assert (len(report.added), len(report.absent), report.refused) == (0, 0, ())
        assert inventory.revision == revision
        assert inventory.snapshot() is snapshot

    def test_a_report_of_what_we_changed_ourselves_is_looked_at_again(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.IDLE)])
        inventory.merge(batch, now=1.0)
        inventory.apply(a_machine(State.CONFIGURING), now=2.0)

        report = inventory.merge(batch, now=3.0)

        assert len(report.changed) == 1
        assert inventory.machine(M1).state is State.IDLE
        assert inventory.idle_since(M1) == 3.0

    def test_a_report_that_we_have_moved_past_is_refused_every_time(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.CREATING)])
        inventory.merge(batch, now=1.0)
        inventory.apply(a_machine(State.IDLE), now=2.0)

        for now in (3.0, 4.0):
            [refusal] = inventory.merge(batch, now=now).refused
            assert (refusal.machine, refusal.reason) == (M1, "illegal_transition")
            assert M1 in refusal.message

        assert inventory.machine(M1).state is State.IDLE

    def test_an_echo_fills_again_what_we_cleared(self) -> None:
        echo = encode(an_assignment())
        inventory = Inventory()
        batch = batch_of([a_machine(State.CONFIGURED, shard_metadata=echo)])
        inventory.merge(batch, now=1.0)
        inventory.clear_assignment(M1)

        report = inventory.merge(batch, now=2.0)

        assert len(report.changed) == 1
        assert inventory.machine(M1).assignment == an_assignment()

    def test_what_we_assigned_ourselves_stays_when_the_report_is_repeated(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.CONFIGURED)])
        inventory.merge(batch, now=1.0)
        inventory.assign(M1, an_assignment(priority=7))
        revision = inventory.revision

        report = inventory.merge(batch, now=2.0)

        assert (report.unchanged, inventory.revision) == (1, revision)
        assert inventory.machine(M1).assignment == an_assignment(priority=7)

    def test_a_machine_that_was_removed_is_added_when_it_is_reported_again(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.IDLE)])
        inventory.merge(batch, now=1.0)
        inventory.remove(M1)

        report = inventory.merge(batch, now=2.0)

        assert inventory.snapshot().machine_ids(report.added) == [M1]
        assert inventory.idle_since(M1) == 2.0

    def test_a_machine_in_the_row_of_another_is_not_taken_for_it(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.IDLE)])
        inventory.merge(batch, now=1.0)
        inventory.remove(M1)
        inventory.add(a_machine(State.IDLE, id=M2), now=2.0)

        report = inventory.merge(batch, now=3.0)

        assert inventory.snapshot().machine_ids(report.added) == [M1]
        assert inventory.snapshot().machine_ids(report.absent) == [M2]

    def test_a_refused_report_is_refused_again(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(State.IDLE, price_per_hour=-1.0)])

        reasons = [[r.reason for r in inventory.merge(batch, now=n).refused] for n in (1.0, 2.0)]

        assert reasons == [["price"], ["price"]]
        assert len(inventory) == 0

    def test_a_refused_report_leaves_the_record_it_does_not_replace(self) -> None:
        inventory = Inventory()
        good = batch_of([a_machine(State.IDLE, price_per_hour=2.0)])
        inventory.merge(good, now=1.0)
        snapshot = inventory.snapshot()

        inventory.merge(batch_of([a_machine(State.IDLE, price_per_hour=-1.0)]), now=2.0)
        report = inventory.merge(good, now=3.0)

        assert report.unchanged == 1
        assert inventory.snapshot() is snapshot


DRIFT: Final[Mapping[str, Any]] = {
    "price_per_hour": 9.75,
    "interruption_probability": 0.5,
    "allocatable": Resources({"cpu": "7500m"}),
    "profile": a_profile(labels={"rack": "moved"}),
    "last_error": "a fan is loud",
}


class TestDrift:
    @pytest.mark.parametrize("name", DRIFT)
    def test_it_is_taken_in_without_a_transition_and_the_assignment_stays(self, name: str) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(State.CONFIGURED)]), now=1.0)
        inventory.assign(M1, an_assignment())
        drifted_record = dataclasses.replace(a_machine(State.CONFIGURED), **{name: DRIFT[name]})

        report = inventory.merge(batch_of([drifted_record]), now=2.0)

        assert inventory.snapshot().machine_ids(report.changed) == [M1]
        expected = dataclasses.replace(drifted_record, assignment=an_assignment())
        assert inventory.machine(M1) == expected

    @pytest.mark.parametrize("name", DRIFT)
    def test_an_idle_machine_that_drifts_is_idle_since_the_same_time(self, name: str) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(State.IDLE)]), now=1.0)

        drifted_record = dataclasses.replace(a_machine(State.IDLE), **{name: DRIFT[name]})
        inventory.merge(batch_of([drifted_record]), now=2.0)

        assert inventory.idle_since(M1) == 1.0


class TestEcho:
    def test_it_fills_only_what_we_do_not_know(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(State.CONFIGURED)]), now=1.0)
        inventory.assign(M1, Assignment(priority=7))
        echo = encode(Assignment(priority=100, group="gang", fingerprint=A_FINGERPRINT))

        inventory.merge(batch_of([a_machine(State.CONFIGURED, shard_metadata=echo)]), now=2.0)

        filled = Assignment(priority=7, group="gang", fingerprint=A_FINGERPRINT)
        assert inventory.machine(M1).assignment == filled

    def test_a_partial_echo_takes_nothing_away(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(State.CONFIGURED)]), now=1.0)
        inventory.assign(M1, an_assignment())
        partial = a_machine(State.CONFIGURED, shard_metadata={PRIORITY_KEY: "3"})

        report = inventory.merge(batch_of([partial]), now=2.0)

        assert report.unchanged == 1
        assert inventory.machine(M1).assignment == an_assignment()

    def test_a_part_that_cannot_be_read_does_not_void_the_others(self) -> None:
        inventory = Inventory()
        echo = {PRIORITY_KEY: "very high", GROUP_KEY: "gang", "someone/else": "x"}

        inventory.merge(batch_of([a_machine(State.CONFIGURED, shard_metadata=echo)]), now=1.0)

        assert inventory.machine(M1).assignment == Assignment(group="gang")

    def test_an_idle_machine_is_committed_to_nothing_whatever_is_echoed(self) -> None:
        inventory, echo = Inventory(), encode(an_assignment(drained_for=A_NEED_REF))

        inventory.merge(batch_of([a_machine(State.IDLE, shard_metadata=echo)]), now=1.0)

        assert inventory.machine(M1).assignment == NO_ASSIGNMENT

    def test_what_a_machine_was_drained_for_is_forgotten_when_it_is_idle(self) -> None:
        inventory = Inventory()
        draining = a_machine(State.DRAINING, assignment=an_assignment(drained_for=A_NEED_REF))
        inventory.add(draining, now=1.0)

        inventory.merge(batch_of([a_machine(State.IDLE)]), now=2.0)

        assert inventory.machine(M1).assignment == NO_ASSIGNMENT

    def test_the_echo_is_not_kept(self) -> None:
        inventory, echo = Inventory(), encode(an_assignment())

        inventory.merge(batch_of([a_machine(State.CONFIGURED, shard_metadata=echo)]), now=1.0)

        assert inventory.machine(M1) == a_machine(State.CONFIGURED, assignment=an_assignment())


class TestAbsence:
    def test_it_is_judged_among_the_machines_of_one_source(self) -> None:
        inventory = Inventory()
        inventory.merge(
            batch_of([a_machine(id="e-1"), a_machine(id="e-2")], source="east"), now=1.0
        )
        inventory.merge(batch_of([a_machine(id="w-1")], source="west"), now=1.0)

        report = inventory.merge(batch_of([a_machine(id="e-2")], source="east"), now=2.0)

        assert inventory.snapshot().machine_ids(report.absent) == ["e-1"]
        assert len(inventory) == 3

    def test_a_machine_that_changed_hands_belongs_to_who_reported_it_last(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine()], source="east"), now=1.0)

        inventory.merge(batch_of([a_machine(price_per_hour=2.0)], source="west"), now=2.0)

        assert inventory.source(M1) == "west"
        assert len(inventory.merge(batch_of([], source="east"), now=3.0).absent) == 0
        assert len(inventory.merge(batch_of([], source="west"), now=3.0).absent) == 1

    def test_a_machine_that_changed_hands_and_nothing_else_does_so_too(self) -> None:
        inventory, machines = Inventory(), [a_machine()]
        inventory.merge(batch_of(machines, source="east"), now=1.0)

        report = inventory.merge(batch_of(machines, source="west"), now=2.0)

        assert len(report.changed) == 1
        assert inventory.source(M1) == "west"
        assert len(inventory.merge(batch_of([], source="east"), now=3.0).absent) == 0
        assert len(inventory.merge(batch_of([], source="west"), now=3.0).absent) == 1

    def test_a_refused_record_does_not_change_hands_but_was_seen(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine()], source="east"), now=1.0)
        bad = [a_machine(price_per_hour=-1.0)]

        assert len(inventory.merge(batch_of(bad, source="west"), now=2.0).absent) == 0
        assert inventory.source(M1) == "east"
        assert len(inventory.merge(batch_of(bad, source="east"), now=2.0).absent) == 0

    def test_an_incremental_list_says_itself_what_is_gone(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(id=id_) for id_ in ("a", "b", "c")]), now=1.0)
        gone = [MachineId(text) for text in ("a", "a", "never-there", "c")]

        report = inventory.merge(batch_of([], full=False, tombstones=gone), now=2.0)

        assert inventory.snapshot().machine_ids(report.absent) == ["a", "c"]

    def test_what_is_skipped_is_neither_taken_in_nor_missed(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(), a_machine(id=M2)]), now=1.0)

        report = inventory.merge(batch_of([a_machine(price_per_hour=2.0)]), now=2.0, skip={M1, M2})

        assert (report.skipped, len(report.changed), len(report.absent)) == (1, 0, 0)
        assert inventory.machine(M1).price_per_hour == 0.0


def in_zone(zone: str) -> Adopt:
    return lambda shape: shape.profile.zone == zone


class TestAdoption:
    def test_a_machine_that_is_not_ours_is_counted_and_leaves_no_trace(self) -> None:
        inventory = Inventory()
        east, west = a_profile(zone="east"), a_profile(zone="west")
        machines = [a_machine(profile=east), a_machine(id=M2, profile=west)]

        report = inventory.merge(batch_of(machines), now=1.0, adopt=in_zone("east"))

        assert (len(report.added), report.foreign, report.refused) == (1, 1, ())
        assert inventory.ids() == [M1]
        assert [shape.profile.zone for shape in inventory.snapshot().shapes.values[1:]] == ["east"]

    def test_one_that_we_know_is_merged_wherever_it_is_now(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(profile=a_profile(zone="east"))]), now=1.0)
        moved_away = a_machine(profile=a_profile(zone="west"))

        report = inventory.merge(batch_of([moved_away]), now=2.0, adopt=in_zone("east"))

        assert (len(report.changed), report.foreign) == (1, 0)
        assert inventory.machine(M1).profile.zone == "west"

    def test_what_is_wrong_with_a_machine_that_is_not_ours_is_not_looked_at(self) -> None:
        bad = a_machine(profile=a_profile(zone="west"), price_per_hour=-1.0)

        report = Inventory().merge(batch_of([bad]), now=1.0, adopt=in_zone("east"))

        assert (report.foreign, report.refused) == (1, ())

    def test_each_shape_is_asked_about_once_and_only_for_machines_we_do_not_know(self) -> None:
        inventory, asked = Inventory(), list[str]()
        inventory.merge(batch_of([a_machine(profile=a_profile(zone="known"))]), now=1.0)
        zones = {"m-2": "east", "m-3": "west", "m-4": "east"}
        machines = [a_machine(id=id_, profile=a_profile(zone=zone)) for id_, zone in zones.items()]
        machines.append(a_machine(profile=a_profile(zone="known"), price_per_hour=2.0))

        def adopt(shape: Shape) -> bool:
            asked.append(shape.profile.zone)
            return True

        inventory.merge(batch_of(machines), now=2.0, adopt=adopt)

        assert sorted(asked) == ["east", "west"]

    def test_one_that_is_adopted_later_is_added_then(self) -> None:
        inventory, batch = Inventory(), batch_of([a_machine(profile=a_profile(zone="west"))])
        inventory.merge(batch, now=1.0, adopt=in_zone("east"))

        report = inventory.merge(batch, now=2.0, adopt=in_zone("west"))

        assert (len(report.added), report.foreign) == (1, 0)


class TestOnly:
    def test_it_has_the_records_of_these_machines_and_takes_nothing_else_away(self) -> None:
        named = [a_machine(id=id_) for id_ in ("a", "b", "c")]
        batch = batch_of(named, source="east", tombstones=[MachineId("d")])
        batch = dataclasses.replace(batch, cursor=b"next")

        some = only(batch, {MachineId("c"), MachineId("a"), MachineId("ghost")})

        assert list(some.ids) == ["a", "c"]
        told = (some.source, some.full, some.tombstones, some.cursor)
        assert told == ("east", False, (), b"")
        assert [some.machine(place) for place in range(2)] == [named[0], named[2]]

    def test_of_a_machine_that_is_named_twice_it_has_the_first_record(self) -> None:
        twice = [a_machine(price_per_hour=1.0), a_machine(price_per_hour=2.0)]

        some = only(batch_of(twice), {M1})

        assert [some.machine(place).price_per_hour for place in range(len(some))] == [1.0]

    def test_a_machine_on_an_edge_that_is_none_comes_back_when_its_record_is_removed(self) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine(State.FAILED), a_machine(id=M2)]), now=1.0)
        batch = batch_of([a_machine(State.IDLE)])
        [refusal] = inventory.merge(batch, now=2.0).refused
        assert (refusal.machine, refusal.reason) == (M1, "illegal_transition")
        inventory.remove(M1)

        report = inventory.merge(only(batch, {M1}), now=2.0)

        assert (len(report.added), len(report.absent), report.refused) == (1, 0, ())
        assert inventory.machine(M1).state is State.IDLE

    def test_it_has_the_notices_of_these_machines_alone(self) -> None:
        notices = {M1: InterruptionNotice(1.0), M2: InterruptionNotice(2.0)}
        batch = dataclasses.replace(batch_of([a_machine(), a_machine(id=M2)]), notices=notices)

        assert only(batch, {M2}).notices == {M2: InterruptionNotice(2.0)}


class TestDuplicates:
    def test_the_first_record_of_a_machine_counts(self) -> None:
        inventory = Inventory()
        twice = [a_machine(price_per_hour=1.0), a_machine(price_per_hour=2.0)]

        report = inventory.merge(batch_of(twice), now=1.0)

        [refusal] = report.refused
        assert (refusal.machine, refusal.reason) == (M1, "duplicate_machine")
        assert M1 in refusal.message
        assert inventory.machine(M1).price_per_hour == 1.0

    def test_a_refused_first_record_is_not_made_good_by_a_second(self) -> None:
        inventory = Inventory()
        twice = [a_machine(price_per_hour=-1.0), a_machine(price_per_hour=2.0)]

        report = inventory.merge(batch_of(twice), now=1.0)

        reasons = sorted(refusal.reason for refusal in report.refused)
        assert reasons == ["duplicate_machine", "price"]
        assert len(inventory) == 0


class TestWhatAProviderMaySend:
    @pytest.mark.parametrize("number", [9, 42, 255])
    def test_a_state_that_is_none_is_refused_and_the_rest_counts(self, number: int) -> None:
        strange = dataclasses.replace(a_machine(), state=State(0))
        batch = batch_of([strange, a_machine(id=M2)])
        batch = dataclasses.replace(batch, state=_with_first(batch.state, number))

        report = (inventory := Inventory()).merge(batch, now=1.0)

        assert [(r.machine, r.reason) for r in report.refused] == [(M1, "state")]
        assert inventory.ids() == [M2]

    @pytest.mark.parametrize("length", [254, 65_535, 65_536, 200_000])
    def test_an_id_of_any_length_is_refused_and_the_rest_counts(self, length: int) -> None:
        batch = batch_of([a_machine(id="x" * length), a_machine()])

        report = (inventory := Inventory()).merge(batch, now=1.0)

        assert [refusal.reason for refusal in report.refused] == ["id"]
        assert inventory.ids() == [M1]

    @pytest.mark.parametrize("length", [1_025, 65_536])
    def test_a_host_of_any_length_is_refused_and_the_rest_counts(self, length: int) -> None:
        batch = batch_of([a_machine(host=HostRef("metal", "x" * length)), a_machine(id=M2)])

        report = (inventory := Inventory()).merge(batch, now=1.0)

        assert [(r.machine, r.reason) for r in report.refused] == [(M1, "host")]
        assert inventory.ids() == [M2]

    @pytest.mark.parametrize("field", ["price_per_hour", "interruption_probability"])
    def test_minus_zero_changes_nothing(self, field: str) -> None:
        inventory = Inventory()
        inventory.merge(batch_of([a_machine()]), now=1.0)
        minus: dict[str, Any] = {field: -0.0}

        report = inventory.merge(batch_of([dataclasses.replace(a_machine(), **minus)]), now=2.0)

        assert report.unchanged == 1

    def test_a_cluster_that_is_empty_is_none(self) -> None:
        inventory = Inventory()

        inventory.merge(batch_of([a_machine(State.IDLE, cluster="")]), now=1.0)

        [row] = inventory.snapshot().rows_in(State.IDLE)
        assert inventory.snapshot().cluster_of(row) is None

    def test_a_machine_bound_to_a_cluster_shows_it(self) -> None:
        inventory = Inventory()

        inventory.merge(batch_of([a_machine(State.CONFIGURED)]), now=1.0)

        [row] = inventory.snapshot().rows_in(State.CONFIGURED)
        assert inventory.snapshot().cluster_of(row) == A_CLUSTER


def _with_first(states: Any, number: int) -> Any:
    copy = states.copy()
    copy[0] = number
    return copy

"""What a shard shows about itself: figures that are right, labels that are few."""

import math

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from builders import a_machine, a_need, a_need_profile, a_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan, Unmet
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import ActionKind
from mainstay.model.assignment import Assignment
from mainstay.model.cost import PENALTY_BUCKET_MAX, bucket_for, upper_bound
from mainstay.model.need import Need
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.facts import Health, ProviderFacts
from mainstay.shard.figures import PENALTY_LABELS, figures, machines_by_place, units_by_penalty
from mainstay.shard.metric_rows import ROWS, CyclePart, MetricKind
from mainstay.shard.metrics import WORDS_MAX, ShardMetrics, Standing
from mainstay.shard.money.account import ClassRate
from mainstay.shard.outcomes import Disposition, Outcome
from mainstay.shard.shortfalls import Band


def serving(identity: str, dollars: float | None, **given: CapacityType) -> Inventory:
    inventory = Inventory()
    add_serving(inventory, identity, dollars, **given)
    return inventory


def add_serving(
    inventory: Inventory,
    identity: str,
    dollars: float | None,
    capacity_type: CapacityType = CapacityType.SPOT,
) -> None:
    machine = a_machine(
        State.CONFIGURED,
        id=identity,
        profile=a_profile(capacity_type=capacity_type),
        assignment=Assignment(priority=1, interruption_penalty_dollars=dollars),
    )
    inventory.add(machine, now=0.0)


def a_plan(inventory: Inventory, *needs: Need) -> Plan:
    demand = Demand(needs, frozenset(need.cluster for need in needs))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


class TestFigures:
    def test_machines_are_counted_by_state_type_and_penalty(self) -> None:
        inventory = Inventory()
        for number, dollars in enumerate((None, 0.0, 0.4, 0.5, 3.0, 4.0, 2.0**23, math.inf)):
            add_serving(inventory, f"s-{number}", dollars)
        add_serving(inventory, "od", 4.0, CapacityType.ON_DEMAND)
        for number in range(3):
            inventory.add(a_machine(State.IDLE, id=f"i-{number}"), now=0.0)

        spot = {"0": 2, "0.5": 2, "4": 2, "8388608": 1, "pinned": 1}
        assert machines_by_place(inventory.snapshot()) == {
            **{(State.CONFIGURED, CapacityType.SPOT, label): n for label, n in spot.items()},
            (State.CONFIGURED, CapacityType.ON_DEMAND, "4"): 1,
            (State.IDLE, CapacityType.ON_DEMAND, "0"): 3,
        }

    def test_a_machine_that_was_removed_is_not_counted(self) -> None:
        inventory = serving("m-1", 1.0)
        inventory.remove(a_machine(id="m-1").id)

        assert machines_by_place(inventory.snapshot()) == {}

    @pytest.mark.parametrize("bucket", range(PENALTY_BUCKET_MAX + 1))
    def test_a_penalty_has_the_label_of_its_bucket_on_machines_and_on_needs(
        self, bucket: int
    ) -> None:
        dollars = upper_bound(bucket)
        label = PENALTY_LABELS[bucket_for(dollars) - 1]
        need = a_need(profile=a_need_profile(interruption_penalty_bucket=bucket))
        plan = a_plan(serving("m-1", dollars), need)

        assert [place[2] for place in figures(plan).machines] == [label]
        assert figures(plan).demand == {label: 8}

    def test_the_labels_are_those_of_the_reference(self) -> None:
        expected = ["0", "0.5", *(str(2**power) for power in range(24)), "pinned"]

        assert [*PENALTY_LABELS] == expected

    def test_demand_is_counted_in_smallest_units_of_the_scarcest_dimension(self) -> None:
        needs = (
            a_need(aggregate={"cpu": 8000, "memory": 100}, min_unit={"cpu": 3000, "memory": 10}),
            a_need(aggregate={"cpu": 100}, min_unit={}, group="g"),
            a_need(aggregate={}, min_unit={}, group="h"),
        )

        assert units_by_penalty(Demand(needs, frozenset()).asked) == {"0": 11}

    def test_no_demand_and_no_machines_are_no_figures(self) -> None:
        seen = figures(a_plan(Inventory()))

        assert (seen.machines, seen.demand, seen.unmet, seen.shortfalls) == ({}, {}, {}, 0)

    def test_what_is_missing_is_counted_by_reason_and_age(self) -> None:
        seen = figures(a_plan(Inventory(), a_need()))

        assert seen.unmet == {Unmet.NO_SUPPLY: 1}
        assert (seen.shortfalls, seen.shortfalls_aged[Band.NEW]) == (1, 1)

    def test_what_has_not_changed_is_not_counted_again(self) -> None:
        inventory = serving("m-1", 1.0)
        first = figures(a_plan(inventory, a_need()))
        again = figures(a_plan(inventory, a_need()), first)
        inventory.add(a_machine(id="m-2"), now=0.0)
        later = figures(a_plan(inventory), again)

        assert again.machines is first.machines
        assert later.machines != first.machines
        assert (first.demand, later.demand) == ({"0": 8}, {})


class Shown:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = ShardMetrics(self.registry)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"mainstay_shard_{name}", labels)


class TestShown:
    def test_every_row_of_the_table_is_a_metric_with_its_labels(self) -> None:
        text = generate_latest(Shown().registry).decode()

        for row in ROWS:
            name = row.full_name
            assert f"# TYPE {name} {row.kind.value}\n" in text
            assert f"# HELP {name} {row.help}\n" in text

    def test_a_counter_without_labels_is_there_before_anything_happened(self) -> None:
        assert Shown().value("fenced_total") == 0

    def test_the_bounds_of_buckets_are_those_of_the_reference(self) -> None:
        bounds = {row.name: row.buckets for row in ROWS if row.kind is MetricKind.HISTOGRAM}

        assert (bounds["cycle_seconds"][0], bounds["cycle_seconds"][-1]) == (0.001, 16.384)
        assert bounds["provisioning_seconds"][-1] == 327.68

    def test_a_cycle_is_timed_whole_and_in_parts(self) -> None:
        shown = Shown()

        shown.metrics.observe_cycle(0.5, {"decide": 0.25, "reconcile": 0.125, "lunch": 1.0})

        assert shown.value("cycle_seconds_sum") == 0.5
        assert shown.value("cycle_part_seconds_sum", part="decide") == 0.25
        assert shown.value("cycle_part_seconds_sum", part=CyclePart.OTHER) == 1.0

    def test_times_go_to_their_histograms(self) -> None:
        shown = Shown()
        shown.metrics.provisioned(1.0)
        shown.metrics.bootstrap_answered(2.0)
        shown.metrics.decided_after(3.0)

        assert shown.value("provisioning_seconds_sum") == 1.0
        assert shown.value("bootstrap_answer_seconds_sum") == 2.0
        assert shown.value("decision_delay_seconds_sum") == 3.0

    def test_figures_are_shown_and_what_is_gone_is_shown_as_none(self) -> None:
        shown, inventory = Shown(), serving("m-1", 4.0)
        labels = {"capacity_type": "Spot", "interruption_penalty_bucket": "4"}

        too_large = a_need(aggregate={"cpu": 80_000}, min_unit={"cpu": 10_000})
        shown.metrics.observe_figures(figures(a_plan(inventory, too_large)))
        assert shown.value("inventory_machines", state="Configured", **labels) == 1
        assert shown.value("demand_machines", interruption_penalty_bucket="0") == 8
        assert shown.value("shortfalls_aged", bucket="1-9") == 1
        assert shown.value("needs_unmet", reason="no supply") == 1

        inventory.remove(a_machine(id="m-1").id)
        shown.metrics.observe_figures(figures(a_plan(inventory)))
        assert shown.value("inventory_machines", state="Configured", **labels) == 0
        assert shown.value("demand_machines", interruption_penalty_bucket="0") == 0
        assert shown.value("shortfalls") == 0

    def test_how_the_shard_stands_is_shown(self) -> None:
        shown = Shown()

        shown.metrics.observe_standing(
            Standing(
                sessions=3, quarantined=1, breakers_open=2, paused=True, epoch=7, ready=True,
                queue_depth={"a": 4, "b": 0}, in_flight={"a": 1, "b": 0},
                providers=[ProviderFacts(name="a", health=Health.ANSWERING, machines=9),
                           ProviderFacts(name="b", health=Health.LOST)],
            )
        )  # fmt: skip

        expected = {
            "sessions_active": 3, "rollups_quarantined": 1, "breakers_open": 2,
            "actuation_paused": 1, "shadowing": 0, "acting": 1, "ready": 1, "epoch": 7,
        }  # fmt: skip
        assert {name: shown.value(name) for name in expected} == expected
        assert [shown.value("queue_depth", provider=name) for name in "ab"] == [4, 0]
        assert [shown.value("actions_in_flight", provider=name) for name in "ab"] == [1, 0]
        assert [shown.value("provider_machines", provider=name) for name in "ab"] == [9, 0]
        assert [shown.value("provider_answering", provider=name) for name in "ab"] == [1, 0]


class TestMoney:
    def test_what_a_class_costs_wastes_and_saves_is_shown_in_dollars(self) -> None:
        shown = Shown()
        shown.metrics.observe_money({CapacityType.SPOT: ClassRate(2_500_000_000, 10**9, 7)})
        shown.metrics.observe_money({CapacityType.ON_DEMAND: ClassRate(10**9)})

        names = ("spend", "waste", "saving")
        values = [
            shown.value(f"{each}_dollars_per_hour", capacity_type="OnDemand") for each in names
        ]
        assert values == [1.0, 0.0, 0.0]
        assert shown.value("spend_dollars_per_hour", capacity_type="Spot") == 0


class TestBounded:
    def test_reasons_without_end_are_counted_as_other(self) -> None:
        shown = Shown()
        for number in range(WORDS_MAX + 20):
            shown.metrics.happened(Event.MACHINE_REFUSED, f"word {number}")
        shown.metrics.happened(Event.MACHINE_REFUSED, "word 3")

        assert shown.value("machines_rejected_total", reason="other") == 20
        assert shown.value("machines_rejected_total", reason="word 3") == 2

    def test_a_label_that_could_name_a_machine_or_a_cluster_does_not_exist(self) -> None:
        labels = {label for row in ROWS for label in row.labels}

        assert not labels & {"machine", "cluster", "need", "fingerprint", "group", "tenant"}

    def test_all_words_of_dispositions_and_outcomes_make_few_series(self) -> None:
        shown = Shown()
        for kind in ActionKind:
            for disposition in Disposition:
                shown.metrics.disposed(kind, disposition, 2)
            for outcome in Outcome:
                shown.metrics.executed(kind, outcome, 0.1)

        assert shown.value("actions_total", kind="delete", disposition="capped") == 2
        assert len(generate_latest(shown.registry).splitlines()) < 1_000

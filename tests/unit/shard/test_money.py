"""The book of a shard: what is paid for, for whom, and what is told of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builders import a_machine, a_profile, an_assignment
from live_shard import a_shard, a_view
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.action import Action, ActionKind
from mainstay.model.charges import ChargeMark
from mainstay.model.errors import Rejected
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.money_views import NOBODY, MoneyQuery
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.views import ActionQuery, MoneyRow, Stamp, SummaryQuery
from mainstay.shard.answers.money import facts_of, money_rows, whole
from mainstay.shard.answers.rows import action_rows
from mainstay.shard.datadir import DataDir
from mainstay.shard.journal import action_content
from mainstay.shard.money.book import Book, Kept
from mainstay.shard.money.risk import at_risk, at_risk_of
from mainstay.shard.orders import Disposed, Order, Told
from mainstay.shard.outcomes import Disposition
from virtual_loop import run

WEB = ClusterId("web")
NANO = 10**9
HOUR = 3600.0
SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def a_fleet(*machines: Machine, heard: bool = True) -> Plan:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=0.0, source="cloud")
    return planned(inventory, heard=heard)


def planned(inventory: Inventory, *, heard: bool = True) -> Plan:
    demand = Demand((), frozenset({WEB} if heard else ()))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


def one(
    state: State, name: str = "m-1", *, price: float = 2.0, capacity: CapacityType = SPOT
) -> Machine:
    profile = a_profile(instance_type="m5", capacity_type=capacity)
    machine = a_machine(state, id=name, profile=profile, price_per_hour=price)
    return replace(machine, cluster=WEB) if machine.cluster else machine


def book_of(plan: Plan, marks: Sequence[ChargeMark] = ()) -> Book:
    book = Book(Kept(since_s=0.0))
    book.follow(plan, 0.0, marks)
    return book


def after_an_hour(book: Book) -> MoneyRow:
    return whole(facts_of(book.account, since_s=0.0, at_s=HOUR))


def mark(price: float | None, at_s: float, name: str = "m-1") -> ChargeMark:
    return ChargeMark(machine=MachineId(name), at_s=at_s, price_per_hour=price)


class TestPaidFor:
    @pytest.mark.parametrize(
        "state",
        [State.IDLE, State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.DELETING],
    )
    def test_a_machine_with_a_host_costs_its_price(self, state: State) -> None:
        told = after_an_hour(book_of(a_fleet(one(state))))

        assert (told.hosts, told.spent, told.spend_per_hour) == (1, 2 * NANO, 2 * NANO)

    @pytest.mark.parametrize("state", [State.SPECULATIVE, State.CREATING])
    def test_a_quota_slot_costs_nothing(self, state: State) -> None:
        told = after_an_hour(book_of(a_fleet(one(state))))

        assert (told.hosts, told.spent) == (0, 0)

    def test_one_that_fails_goes_on_costing(self) -> None:
        inventory = Inventory()
        inventory.add(one(State.CONFIGURING), now=0.0, source="cloud")
        book = book_of(planned(inventory))
        inventory.apply(replace(one(State.FAILED), last_error="lost"), now=1.0)
        book.follow(planned(inventory), HOUR / 2)

        told = after_an_hour(book)
        assert (told.spent, told.unclaimed) == (2 * NANO, NANO)


class TestWaste:
    def test_an_idle_machine_is_waste(self) -> None:
        told = after_an_hour(book_of(a_fleet(one(State.IDLE))))

        assert (told.idle, told.unclaimed) == (2 * NANO, 0)

    def test_so_is_one_that_no_need_of_its_cluster_claims(self) -> None:
        told = after_an_hour(book_of(a_fleet(one(State.CONFIGURED))))

        assert (told.idle, told.unclaimed) == (0, 2 * NANO)

    def test_but_not_while_its_cluster_has_not_said_what_it_needs(self) -> None:
        told = after_an_hour(book_of(a_fleet(one(State.CONFIGURED), heard=False)))

        assert (told.idle, told.unclaimed) == (0, 0)


class TestSaving:
    def test_it_is_against_the_on_demand_price_of_the_same_type(self) -> None:
        sold = one(State.SPECULATIVE, "m-2", price=5.0, capacity=ON_DEMAND)
        told = after_an_hour(book_of(a_fleet(one(State.IDLE), sold)))

        assert (told.saving, told.saving_per_hour, told.unpriced) == (3 * NANO, 3 * NANO, 0)

    def test_on_demand_itself_saves_nothing_in_whatever_zone(self) -> None:
        cheap = one(State.SPECULATIVE, "m-2", price=1.0, capacity=ON_DEMAND)
        told = after_an_hour(book_of(a_fleet(one(State.IDLE, capacity=ON_DEMAND), cheap)))

        assert (told.spent, told.saving, told.unpriced) == (2 * NANO, 0, 0)

    def test_where_no_on_demand_price_is_listed_none_is_told(self) -> None:
        told = after_an_hour(book_of(a_fleet(one(State.IDLE))))

        assert (told.saving, told.unpriced, told.unpriced_per_hour) == (0, 2 * NANO, 2 * NANO)


class TestByClass:
    def test_the_gauges_are_the_rates_of_all_cells_of_a_class(self) -> None:
        facts = a_shard().money()
        book = Book(Kept(since_s=0.0))
        published = a_shard().published
        assert published is not None
        book.follow(published.plan, 0.0)
        rows = money_rows(facts, MoneyQuery(by="class"), Stamp(shard="s")).rows
        assert {row.name for row in rows} == {str(of) for of in book.account.by_class()}
        for of, rate in book.account.by_class().items():
            (row,) = (row for row in rows if row.name == str(of))
            assert rate.spend == row.spend_per_hour
            assert rate.waste == row.idle_per_hour + row.unclaimed_per_hour
            assert rate.saving == row.saving_per_hour

    def test_a_spot_machine_saves_what_its_type_costs_more_on_demand(self) -> None:
        spots = [one(State.IDLE, name=name, price=1.0) for name in ("s-1", "s-2")]
        slot = one(State.SPECULATIVE, name="o", price=3.0, capacity=ON_DEMAND)
        told = book_of(a_fleet(*spots, slot)).account.by_class()[SPOT]

        assert told == (2 * 10**9, 2 * 10**9, 4 * 10**9)

    def test_what_has_ended_costs_nothing_any_more(self) -> None:
        inventory = Inventory()
        inventory.add(one(State.IDLE, price=1.0), now=0.0)
        book = book_of(planned(inventory))
        inventory.remove(MachineId("m-1"))
        book.follow(planned(inventory), 60.0)

        assert set(book.account.by_class().values()) == {(0, 0, 0)}


class TestMarks:
    def metered(self, inventory: Inventory, at_s: float = 0.0) -> Book:
        book = Book(Kept(since_s=0.0, cursors={"cloud": b"1"}))
        book.follow(planned(inventory), at_s)
        return book

    def test_a_host_costs_from_the_moment_its_provider_tells(self) -> None:
        inventory = Inventory()
        inventory.add(one(State.CREATING), now=0.0, source="cloud")
        book = self.metered(inventory)
        inventory.apply(one(State.IDLE), now=0.0)
        book.follow(planned(inventory), HOUR / 2, [mark(2.0, HOUR / 4)])

        assert after_an_hour(book).spent == 2 * NANO * 3 // 4

    def test_an_end_is_booked_on_whoever_had_the_machine(self) -> None:
        inventory = Inventory()
        inventory.add(one(State.CONFIGURED), now=0.0, source="cloud")
        book = self.metered(inventory)
        inventory.remove(MachineId("m-1"))
        book.follow(planned(inventory), HOUR / 2, [mark(None, HOUR / 4)])

        rows = money_rows(
            facts_of(book.account, since_s=0.0, at_s=HOUR),
            MoneyQuery(by="cluster"),
            Stamp(shard=""),
        ).rows
        assert [(row.name, row.spent) for row in rows] == [("web", NANO // 2)]

    def test_a_plan_older_than_a_mark_does_not_undo_it(self) -> None:
        inventory = Inventory()
        inventory.add(one(State.DELETING), now=0.0, source="cloud")
        book = self.metered(inventory)
        inventory.apply(one(State.DELETING, price=3.0), now=0.0)
        book.follow(planned(inventory), HOUR / 4, [mark(None, HOUR / 2)])
        assert after_an_hour(book).spent == NANO
        inventory.apply(one(State.SPECULATIVE), now=0.0)
        book.follow(planned(inventory), HOUR * 3 / 4, [mark(2.0, HOUR * 3 / 4)])

        assert after_an_hour(book).spent == NANO + NANO // 2

    def test_what_is_told_of_another_shards_machine_is_not_ours(self) -> None:
        book = self.metered(Inventory())
        book.follow(planned(Inventory()), 1.0, [mark(2.0, 0.5, "other")])

        assert after_an_hour(book).spent == 0

    @pytest.mark.parametrize(("price", "at_s"), [(-1.0, 0.0), (math.nan, 0.0), (1.0, -1.0)])
    def test_a_mark_that_cannot_be_is_refused(self, price: float, at_s: float) -> None:
        with pytest.raises(Rejected, match="not a charge"):
            mark(price, at_s)


class TestKept:
    def test_a_book_goes_on_where_it_was_put_away(self) -> None:
        book = book_of(a_fleet(one(State.CONFIGURED), one(State.IDLE, "m-2", price=1.0)))
        kept = book.kept(HOUR / 2)

        again = Book(kept)
        assert after_an_hour(again) == after_an_hour(book)
        again.follow(a_fleet(one(State.CONFIGURED)), HOUR * 3 / 4)
        assert after_an_hour(again).spent == 2 * NANO + NANO * 3 // 4

    def test_a_file_that_cannot_be_read_refuses_the_start(self, tmp_path: Path) -> None:
        DataDir(tmp_path).close()
        (tmp_path / "money.json").write_text('{"version": 1, "value": {"cells": 3}}')

        with pytest.raises(Rejected, match=r"money\.json cannot be read.*a new count of money"):
            DataDir(tmp_path)


class TestAnswers:
    @pytest.mark.parametrize(
        ("by", "names"),
        [
            ("cluster", {"web", "late", NOBODY}),
            ("type", {a_profile().instance_type}),
            ("class", {str(a_profile().capacity_type)}),
        ],
    )
    def test_each_cut_has_its_names(self, by: str, names: set[str]) -> None:
        told = run(a_view(a_shard()).money(MoneyQuery(by=by)))

        assert told.by == by
        assert {row.name for row in told.rows} >= names
        assert sum(row.spent for row in told.rows) == told.total.spent > 0

    def test_the_prices_that_savings_are_told_against_are_said(self) -> None:
        on_demand = one(State.IDLE, "m-2", price=3.5, capacity=CapacityType.ON_DEMAND)
        book = book_of(a_fleet(one(State.CONFIGURED, price=2.0), on_demand))

        told = money_rows(
            facts_of(book.account, since_s=0.0, at_s=HOUR), MoneyQuery(), Stamp(shard="")
        )
        assert told.on_demand == {"m5": 7 * NANO // 2}
        assert told.total.saving_per_hour == 3 * NANO // 2

    def test_the_whole_alone_has_no_rows(self) -> None:
        told = run(a_view(a_shard()).money(MoneyQuery()))

        assert told.rows == ()
        assert told.total.spend_per_hour == told.total.spent  # of one hour
        assert told.as_seen == ("cloud", "metal")

    def test_a_cut_that_is_none_is_refused(self) -> None:
        with pytest.raises(Rejected, match="money is told by cluster, type, class: 'rack'"):
            run(a_view(a_shard()).money(MoneyQuery(by="rack")))

    def test_a_summary_has_the_whole(self) -> None:
        view = a_view(a_shard())

        summary = run(view.summary(SummaryQuery()))
        assert summary.money == run(view.money(MoneyQuery())).total


class TestDrains:
    def drained(self, kind: ActionKind, risk: float) -> Disposed:
        order = Order(
            action=Action(kind, MachineId("m-1"), WEB, None), need=None, cycle=1, source="cloud",
            price_per_hour=4.0, at_risk_dollars=risk,
        )  # fmt: skip
        return Disposed(order=order, disposition=Disposition.CAPPED, cycle=1)

    @pytest.mark.parametrize("kind", [ActionKind.PREEMPT, ActionKind.RECLAIM])
    def test_the_audit_log_says_what_a_drain_saves_and_risks(self, kind: ActionKind) -> None:
        line = action_content(0.0, self.drained(kind, 32.0), {})

        assert (line["saved_per_hour"], line["at_risk_dollars"]) == (4.0, 32.0)
        pinned = action_content(0.0, self.drained(kind, math.inf), {})
        assert pinned["at_risk_dollars"] == "pinned"

    def test_of_an_acquisition_nothing_of_the_kind_is_said(self) -> None:
        line = action_content(0.0, self.drained(ActionKind.BOOTSTRAP, 0.0), {})

        assert "saved_per_hour" not in line

    def test_the_rows_of_actions_say_it_too(self) -> None:
        told = [self.drained(ActionKind.RECLAIM, 32.0), self.drained(ActionKind.DELETE, 0.0),
                self.drained(ActionKind.PREEMPT, math.inf)]  # fmt: skip
        _, rows = action_rows([Told(0.0, each) for each in told], ActionQuery())

        found = {row.kind: (row.saved_per_hour, row.at_risk_dollars, row.pinned) for row in rows}
        assert found == {
            "reclaim": (4.0, 32.0, False), "delete": (0.0, 0.0, False), "preempt": (4.0, 0.0, True),
        }  # fmt: skip

    def test_at_risk_is_the_greater_of_the_two_penalties(self) -> None:
        held = an_assignment(interruption_penalty_dollars=8.0, reclamation_penalty_dollars=64.0)
        machine = replace(one(State.CONFIGURED), assignment=held)
        snapshot = a_fleet(machine).snapshot

        assert at_risk(snapshot, snapshot.order.astype("intp")).tolist() == [64.0]
        assert at_risk_of(held) == 64.0

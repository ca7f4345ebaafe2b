"""The account against a list of stretches, and the book over random lives."""

import json
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_machine, a_profile
from mainstay.engine.decide import decide
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.money_views import MoneyQuery
from mainstay.model.profile import CapacityType
from mainstay.model.state import State
from mainstay.model.views import Stamp
from mainstay.shard.answers.money import BY, facts_of, money_rows
from mainstay.shard.money.account import HOUR_NS, NANO, Account, Amount, Cell, Use
from mainstay.shard.money.book import Book, Kept
from mainstay.shard.money.document import decoded, encoded
from mainstay.shard.money.tabs import Tab, tab_rows
from oracles.plain_money import PlainMoney
from outside import examples

CELLS = [
    Cell(cluster, kind, CapacityType.SPOT, use)
    for cluster in ("", "web")
    for kind in ("m5", "p5")
    for use in Use
]
moments = st.integers(0, 10**18)
prices = st.integers(0, 10**14)
puts = st.tuples(st.sampled_from("abcd"), st.sampled_from(CELLS), prices, st.integers(0, 10**15))
ends = st.tuples(st.sampled_from("abcd"), st.none(), st.none(), st.integers(0, 10**15))
listed = st.dictionaries(st.sampled_from(["m5", "p5"]), prices)


def lived(steps: list[tuple[object, object, object, int]]) -> tuple[Account, PlainMoney, int]:
    """Both, after the same changes; each is so long after the one before."""
    account, plain, now = Account(), PlainMoney(), 0
    for machine, cell, price, later in steps:
        now += later
        held = plain.running.get(str(machine))
        if held is not None:
            account.take(account.place(held.cell), held.price, now)
        if isinstance(cell, Cell):
            assert isinstance(price, int)
            account.put(account.place(cell), price, now)
            plain.put(str(machine), cell, price, now)
        else:
            plain.take(str(machine), now)
    return account, plain, now


@settings(max_examples=examples(60))
@given(st.lists(puts | ends, max_size=20), moments)
def test_at_every_moment_a_cell_is_the_sum_of_its_stretches(
    steps: list[tuple[object, object, object, int]], later: int
) -> None:
    account, plain, now = lived(steps)
    wanted = plain.dollars(now + later)

    told = account.amounts(now + later)
    assert {cell: Fraction(each.spent, HOUR_NS) for cell, each in told.items()} == wanted


@settings(max_examples=examples(60))
@given(st.lists(puts | ends, max_size=12), st.permutations(range(12)), moments)
def test_in_whatever_order_changes_are_told_the_sum_is_the_same(
    steps: list[tuple[object, object, object, int]], order: list[int], later: int
) -> None:
    account, plain, now = lived(steps)
    told_late = Account()
    bookings = [
        booking
        for each in plain.stretches
        for booking in (
            (each.cell, each.price, each.start_ns, 1),
            *([] if each.end_ns is None else [(each.cell, -each.price, each.end_ns, -1)]),
        )
    ]
    ranked = sorted(range(len(bookings)), key=lambda place: order[place % len(order)])
    for place in ranked:
        cell, price, at_ns, hosts = bookings[place]
        told_late.put(told_late.place(cell), price, at_ns, hosts)

    assert told_late.amounts(now + later) == account.amounts(now + later)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(puts | ends, st.none() | listed), max_size=15),
    moments,
)
def test_a_saving_is_told_only_while_an_on_demand_price_is_known(
    steps: list[tuple[tuple[str, Cell | None, int | None, int], dict[str, int] | None]], later: int
) -> None:
    account, plain, now = Account(), PlainMoney(), 0
    known: list[tuple[int, dict[str, int]]] = []
    for (machine, cell, price, pause), on_demand in steps:
        now += pause
        held = plain.running.get(machine)
        if held is not None:
            account.take(account.place(held.cell), held.price, now)
        plain.take(machine, now)
        if cell is not None and price is not None:
            account.put(account.place(cell), price, now)
            plain.put(machine, cell, price, now)
        if on_demand is not None:
            account.compare(on_demand, now)
            known.append((now, on_demand))
    at_ns = now + later

    told = account.amounts(at_ns).values()
    saving = Fraction(sum(each.on_demand - each.compared for each in told), HOUR_NS)
    assert saving == plain.compared(at_ns, known)
    assert all(each.compared <= each.spent for each in told)


SOLD = [cell._replace(capacity=CapacityType.ON_DEMAND) for cell in CELLS]
bookings = st.tuples(st.sampled_from(CELLS + SOLD), prices, moments, st.integers(0, 9))


@settings(max_examples=examples(60))
@given(st.lists(bookings | st.tuples(listed, moments), max_size=15), moments)
def test_what_is_told_of_all_cells_together_is_what_each_of_them_adds_up_to(
    steps: list[tuple[Cell, int, int, int] | tuple[dict[str, int], int]], at_ns: int
) -> None:
    account = Account()
    for step in steps:
        if len(step) == 2:
            account.compare(*step)
        else:
            cell, price, begun_ns, hosts = step
            account.put(account.place(cell), price, begun_ns, hosts)
    at_s = at_ns // NANO

    facts = facts_of(account, since_s=0.0, at_s=at_s)
    told = {by: money_rows(facts, MoneyQuery(by=by), Stamp(shard="s")) for by in ("", *BY)}

    each = account.amounts(at_s * NANO)
    spent = {cell: amount.spent // HOUR_NS for cell, amount in each.items()}
    compared = {cell: amount.compared // HOUR_NS for cell, amount in each.items()}
    sold = {cell: amount.on_demand // HOUR_NS for cell, amount in each.items()}
    total = told[""].total
    assert total.spent == sum(spent.values())
    assert total.unpriced == total.spent - sum(compared.values())
    assert total.saving == sum(sold.values()) - sum(compared.values())
    assert total.idle == sum(nano for cell, nano in spent.items() if cell.use is Use.IDLE)
    for by, name_of in BY.items():
        assert {row.name: row.spent for row in told[by].rows} == {
            name: sum(nano for cell, nano in spent.items() if name_of(cell) == name)
            for name in map(name_of, spent)
        }


@settings(max_examples=examples(40))
@given(
    st.dictionaries(st.sampled_from(CELLS), st.builds(Amount, *[st.integers()] * 4)),
    st.dictionaries(st.text("abc-", min_size=1, max_size=5).filter(lambda t: t[0] != "-"),
                    st.tuples(st.integers(0, 99), prices, moments)),
    listed,
    st.dictionaries(st.sampled_from(["metal", "cloud"]), st.binary(max_size=40)),
)  # fmt: skip
def test_a_book_that_was_put_away_is_read_as_it_was(
    amounts: dict[Cell, Amount],
    tabs: dict[str, tuple[int, int, int]],
    on_demand: dict[str, int],
    cursors: dict[str, bytes],
) -> None:
    cells = list(amounts)
    kept = Kept(
        since_s=3.5,
        at_ns=7 * NANO,
        amounts=amounts,
        tabs=tab_rows(
            {
                MachineId(name): Tab(place % len(cells), price, since)
                for name, (place, price, since) in tabs.items()
                if cells
            }
        ),
        on_demand=on_demand,
        cursors=cursors,
    )

    again = decoded(json.loads(json.dumps(encoded(kept))))
    assert encoded(again) == encoded(kept)
    assert replace(again, tabs=kept.tabs) == kept
    assert list(again.tabs.ids) == list(kept.tabs.ids)
    assert [again.tabs.at(row) for row in range(len(again.tabs))] == [
        kept.tabs.at(row) for row in range(len(kept.tabs))
    ]


PAID = (State.IDLE, State.CONFIGURING, State.CONFIGURED, State.DRAINING, State.DELETING)
lives = st.lists(
    st.dictionaries(
        st.integers(0, 5),
        st.tuples(st.sampled_from([*PAID, State.SPECULATIVE, None]), st.integers(0, 3)),
        max_size=4,
    ),
    max_size=6,
)


def a_plan(fleet: dict[int, tuple[State, int]], inventory: Inventory) -> Plan:
    """The same machines, put there as if by a provider: what changed is what differs."""
    for number in range(6):
        name = MachineId(f"m-{number}")
        wanted = fleet.get(number)
        if name in inventory:
            inventory.remove(name)
        if wanted is not None:
            state, price = wanted
            capacity = CapacityType.ON_DEMAND if number % 2 else CapacityType.SPOT
            profile = a_profile(instance_type=f"t{number % 2}", capacity_type=capacity)
            record = a_machine(state, id=name, profile=profile, price_per_hour=float(price))
            inventory.add(record, now=0.0, source="metal")
    demand = Demand((), frozenset({ClusterId("web")}))
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), 0.0)


def running_in(account: Account) -> tuple[dict[Cell, tuple[int, int]], dict[str, int]]:
    """What costs or holds something, and what it is compared with."""
    standing = account.standing(0)
    pairs = zip(standing.cells, standing.lines, strict=True)
    running = {cell: (line.rate, line.hosts) for cell, line in pairs if line.rate or line.hosts}
    return running, dict(standing.prices)


@settings(max_examples=examples(60))
@given(lives)
def test_what_follows_change_counts_as_what_looks_at_everything(
    changes: list[dict[int, tuple[State | None, int]]],
) -> None:
    inventory, book = Inventory(), Book(Kept(since_s=0.0))
    fleet: dict[int, tuple[State, int]] = {}
    wanted, before = Fraction(0), 0
    for cycle, changed in enumerate(changes):
        running = sum(price for state, price in fleet.values() if state in PAID)
        wanted += Fraction(running * (cycle - before), 3600)
        before = cycle
        for number, (state, price) in changed.items():
            fleet.pop(number, None)
            if state is not None:
                fleet[number] = state, price
        plan = a_plan(fleet, inventory)
        book.follow(plan, float(cycle))

        fresh = Book(Kept(since_s=0.0))
        fresh.follow(plan, float(cycle))
        assert running_in(book.account) == running_in(fresh.account)
    told = book.account.amounts(before * NANO).values()
    assert Fraction(sum(each.spent for each in told), HOUR_NS * NANO) == wanted

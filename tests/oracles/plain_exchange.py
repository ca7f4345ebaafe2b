"""The exchange of docs/explanation/decision.md, for the plain engine: lists, copies, no undoing."""

from collections.abc import Sequence

from mainstay.model.machine import Machine
from mainstay.model.state import State
from oracles.plain_demand import (
    Book,
    Row,
    adds,
    assigned_ref,
    contributes,
    fits,
    hard_spread,
    keep_order,
    wanted,
)

Hands = dict[str, int | None]
"""Who holds each machine that may change hands, by place; nobody what is left over."""


def exchange(book: Book, rows: Sequence[Row]) -> dict[int, list[Machine]]:
    """What plain needs are credited, by place, in the clusters where some exchanged."""
    credited: dict[int, list[Machine]] = {}
    for cluster in sorted({row.need.cluster for row in rows}):
        fair = Fair(book, rows, cluster)
        if fair.is_anything_in_reach() and fair.hold():
            credited |= fair.credited()
    return credited


class Fair:
    """The machines of a cluster that plain needs may exchange."""

    def __init__(self, book: Book, rows: Sequence[Row], cluster: str) -> None:
        self.rows = rows
        self.plain = [
            place
            for place, row in enumerate(rows)
            if row.need.cluster == cluster and not row.is_gang
        ]
        self.machines = machines_of(book, cluster)
        self.hands: Hands = {m.id: None for m in book.unclaimed(self.machines)}
        for place in filter(self.is_dealer, self.plain):
            self.hands |= dict.fromkeys((m.id for m in rows[place].credited), place)
        self.deaf: set[int] = set()

    def is_dealer(self, place: int) -> bool:
        row = self.rows[place]
        return not row.is_gang and hard_spread(row.need) is None

    def is_anything_in_reach(self) -> bool:
        """Whether what is left over could come to one that is short, amounts not looked at."""
        dealers = list(filter(self.is_dealer, self.plain))
        reached = [place for place in dealers if self.missing(self.hands, place)]
        for place in reached:
            for machine in self.machines:
                holder = self.hands.get(machine.id, place)
                if holder is None and may_have(self.rows[place], machine):
                    return True
                fit = is_bound(machine) and fits(self.rows[place].need, machine)
                if holder is not None and fit and holder not in reached:
                    reached.append(holder)
        return False

    def hold(self) -> bool:
        """Whether anything changed hands."""
        before = self.hands
        for place in filter(self.is_dealer, self.plain):
            if not self.missing(self.hands, place):
                continue
            self.deaf.add(place)
            self.hands = self.with_left_overs(self.hands, place)
            while (machine := self.next_for(self.hands, place)) is not None:
                given = self.given(self.hands, machine, place)
                if given is not None:
                    self.hands, self.deaf = given, {place}
        return self.hands != before

    def given(self, hands: Hands, machine: Machine, taker: int) -> Hands | None:
        """The hands in which all is then, if the giver can do without any of what is asked for."""
        giver = hands[machine.id]
        assert giver is not None
        self.deaf.add(giver)
        asked = self.asked_for(hands, machine, taker)
        hands = self.with_left_overs({**hands, **dict.fromkeys(asked, taker)}, giver)
        while self.missing(hands, giver):
            more = self.next_for(hands, giver)
            if more is None:
                break
            hands = self.given(hands, more, giver) or hands
        while asked and self.missing(hands, giver):
            hands = {**hands, asked.pop(): giver}
        if not asked:
            return None
        self.deaf.discard(giver)
        return hands

    def asked_for(self, hands: Hands, first: Machine, taker: int) -> list[str]:
        """Those of the same shape and holder, the last one first, as long as each contributes."""
        asked: list[str] = []
        row, giver = self.rows[taker], hands[first.id]
        shape = (first.profile, first.allocatable)
        for machine in filter(is_bound, reversed(self.machines)):
            alike = (machine.profile, machine.allocatable) == shape
            if alike and hands.get(machine.id) == giver:
                if not contributes(row, self.missing(hands, taker), machine):
                    break
                hands = {**hands, machine.id: taker}
                asked.append(machine.id)
        return asked

    def with_left_overs(self, hands: Hands, place: int) -> Hands:
        row = self.rows[place]
        for machine in self.machines:
            is_open = machine.id in hands and hands[machine.id] is None
            if is_open and may_have(row, machine):
                missing = self.missing(hands, place)
                if contributes(row, missing, machine):
                    hands = {**hands, machine.id: place}
        return hands

    def next_for(self, hands: Hands, place: int) -> Machine | None:
        row, missing = self.rows[place], self.missing(hands, place)
        for machine in self.machines:
            giver = hands.get(machine.id)
            is_offered = giver is not None and giver not in self.deaf and is_bound(machine)
            if is_offered and fits(row.need, machine) and contributes(row, missing, machine):
                return machine
        return None

    def missing(self, hands: Hands, place: int) -> dict[str, int]:
        row = self.rows[place]
        left = dict(row.need.aggregate)
        for machine in self.machines:
            if hands.get(machine.id) == place:
                left = {name: n - adds(row, machine).get(name, 0) for name, n in left.items()}
        return wanted(left)

    def credited(self) -> dict[int, list[Machine]]:
        found = {place: self.rows[place].credited for place in self.plain}
        for place in filter(self.is_dealer, self.plain):
            found[place] = [m for m in self.machines if self.hands.get(m.id) == place]
        return found


def machines_of(book: Book, cluster: str) -> list[Machine]:
    """What could be credited in a cluster, in the order of credit; not what a gang keeps."""
    bound = [
        m
        for state in (State.CONFIGURED, State.CONFIGURING)
        for m in keep_order(book.in_state(state, cluster=cluster))
        if m.id in book.claims or assigned_ref(m) not in book.gangs
    ]
    created = [(m, assigned_ref(m)) for m in book.in_state(State.CREATING)]
    drained = [(m, m.assignment.drained_for) for m in book.in_state(State.DRAINING)]
    flying = [m for m, ref in [*created, *drained] if ref is not None and ref.cluster == cluster]
    return [*bound, *flying]


def is_bound(machine: Machine) -> bool:
    return machine.state in {State.CONFIGURED, State.CONFIGURING}


def may_have(row: Row, machine: Machine) -> bool:
    """Whether it could be credited to this plain need of the cluster."""
    meant = {
        State.CREATING: assigned_ref(machine),
        State.DRAINING: machine.assignment.drained_for,
    }
    return fits(row.need, machine) and meant.get(machine.state, row.need.ref) in row.refs

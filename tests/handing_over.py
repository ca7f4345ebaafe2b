"""Shards, a leader and a network that may lose, repeat and delay, as values that can be hashed.

A scene is everything at one instant. `steps` are all things that can happen next without a fault,
`faults` those with one. Shards are tests/oracles/plain_ownership.py; the coordinator is the real
one, over what it keeps.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final, NamedTuple, TypeVar

from coordinating import METAL, Desk, Kept
from mainstay.coordinator import keys, reports
from mainstay.coordinator.fleet import Fleet
from mainstay.coordinator.records import NEVER, ConflictKind, Stamp, encode
from mainstay.coordinator.store import Change, Entry
from mainstay.model.coordination import (
    Domain,
    Handed,
    InstructAck,
    Instruction,
    Payload,
    ProviderLine,
    ShardReport,
    Stray,
    TransferOwnership,
    Wanted,
)
from mainstay.model.errors import MainstayError, Rejected
from mainstay.model.ids import MachineId, ShardId
from oracles import plain_ownership
from oracles.plain_ownership import Plain, World

T = TypeVar("T")

LATE_MAX: Final = 2


class Said(NamedTuple):
    """A report on its way."""

    shard: ShardId
    stamp: Stamp
    acks: tuple[InstructAck, ...]
    domains: tuple[Domain, ...]
    strays: tuple[Stray, ...]
    away: tuple[Handed, ...]
    takes_all: bool = False


class Told(NamedTuple):
    """One instruction of an answer; no payload: to give what is free."""

    term: int
    sequence: int
    id: str
    payload: Payload | None


Answer = tuple[Told, ...]


class Side(NamedTuple):
    """A shard."""

    name: ShardId
    owned: Plain
    epoch: int = 1
    number: int = 0
    acks: tuple[InstructAck, ...] = ()
    is_changed: bool = False
    """Whether it has something to say that nobody has answered."""

    hears: Answer | None = None
    """The answer to its report, on its way."""


class Scene(NamedTuple):
    """Everything at one instant."""

    store: int
    """What is kept, by its number in `STORES`."""

    seen: frozenset[tuple[ShardId, Stamp]]
    """What this leader has heard; forgotten with it."""

    term: int
    sides: tuple[Side, ...]
    bound: frozenset[MachineId]
    script: tuple[str, ...]
    """What people and machines will do, in this order, at any time."""

    faults: int
    """How many may still happen."""

    lost: bool = False
    """Whether all that was kept has been lost at some time."""

    late_reports: tuple[Said, ...] = ()
    late_answers: tuple[tuple[ShardId, Answer], ...] = ()


class Story(NamedTuple):
    """What is not part of any scene, since it never changes."""

    lies_in: Mapping[MachineId, Domain]
    commands: Mapping[str, Callable[[Fleet], Change]]
    refuses: Callable[[ShardId, Instruction], bool] = lambda *_: False
    conflicts: frozenset[ConflictKind] = frozenset()
    """What may be told of on the way."""

    def world(self, scene: Scene) -> World:
        return World(self.lies_in, scene.bound)


STORES: list[tuple[tuple[str, bytes], ...]] = []
_NUMBERS: dict[tuple[tuple[str, bytes], ...], int] = {}


def kept(store: int) -> Kept:
    return Kept(dict(STORES[store]))


def number_of(kept_now: Kept) -> int:
    values = tuple(sorted(kept_now.values.items()))
    if values not in _NUMBERS:
        _NUMBERS[values] = len(STORES)
        STORES.append(values)
    return _NUMBERS[values]


class Led(NamedTuple):
    """What a leader makes of a report: the store after each of its changes, and the answer."""

    stores: tuple[int, ...]
    answer: Answer | None
    """None: refused."""

    conflicts: frozenset[ConflictKind] = frozenset()


@cache
def lead(store: int, seen: Stamp | None, term: int, said: Said) -> Led:
    desk = Desk(kept(store), term=term)
    report = ShardReport(
        shard=said.shard, epoch=said.stamp.epoch, number=said.stamp.number, can_hand_over=True,
        acks=said.acks, domains=said.domains, strays=said.strays, away=said.away,
        takes_all=said.takes_all,
        providers=(ProviderLine(METAL, "metal:1"),),
    )  # fmt: skip
    stores = []
    try:
        reports.check(desk.fleet, report, seen)
        for change in reports.taken_in(
            desk.fleet, report, certified=True, now_ns=1, conflicts=desk.conflicts
        ):
            desk.do(change)
            stores.append(number_of(desk.kept))
    except MainstayError:
        return Led((), None)
    told = reports.answer(desk.fleet, report, term=term)
    kinds = frozenset(conflict.kind for conflict in desk.conflicts)
    return Led(tuple(stores), tuple(map(_told, told.instructions)), kinds)


def _told(instruction: Instruction) -> Told:
    payload = instruction.payload
    asks = not isinstance(payload, TransferOwnership) or payload.wanted is None
    return Told(instruction.term, instruction.sequence, instruction.id, payload if asks else None)


def _instruction(told: Told) -> Instruction:
    give = TransferOwnership(from_shard=ShardId(""), to_shard=ShardId(""), wanted=Wanted())
    payload = told.payload if told.payload is not None else give
    return Instruction(term=told.term, sequence=told.sequence, id=told.id, payload=payload)


def say(story: Story, scene: Scene, side: Side) -> Said:
    """Its next report."""
    return Said(
        side.name,
        Stamp(side.epoch, side.number + 1),
        side.acks,
        tuple(sorted(side.owned.domains or ())),
        plain_ownership.strays(side.owned, story.world(scene)),
        plain_ownership.away(side.owned, story.world(scene)),
        side.owned.domains is None,
    )


def steps(story: Story, scene: Scene) -> Iterator[Scene]:
    """All that can happen without a fault. The first of them leads, again and again, to an end."""
    yield from (_late_report(scene, at) for at in range(len(scene.late_reports)))
    yield from (_late_answer(story, scene, at) for at in range(len(scene.late_answers)))
    for side in scene.sides:
        if side.hears is not None:
            yield heard(story, scene, side, len(side.hears))
        swept = plain_ownership.swept(side.owned, story.world(scene))
        if swept != side.owned:
            yield with_side(scene, side._replace(owned=swept, is_changed=True))
    if scene.script:
        yield from _scripted(story, scene)
    for side in scene.sides:
        if side.hears is None and _has_to_say(story, scene, side):
            yield answered(story, scene, side, say(story, scene, side))


def faults(story: Story, scene: Scene) -> Iterator[Scene]:
    """All that can happen with one fault more."""
    if not scene.faults:
        return
    scene = scene._replace(faults=scene.faults - 1)
    yield led_by_another(scene)
    for side in scene.sides:
        yield crashed(scene, side)
        if side.hears is None and _has_to_say(story, scene, side):
            yield from _report_faults(story, scene, side, say(story, scene, side))
        if side.hears is not None:
            yield from _answer_faults(story, scene, side, side.hears)


def plainest(scene: Scene) -> Scene:
    """The same scene with nothing in it that can make no difference any more.

    Only the order of terms and of reports counts, and of finished instructions only those that may
    be heard of again. So scenes that differ by what is over are one.
    """
    answers = [side.hears for side in scene.sides if side.hears]
    answers += [answer for _, answer in scene.late_answers]
    terms = {told.term for answer in answers for told in answer}
    terms |= {scene.term, *(side.owned.term for side in scene.sides)}
    rank = {term: at for at, term in enumerate(sorted(terms), start=1)}
    again = {told.id for answer in answers for told in answer} | pending_ids(scene.store)
    sides = []
    store, seen, late = scene.store, dict(scene.seen), scene.late_reports
    for side in scene.sides:
        done = tuple(ack for ack in side.owned.done if ack.instruction in again)
        owned = side.owned._replace(term=rank[side.owned.term], done=done)
        hears = _ranked(side.hears, rank) if side.hears else side.hears
        anew = _anew(store, side, seen, late)
        store = restamped(store, side.name, anew[recorded(store, side.name)])
        mine = anew[Stamp(side.epoch, side.number)]
        sides.append(side._replace(owned=owned, hears=hears, epoch=mine.epoch, number=mine.number))
        if side.name in seen:
            seen[side.name] = anew[seen[side.name]]
        late = tuple(
            said._replace(stamp=anew[said.stamp]) if said.shard == side.name else said
            for said in late
        )
    return scene._replace(
        store=store,
        seen=frozenset(seen.items()),
        term=rank[scene.term],
        sides=tuple(sides),
        late_reports=late,
        late_answers=tuple((name, _ranked(told, rank)) for name, told in scene.late_answers),
    )


def _ranked(answer: Answer, rank: Mapping[int, int]) -> Answer:
    return tuple(told._replace(term=rank[told.term]) for told in answer)


def _anew(
    store: int, side: Side, seen: dict[ShardId, Stamp], late: tuple[Said, ...]
) -> Mapping[Stamp, Stamp]:
    """New stamps for the reports of a shard, in the same order; what no report can be held against
    is forgotten.
    """
    stamps = {said.stamp for said in late if said.shard == side.name}
    if not stamps or seen.get(side.name, NEVER) <= recorded(store, side.name):
        seen.pop(side.name, None)
    if side.name in seen:
        stamps.add(seen[side.name])
    stamps |= {recorded(store, side.name), Stamp(side.epoch, side.number)}
    epochs = sorted({stamp.epoch for stamp in stamps})
    return {stamp: Stamp(epochs.index(stamp.epoch), at) for at, stamp in enumerate(sorted(stamps))}


@cache
def pending_ids(store: int) -> frozenset[str]:
    told = Fleet.from_entries(kept(store).entries).instructions
    return frozenset(record.id for of in told.values() for record in of.values())


@cache
def recorded(store: int, shard: ShardId) -> Stamp:
    record = Fleet.from_entries(kept(store).entries).shards.get(shard)
    if record is None:
        return NEVER
    assert record.epoch == record.last_report.epoch
    return record.last_report


@cache
def restamped(store: int, shard: ShardId, stamp: Stamp) -> int:
    after = kept(store)
    record = Fleet.from_entries(after.entries).shards.get(shard)
    if record is None:
        return store
    anew = replace(record, epoch=stamp.epoch, last_report=stamp)
    after.entries[keys.shard(shard)] = Entry(encode(anew), 1)
    return number_of(after)


def with_side(scene: Scene, side: Side) -> Scene:
    sides = tuple(side if other.name == side.name else other for other in scene.sides)
    return scene._replace(sides=sides)


def led_by_another(scene: Scene) -> Scene:
    """The leader dies: what it remembers is lost."""
    return scene._replace(seen=frozenset(), term=scene.term + 1)


def crashed(scene: Scene, side: Side) -> Scene:
    """Only what is on its disk is left."""
    return with_side(scene, Side(side.name, side.owned, epoch=side.epoch + 1, is_changed=True))


def answered(story: Story, scene: Scene, side: Side, said: Said) -> Scene:
    """The leader takes a report in and answers it."""
    led = heeded(scene, said)
    assert led.answer is not None
    assert led.conflicts <= story.conflicts | ({ConflictKind.ADRIFT} if scene.lost else set())
    after = _heard_by_leader(scene, said, led, len(led.stores))
    return with_side(after, side._replace(number=side.number + 1, hears=led.answer))


def heard(story: Story, scene: Scene, side: Side, count: int) -> Scene:
    """A shard hears an answer and carries out so many of its instructions; if not all, it dies."""
    assert side.hears is not None
    owned, acks = _carried_out(story, scene, side, side.hears[:count])
    if count < len(side.hears):
        return crashed(scene, side._replace(owned=owned, hears=None))
    changed = owned != side.owned
    said = side._replace(hears=None, owned=owned, acks=acks, is_changed=changed)
    return with_side(scene, said)


def _carried_out(
    story: Story, scene: Scene, side: Side, answer: Answer
) -> tuple[Plain, tuple[InstructAck, ...]]:
    owned, acks = side.owned, []
    for told in answer:
        owned, ack = plain_ownership.carry_out(
            owned,
            _instruction(told),
            story.world(scene),
            refuses=lambda instruction: story.refuses(side.name, instruction),
        )
        acks.append(ack)
    return owned, tuple(acks)


def heeded(scene: Scene, said: Said) -> Led:
    """What the leader makes of a report now."""
    return lead(scene.store, dict(scene.seen).get(said.shard), scene.term, said)


def _heard_by_leader(scene: Scene, said: Said, led: Led, count: int) -> Scene:
    seen = {**dict(scene.seen), said.shard: said.stamp}
    store = led.stores[count - 1] if count else scene.store
    return scene._replace(store=store, seen=frozenset(seen.items()))


def _has_to_say(story: Story, scene: Scene, side: Side) -> bool:
    if side.acks or side.is_changed:
        return True
    led = heeded(scene, say(story, scene, side))
    return bool(led.answer or led.stores)


def _scripted(story: Story, scene: Scene) -> Iterator[Scene]:
    word, rest = scene.script[0], scene.script[1:]
    after = scene._replace(script=rest)
    if word in story.commands:
        desk = Desk(kept(scene.store))
        with contextlib.suppress(Rejected):  # not yet
            desk.do(story.commands[word](desk.fleet))
            yield after._replace(store=number_of(desk.kept))
        return
    if word == "store lost":
        yield led_by_another(after._replace(store=number_of(Kept()), lost=True))
        return
    verb, machine = word.split()
    if verb == "frees":
        yield after._replace(bound=scene.bound - {MachineId(machine)})
    if verb == "loses":
        for side in scene.sides:
            owned = plain_ownership.dropped(side.owned, MachineId(machine))
            if owned != side.owned:
                yield with_side(after, side._replace(owned=owned, is_changed=True))


def _report_faults(story: Story, scene: Scene, side: Side, said: Said) -> Iterator[Scene]:
    """A lost one was never sent. It comes late, once too often, or its leader dies over it."""
    lost = with_side(scene, side._replace(number=side.number + 1, is_changed=True))
    if len(scene.late_reports) < LATE_MAX:
        late = (*scene.late_reports, said)
        yield lost._replace(late_reports=late)
        yield answered(story, scene._replace(late_reports=late), side, said)
    led = heeded(scene, said)
    for count in range(1, len(led.stores) + 1):
        yield led_by_another(_heard_by_leader(lost, said, led, count))


def _answer_faults(story: Story, scene: Scene, side: Side, answer: Answer) -> Iterator[Scene]:
    yield with_side(scene, side._replace(hears=None, is_changed=True))
    if len(scene.late_answers) < LATE_MAX:
        yield scene._replace(late_answers=(*scene.late_answers, (side.name, answer)))
    for count in range(len(answer)):
        yield heard(story, scene, side, count)
        yield _failed(story, scene, side, count)
    if answer:
        owned, _ = _carried_out(story, scene, side, answer)
        yield crashed(scene, side._replace(owned=owned, hears=None))


def _failed(story: Story, scene: Scene, side: Side, at: int) -> Scene:
    """One of the instructions fails, and those after it do not."""
    assert side.hears is not None
    owned, acks = _carried_out(story, scene, side, _without(side.hears, at))
    return with_side(scene, side._replace(hears=None, owned=owned, acks=acks, is_changed=True))


def _late_report(scene: Scene, at: int) -> Scene:
    """Nobody waits for the answer any more."""
    said = scene.late_reports[at]
    after = scene._replace(late_reports=_without(scene.late_reports, at))
    led = heeded(scene, said)
    return after if led.answer is None else _heard_by_leader(after, said, led, len(led.stores))


def _late_answer(story: Story, scene: Scene, at: int) -> Scene:
    name, answer = scene.late_answers[at]
    after = scene._replace(late_answers=_without(scene.late_answers, at))
    side = next(side for side in scene.sides if side.name == name)
    owned, acks = _carried_out(story, scene, side, answer)
    return with_side(after, side._replace(owned=owned, acks=side.acks + acks, is_changed=True))


def _without(many: tuple[T, ...], at: int) -> tuple[T, ...]:
    return (*many[:at], *many[at + 1 :])

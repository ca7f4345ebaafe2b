"""What a shard owns, as it stands in its file. What cannot be read raises, and nothing is guessed.

Domains are written only where somebody has assigned or taken away one: before, those of the
configuration count, and it may change. What older files do not have is as if it were empty.
"""

from typing import Any

from mainstay.model.coordination import (
    Domain,
    Handed,
    Outcome,
    QuotaKind,
    QuotaMoved,
    QuotaOf,
    Stray,
)
from mainstay.model.ids import MachineId, ShardId, parse_machine_id
from mainstay.shard.ownership.owned import Done, Owned, Promise, Victim, checked


def encoded(owned: Owned) -> dict[str, Any]:
    """As JSON has it."""
    domains = owned.domains if owned.assigned else None
    return {
        "domains": None if domains is None else sorted(map(list, domains)),
        "here": [
            [*_handed_to(Handed(*stray[:3])), stray.leaving]
            for _, stray in sorted(owned.here.items())
        ],
        "away": [[name, _domain_to(where)] for name, where in sorted(owned.away.items())],
        "away_providers": dict(sorted(owned.away_providers.items())),
        "term": owned.term,
        "done": [_done_to(each) for each in owned.done],
        "promises": [_promise_to(each) for each in owned.promises],
        "configured": None if owned.configured is None else sorted(map(list, owned.configured)),
    }


def decoded(value: Any) -> Owned:
    """The value again."""
    domains, configured = value["domains"], value.get("configured")
    away = {_machine(name): _where(where) for name, where in rows_of(value["away"], 2)}
    here = [
        Stray(*_handed_from(row[:3]), leaving=_truth(row[3])) for row in rows_of(value["here"], 4)
    ]
    return Owned(
        domains=None if domains is None else frozenset(map(domain_from, rows_of(domains, 2))),
        assigned=domains is not None,
        here={stray.machine: stray for stray in here},
        away=away,
        away_providers={
            _machine(name): _text(provider)
            for name, provider in value.get("away_providers", {}).items()
            if name in away
        },
        term=_count(value["term"]),
        done=tuple(map(_done_from, rows_of(value["done"]))),
        promises=tuple(map(_promise_from, rows_of(value["promises"]))),
        configured=(
            None if configured is None else frozenset(map(domain_from, rows_of(configured, 2)))
        ),
    )


def rows_of(value: Any, width: int = 0) -> list[Any]:
    """A list, of rows of this width where one is given; an empty object must not pass for one."""
    if not isinstance(value, list):
        raise TypeError(f"not a list: {type(value).__name__}")
    for row in value if width else ():
        if not isinstance(row, list) or len(row) != width:
            raise TypeError(f"not a row of {width}: {row!r}")
    return value


def domain_from(value: Any) -> Domain:
    """A domain, from its two halves."""
    key, label = value
    return checked((_text(key), _text(label)))


def _handed_to(handed: Handed) -> list[Any]:
    return [handed.machine, handed.provider, _domain_to(handed.domain)]


def _handed_from(row: Any) -> Handed:
    machine, provider, where = row
    return Handed(_machine(machine), _text(provider), _where(where))


def _domain_to(domain: Domain | None) -> list[str] | None:
    return None if domain is None else list(domain)


def _where(value: Any) -> Domain | None:
    return None if value is None else domain_from(value)


def _done_to(done: Done) -> list[Any]:
    """Quota that went along is a fifth place, where there is any."""
    row = [done.instruction, int(done.outcome), done.reason, list(map(_handed_to, done.given))]
    moved = [[of.kind.value, of.name, of.region, count] for of, count in done.quota]
    return [*row, moved] if moved else row


def _done_from(row: Any) -> Done:
    if not isinstance(row, list):
        raise TypeError(f"not a row: {row!r}")
    instruction, outcome, reason, given, *moved = row
    if len(moved) > 1:
        raise TypeError(f"not a row of 4 or 5: {row!r}")
    return Done(
        instruction=_text(instruction),
        outcome=Outcome(_count(outcome)),
        reason=_said(reason),
        given=tuple(map(_handed_from, rows_of(given, 3))),
        quota=tuple(_moved_from(each) for rows in moved for each in rows_of(rows, 4)),
    )


def _moved_from(row: Any) -> QuotaMoved:
    kind, name, region, count = row
    return QuotaMoved(QuotaOf(QuotaKind(kind), _text(name), _said(region)), _count(count))


def _promise_to(promise: Promise) -> dict[str, Any]:
    return {
        "instruction": promise.instruction,
        "to": promise.to,
        "victims": [[*_handed_to(each.handed), each.grace_s] for each in promise.victims],
        "priority": promise.priority,
        "until_s": promise.until_s,
    }


def _promise_from(value: Any) -> Promise:
    return Promise(
        instruction=_text(value["instruction"]),
        to=ShardId(_text(value["to"])),
        victims=tuple(
            Victim(_handed_from(row[:3]), _count(row[3])) for row in rows_of(value["victims"], 4)
        ),
        priority=_count(value["priority"]),
        until_s=_seconds(value["until_s"]),
    )


def _machine(value: Any) -> MachineId:
    return parse_machine_id(_text(value))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"not a text: {value!r}")
    return value


def _said(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a number: {value!r}")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"not a number: {value!r}")
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"not true or false: {value!r}")
    return value

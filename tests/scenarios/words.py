"""The small words of scenario files: lists of names, amounts, checked keys."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.model.resources import NEED_UNITS_MAX, Resources, Units, from_units

Raw = Mapping[str, Any]
"""A mapping as it stands in a file."""

SHORT: Final = {"gpu": "nvidia.com/gpu"}
"""Dimensions that files write in short."""

_LONG: Final = {long: short for short, long in SHORT.items()}
_TIMES: Final = re.compile(r"([1-9][0-9]*) x (\S+)")
_RANGE: Final = re.compile(r"(\S*?)([0-9]+)\.\.(\S*?)([0-9]+)")
_NUMBERED: Final = re.compile(r"(.*?)([0-9]+)")
RANGE_MIN: Final = 3
"""So many names in a row are written as a range."""


class Wrong(Rejected):
    """A scenario file that cannot be read: one line, with the file and the key."""


def check_keys(given: object, known: Collection[str], where: str) -> Raw:
    """`given`, if it is a mapping with no key but those known."""
    if not isinstance(given, Mapping):
        raise Wrong(f"{where}: must be a mapping: {given!r}")
    for key in given:
        if key not in known:
            raise Wrong(f"{where}: unknown key {key!r} (one of {', '.join(known)})")
    return given


def check_type(value: object, kind: type, key: str, where: str) -> Any:
    """`value`, if it is of that kind; a yes is no number, and a whole number will do for any."""
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise Wrong(f"{where}: {key} must be of type {kind.__name__}: {value!r}")
    return value


def names(text: object, where: str) -> list[str]:
    """`a b`, `a-1..a-3` and `3 x a-` are lists of names; the last counts from 1."""
    if not isinstance(text, str) or not text:
        raise Wrong(f"{where}: not a name: {text!r}")
    if found := _TIMES.fullmatch(text):
        width = len(found[1])
        return [f"{found[2]}{number:0{width}}" for number in range(1, int(found[1]) + 1)]
    return [name for word in text.split() for name in _expanded(word, where)]


def _expanded(word: str, where: str) -> Iterable[str]:
    if ".." not in word:
        return [word]
    found = _RANGE.fullmatch(word)
    if found is None or found[1] != found[3] or len(found[2]) != len(found[4]):
        raise Wrong(f"{where}: not a range of names: {word!r}")
    first, last = int(found[2]), int(found[4])
    step = 1 if first <= last else -1
    return [f"{found[1]}{n:0{len(found[2])}}" for n in range(first, last + step, step)]


def told_names(ids: Sequence[str]) -> str:
    """The shortest way to write these names in this order."""
    return " ".join(_told_run(run) for run in _runs(ids))


def _told_run(run: Sequence[str]) -> str:
    return f"{run[0]}..{run[-1]}" if len(run) >= RANGE_MIN else " ".join(run)


def _runs(ids: Sequence[str]) -> Iterator[list[str]]:
    """Stretches in which numbers go up, or down, one by one."""
    run: list[str] = []
    direction = 0
    for before, name in pairwise(["", *ids]):
        step = _step(before, name)
        if run and step and direction in {0, step}:
            direction = step
        else:
            if run:
                yield run
            run, direction = [], 0
        run.append(name)
    if run:
        yield run


def _step(before: str, name: str) -> int:
    one, two = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(name)
    if one is None or two is None or one[1] != two[1] or len(one[2]) != len(two[2]):
        return 0
    step = int(two[2]) - int(one[2])
    return step if step in {1, -1} else 0


def amounts(raw: object, where: str) -> dict[str, str]:
    """Quantities by full name of their dimension."""
    if not isinstance(raw, Mapping):
        raise Wrong(f"{where}: amounts must be a mapping: {raw!r}")
    return {SHORT.get(str(name), str(name)): str(amount) for name, amount in raw.items()}


def units(raw: object, where: str) -> Units:
    """Amounts of a need."""
    try:
        return dict(Resources(amounts(raw, where), units_max=NEED_UNITS_MAX).units)
    except Rejected as error:
        raise Wrong(f"{where}: {error.message}") from error


def told_units(given: Units) -> dict[str, int | str]:
    """The same in short; zeros are left out."""
    texts = {name: from_units(name, amount) for name, amount in sorted(given.items()) if amount}
    return {_LONG.get(n, n): int(text) if text.isdigit() else text for n, text in texts.items()}

"""A book as JSON and back. Whole numbers may be longer than 64 bits; JSON does not mind.

Tabs are many, so they go as columns: all names in one text, numbers as bytes in base64.
"""

import base64
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mainstay.model.ids import parse_machine_id
from mainstay.model.profile import CapacityType
from mainstay.model.texts import ragged, texts_of
from mainstay.shard.money.account import Amount, Cell, Use
from mainstay.shard.money.book import Kept
from mainstay.shard.money.tabs import TabRows

_LENGTH: Final = "<u4"
_PLACE: Final = "<i4"
_NUMBER: Final = "<i8"


def encoded(kept: Kept) -> dict[str, Any]:
    """What is written."""
    return {
        "since_s": kept.since_s,
        "at_ns": kept.at_ns,
        "cells": [
            [*cell[:2], *map(int, cell[2:]), *amount] for cell, amount in kept.amounts.items()
        ],
        "tabs": _tabs_to(kept.tabs),
        "on_demand": dict(kept.on_demand),
        "cursors": {source: cursor.hex() for source, cursor in kept.cursors.items()},
    }


def decoded(value: Any) -> Kept:
    """What was written; raises whatever a wrong document makes it raise."""
    amounts: dict[Cell, Amount] = {}
    for cluster, instance_type, capacity, use, *sums in value["cells"]:
        cell = Cell(_text(cluster), _text(instance_type), CapacityType(capacity), Use(use))
        amounts[cell] = Amount(*map(_whole, sums))
    return Kept(
        since_s=float(value["since_s"]),
        at_ns=_whole(value["at_ns"]),
        amounts=amounts,
        tabs=_tabs_from(value["tabs"], len(amounts)),
        on_demand={_text(name): _whole(price) for name, price in value["on_demand"].items()},
        cursors={_text(name): bytes.fromhex(text) for name, text in value["cursors"].items()},
    )


def _tabs_to(tabs: TabRows) -> dict[str, str]:
    ids = tabs.ids
    names = ragged(ids.arena, ids.offset, ids.length).tobytes().decode("ascii")
    return {
        "names": names,
        "lengths": _packed(ids.length, _LENGTH),
        "places": _packed(tabs.place, _PLACE),
        "prices": _packed(tabs.price, _NUMBER),
        "since_ns": _packed(tabs.since_ns, _NUMBER),
    }


def _tabs_from(value: Any, cells: int) -> TabRows:
    names, lengths = _text(value["names"]), _unpacked(value["lengths"], _LENGTH)
    ends = np.cumsum(lengths.astype(np.int64))
    starts = (ends - lengths).tolist()
    ids = [
        parse_machine_id(names[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    tabs = TabRows(
        texts_of(ids),
        _unpacked(value["places"], _PLACE).astype(np.int32),
        _unpacked(value["prices"], _NUMBER).astype(np.int64),
        _unpacked(value["since_ns"], _NUMBER).astype(np.int64),
    )
    if {len(tabs.ids), len(tabs.price), len(tabs.since_ns)} != {len(tabs)}:
        raise ValueError("columns of different lengths")
    if len(tabs) and not 0 <= tabs.place.min() <= tabs.place.max() < cells:
        raise ValueError("a tab of no cell")
    return tabs


def _packed(column: NDArray[Any], kind: str) -> str:
    return base64.b64encode(column.astype(kind).tobytes()).decode("ascii")


def _unpacked(text: Any, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(_text(text), validate=True), dtype=kind)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a whole number: {value!r}")
    return value

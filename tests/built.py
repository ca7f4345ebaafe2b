"""Values of any of our dataclasses, from their annotations."""

import dataclasses
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from hypothesis import strategies as st

Leaves = Mapping[Any, st.SearchStrategy[Any]]

SMALL: Leaves = {
    str: st.text(st.characters(codec="utf-8"), max_size=5),
    int: st.integers(-(2**31), 2**31 - 1),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
}
"""What fits every field of the wire."""


def built(kind: Any, leaves: Leaves = SMALL) -> st.SearchStrategy[Any]:
    """Values of a type; `leaves` says what its smallest parts are."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind in leaves:
        return leaves[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        parts = {name: built(hint, leaves) for name, hint in hints.items()}
        return st.builds(typing.cast("type[Any]", kind), **parts)
    if origin is tuple:
        return st.lists(built(inside[0], leaves), max_size=2).map(tuple)
    if type(None) in inside:
        return st.none() | built(inside[0], leaves)
    return st.dictionaries(built(inside[0], leaves), built(inside[1], leaves), max_size=2)

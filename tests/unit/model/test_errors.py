from typing import Final

import pytest

from mainstay.model import errors
from mainstay.model.errors import (
    REACTIONS,
    DuplicateMachine,
    Fenced,
    IllegalTransition,
    InvalidMachine,
    MainstayError,
    NoCapacity,
    Rejected,
    Unavailable,
    UnknownMachine,
)

EVERY: Final[list[type[MainstayError]]] = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MainstayError)
]

CODES: Final[dict[type[MainstayError], str]] = {
    MainstayError: "error",
    Rejected: "rejected",
    Unavailable: "unavailable",
    NoCapacity: "no_capacity",
    Fenced: "fenced",
    UnknownMachine: "unknown_machine",
    DuplicateMachine: "duplicate_machine",
    IllegalTransition: "illegal_transition",
    InvalidMachine: "invalid_machine",
}


def test_codes_are_never_changed() -> None:
    """Callers and dashboards match on them."""
    assert {kind: kind.code for kind in CODES} == CODES


def test_every_error_has_a_code_of_its_own() -> None:
    assert set(EVERY) >= set(CODES)
    assert len({kind.code for kind in EVERY}) == len(EVERY)


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind is not MainstayError], ids=str)
def test_every_error_asks_for_exactly_one_reaction(kind: type[MainstayError]) -> None:
    assert sum(issubclass(kind, reaction) for reaction in REACTIONS) == 1


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind is not MainstayError], ids=str)
def test_every_error_says_what_to_do(kind: type[MainstayError]) -> None:
    assert kind.what_to_do


def test_what_may_be_shown_is_kept_apart_from_what_is_for_our_logs() -> None:
    error = Unavailable("the provider is busy", detail="503 from 10.0.0.7")

    assert str(error) == error.message == "the provider is busy"
    assert error.detail == "503 from 10.0.0.7"


def test_an_invalid_machine_names_the_rule_it_breaks() -> None:
    error = InvalidMachine("machine m-1: no host", rule="host")

    assert error.rule == "host"
    assert isinstance(error, Rejected)


def test_a_fence_says_which_epoch_was_seen_or_that_it_does_not() -> None:
    assert Fenced("a newer life acts", epoch=7).epoch == 7
    assert Fenced("a newer life acts").epoch is None

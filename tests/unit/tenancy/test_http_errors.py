"""Every error of tenancy has its status, and every code means one of them."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import mainstay.tenancy
from mainstay.model.errors import REACTIONS, Fenced, MainstayError, NoCapacity, Rejected
from mainstay.model.errors import Unavailable as Later
from mainstay.tenancy.http.errors import (
    PUBLIC_CODE,
    STATUS_OF_CODE,
    STATUS_OF_REACTION,
    answer_to,
    envelope_of,
    status_of,
)


def kinds(root: type[MainstayError] = MainstayError) -> Iterator[type[MainstayError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


def ours() -> list[type[MainstayError]]:
    for found in pkgutil.walk_packages(mainstay.tenancy.__path__, "mainstay.tenancy."):
        if ".migrations" not in found.name:
            importlib.import_module(found.name)
    return [kind for kind in kinds() if kind.__module__.startswith("mainstay.tenancy.")]


def made(kind: type[MainstayError]) -> MainstayError:
    error = kind.__new__(kind)
    MainstayError.__init__(error, "what is wrong")
    return error


def test_every_reaction_has_a_status() -> None:
    assert set(STATUS_OF_REACTION) == set(REACTIONS)


def test_what_is_not_found_is_404_everywhere_and_nothing_else_is() -> None:
    codes = {kind.code: status_of(made(kind)) for kind in ours()}

    assert len(codes) > 25
    assert {code for code, status in codes.items() if status == 404} == {
        code for code in codes if code.endswith("_not_found")
    }
    assert 500 not in codes.values()


def test_the_table_names_no_code_twice_and_none_that_is_hidden() -> None:
    assert set(STATUS_OF_CODE) & set(PUBLIC_CODE) == set()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Rejected("x"), 400, "invalid_request"),
        (NoCapacity("x"), 409, "no_capacity"),
        (Fenced("x"), 409, "fenced"),
        (Later("x"), 503, "service_unavailable"),
    ],
)
def test_a_plain_error_goes_by_its_reaction(error: MainstayError, status: int, code: str) -> None:
    assert status_of(error) == status
    assert envelope_of(error, "cor")["code"] == code


def test_what_is_only_for_our_logs_is_not_said() -> None:
    error = Rejected("what is wrong", detail="secret")

    said = envelope_of(error, "cor_1")

    assert said == {
        "code": "invalid_request",
        "message": "what is wrong",
        "correlation_id": "cor_1",
        "details": {"what_to_do": "change the request"},
    }


def test_who_should_come_again_is_told_when() -> None:
    assert answer_to(Later("busy"), "c").headers["Retry-After"] == "1"

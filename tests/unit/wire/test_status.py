"""Errors and statuses: the codes of the provider contract, and our own error back."""

import grpc
import pytest

from mainstay.model.calls import Call
from mainstay.model.errors import (
    DuplicateMachine,
    Fenced,
    IllegalTransition,
    InvalidMachine,
    MainstayError,
    NoCapacity,
    NotSupported,
    Rejected,
    Unavailable,
    UnknownMachine,
)
from mainstay.wire.status import CODE_KEY, NotAllowed, error_from, grpc_code, trailer

Code = grpc.StatusCode

CODES = [
    (Fenced("x"), Code.FAILED_PRECONDITION),
    (UnknownMachine("x"), Code.NOT_FOUND),
    (NotSupported("x"), Code.UNIMPLEMENTED),
    (IllegalTransition("x"), Code.INTERNAL),
    (Rejected("x"), Code.INVALID_ARGUMENT),
    (DuplicateMachine("x"), Code.INVALID_ARGUMENT),
    (InvalidMachine("x", rule="price"), Code.INVALID_ARGUMENT),
    (NoCapacity("x"), Code.RESOURCE_EXHAUSTED),
    (Unavailable("x"), Code.UNAVAILABLE),
    (NotAllowed("x"), Code.PERMISSION_DENIED),
    (MainstayError("x"), Code.INTERNAL),
]

READ = {
    Code.CANCELLED: Unavailable,
    Code.UNKNOWN: Unavailable,
    Code.INVALID_ARGUMENT: Rejected,
    Code.DEADLINE_EXCEEDED: Unavailable,
    Code.NOT_FOUND: UnknownMachine,
    Code.ALREADY_EXISTS: Rejected,
    Code.PERMISSION_DENIED: NotAllowed,
    Code.RESOURCE_EXHAUSTED: NoCapacity,
    Code.FAILED_PRECONDITION: Fenced,
    Code.ABORTED: Unavailable,
    Code.OUT_OF_RANGE: Rejected,
    Code.UNIMPLEMENTED: NotSupported,
    Code.INTERNAL: Rejected,
    Code.UNAVAILABLE: Unavailable,
    Code.DATA_LOSS: Unavailable,
    Code.UNAUTHENTICATED: NotAllowed,
}


@pytest.mark.parametrize(("error", "code"), CODES)
def test_every_error_has_the_status_of_the_contract(error: MainstayError, code: Code) -> None:
    assert grpc_code(error) is code


def test_only_a_fence_is_a_failed_precondition() -> None:
    failed = [error for error, _ in CODES if grpc_code(error) is Code.FAILED_PRECONDITION]

    assert [type(error) for error in failed] == [Fenced]


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_status_of_a_peer_is_an_error_of_ours(code: Code) -> None:
    error = error_from(code, "why", call=Call.CREATE)

    assert type(error) is READ[code]
    assert "why" in error.message


@pytest.mark.parametrize("call", [Call.GET, Call.LIST])
@pytest.mark.parametrize("code", [Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED])
def test_a_read_is_never_fenced_and_takes_no_capacity(call: Call, code: Code) -> None:
    assert type(error_from(code, "why", call=call)) is Unavailable


@pytest.mark.parametrize(
    "error",
    [IllegalTransition("x"), UnknownMachine("x"), NotSupported("x"), Fenced("x"), NoCapacity("x")],
)
def test_between_two_of_us_the_error_comes_back_exactly(error: MainstayError) -> None:
    back = error_from(grpc_code(error), error.message, metadata=trailer(error))

    assert (type(back), back.message) == (type(error), "x")


@pytest.mark.parametrize("told", ["fenced", "no_such_code", ""])
def test_a_code_that_does_not_fit_the_status_is_not_believed(told: str) -> None:
    back = error_from(Code.INTERNAL, "why", metadata=[(CODE_KEY, told)])

    assert type(back) is Rejected


def test_two_codes_are_as_good_as_none() -> None:
    twice = [*trailer(IllegalTransition("")), *trailer(IllegalTransition(""))]

    assert type(error_from(Code.INTERNAL, "why", metadata=twice)) is Rejected

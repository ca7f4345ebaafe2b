"""Errors and statuses: the codes of the provider contract, and our own error back."""

import grpc
import pytest

from mainstay.coordinator.store import Deposed
from mainstay.model.calls import Call
from mainstay.model.errors import (
    DuplicateMachine,
    Fenced,
    IllegalTransition,
    InvalidMachine,
    MainstayError,
    NoCapacity,
    NotLeading,
    NotSupported,
    Rejected,
    Taken,
    Unavailable,
    Unknown,
    UnknownMachine,
)
from mainstay.wire.status import (
    CODE_KEY,
    FENCED_EPOCH_KEY,
    LEADER_KEY,
    NotAllowed,
    error_from,
    grpc_code,
    trailer,
)

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
    (Unknown("x"), Code.NOT_FOUND),
    (Taken("x"), Code.ALREADY_EXISTS),
    (NotLeading("x"), Code.FAILED_PRECONDITION),
    (Deposed("x"), Code.FAILED_PRECONDITION),
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


def test_only_a_fence_and_one_that_does_not_lead_are_a_failed_precondition() -> None:
    failed = [error for error, _ in CODES if grpc_code(error) is Code.FAILED_PRECONDITION]

    assert [type(error) for error in failed] == [Fenced, NotLeading, Deposed]


def test_of_a_peer_that_names_no_code_a_failed_precondition_is_a_fence() -> None:
    told = [(LEADER_KEY, "c-2:7790")]

    assert type(error_from(Code.FAILED_PRECONDITION, "why", metadata=told)) is Fenced


def test_one_that_was_deposed_is_fenced_for_whoever_asked_it() -> None:
    back = error_from(Code.FAILED_PRECONDITION, "why", metadata=trailer(Deposed("x")))

    assert type(back) is Fenced


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
    [
        IllegalTransition("x"),
        UnknownMachine("x"),
        NotSupported("x"),
        Fenced("x"),
        NoCapacity("x"),
        Unknown("x"),
        Taken("x"),
        NotLeading("x"),
    ],
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


def fenced_with(*epochs: str | bytes) -> Fenced:
    told = [(FENCED_EPOCH_KEY, epoch) for epoch in epochs]
    error = error_from(Code.FAILED_PRECONDITION, "why", call=Call.CREATE, metadata=told)
    assert isinstance(error, Fenced)
    return error


@pytest.mark.parametrize("epoch", [None, 0, 7, 2**63 - 1])
def test_a_fence_tells_the_newest_epoch_that_was_seen(epoch: int | None) -> None:
    error = Fenced("x", epoch=epoch)
    back = error_from(grpc_code(error), error.message, metadata=trailer(error))

    assert isinstance(back, Fenced)
    assert (back.epoch, back.message) == (epoch, "x")


def test_an_epoch_is_believed_of_a_peer_that_names_no_code() -> None:
    assert fenced_with("12").epoch == 12


@pytest.mark.parametrize(
    "told", ["", "-1", "+1", " 1", "1.0", "1_000", "0x1", "\u0663", "9" * 5000, str(2**63), b"7"]
)
def test_an_epoch_that_no_fence_can_have_is_not_believed(told: str | bytes) -> None:
    assert fenced_with(told).epoch is None


def test_two_epochs_are_as_good_as_none() -> None:
    assert fenced_with("7", "7").epoch is None


def leader_after(told: str | bytes) -> str:
    metadata = [(CODE_KEY, NotLeading.code), (LEADER_KEY, told)]
    error = error_from(Code.FAILED_PRECONDITION, "why", metadata=metadata)
    assert isinstance(error, NotLeading)
    return error.leader


@pytest.mark.parametrize("leader", ["", "c-2:7790", "10.0.0.3:1", "[::1]:65535"])
def test_one_that_does_not_lead_tells_who_does(leader: str) -> None:
    error = NotLeading("x", leader=leader)
    back = error_from(grpc_code(error), error.message, metadata=trailer(error))

    assert isinstance(back, NotLeading)
    assert (back.leader, back.message) == (leader, "x")


@pytest.mark.parametrize(
    "told",
    ["", "c-2", ":7790", "c-2:", "c-2:0", "c-2:65536", "c-2:x", "c 2:1", "h" * 300 + ":1", b"c:1"],
)
def test_a_leader_that_cannot_be_dialled_is_not_told(told: str | bytes) -> None:
    assert leader_after(told) == ""


def test_a_leader_that_cannot_be_a_header_is_not_sent() -> None:
    assert [key for key, _ in trailer(NotLeading("x", leader="c\n2:1"))] == [CODE_KEY]

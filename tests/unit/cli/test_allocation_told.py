"""`mainstay explain allocation`: what a person is told, from the API's own answers."""

from typing import Any, Final

import pytest

from mainstay.cli import explain
from mainstay.cli.allocation_told import NEXT, STANDINGS, allocation_sentences
from mainstay.tenancy.states import Status

AT: Final = "2026-11-16T10:00:00Z"


def shown(status: str = "active", **changed: Any) -> dict[str, Any]:
    return {
        "allocation_id": "alc-1",
        "status": status,
        "sku": "h200-sxm-slice",
        "gpus": 2,
        "region": "eu-1",
        "node_id": "node-7",
        "price": {"gpu_hour_minor": 250, "currency": "USD"},
        "active_at": AT,
        "releasing_at": None,
        "cancel_requested": False,
        "release_attempt": 0,
        "failure": None,
        "claims": [{"slot_index": 0}, {"slot_index": 1}],
        "proof": None,
    } | changed


def moments(*names: str) -> dict[str, Any]:
    return {"moments": [{"at": AT, "what": name, "detail": ""} for name in names]}


def a_bill(**amounts: int) -> dict[str, Any]:
    lines = [
        {"allocation": name.replace("_", "-"), "amount_minor": minor, "seconds": 3600}
        for name, minor in amounts.items()
    ]
    return {"lines": lines}


def test_an_active_one_tells_what_it_is_its_bill_and_what_to_do() -> None:
    bills = [a_bill(alc_1=500, alc_2=9_999), a_bill(alc_1=25)]

    told = allocation_sentences(shown(), moments("requested", "active"), bills)

    assert told[0] == (
        "The allocation alc-1 is active: 2 x h200-sxm-slice in eu-1, on node node-7 (slots 0, 1)."
    )
    assert f"  {AT}  requested" in told
    assert any("5.25" in line and "7,200 s" in line for line in told)
    assert "mainstay alloc release alc-1" in told[-1]


def test_one_under_way_tells_what_it_waits_for_and_the_last_that_happened() -> None:
    told = allocation_sentences(shown("provisioning"), moments("requested", "task_claimed"), [])

    assert "It waits for that." in told[1]
    assert f"The last that happened: task claimed, at {AT}." in told


def test_a_failed_one_tells_what_blocked_it() -> None:
    failure = {"code": "agent_lost", "phase": "provisioning", "message": "no heartbeat"}

    told = allocation_sentences(shown("failed", failure=failure, claims=[]), moments(), [])

    assert "What blocks it: agent_lost while provisioning: no heartbeat." in told
    assert "(it holds nothing now)" in told[0]


def test_a_released_one_shows_its_proof() -> None:
    proof = {"memory_wiped": True, "leases_left": 0, "steps": ["a"]}

    told = allocation_sentences(shown("released", proof=proof), moments(), [])

    assert "The proof of its clean-up: memory wiped yes, leases left 0." in told


def test_clean_up_that_was_repeated_or_not_proved_is_told() -> None:
    told = allocation_sentences(shown("release_failed", release_attempt=3), moments(), [])

    assert "Clean-up was begun 3 times." in told
    assert "There is no proof of its clean-up yet." in told


def test_every_status_has_a_sentence() -> None:
    assert set(STANDINGS) == set(map(str, Status))
    assert set(NEXT) <= set(STANDINGS)


@pytest.mark.parametrize(
    ("first", "last", "months"),
    [
        ("2026-11", "2026-11", ["2026-11"]),
        ("2026-11", "2027-02", ["2026-11", "2026-12", "2027-01", "2027-02"]),
        ("2026-12", "2026-11", []),
    ],
)
def test_no_month_between_the_first_and_the_last_is_left_out(
    first: str, last: str, months: list[str]
) -> None:
    assert explain.months_between(first, last) == months

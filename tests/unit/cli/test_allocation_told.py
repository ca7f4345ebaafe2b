"""`mainstay explain allocation`: what a person is told, from the API's own answers."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.cli import explain
from mainstay.cli.allocation_told import (
    NEXT,
    STANDINGS,
    allocation_sentences,
    request_sentences,
)
from mainstay.model.questions import Expected, When
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.expecting import After
from mainstay.tenancy.states import CapacityState, Status

AT: Final = "2026-11-16T10:00:00Z"
CONTEXT_WITHOUT_A_SHARD: Final = 'current = "here"\n[contexts.here]\napi = "http://127.0.0.1:1"\n'


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


def a_bill(*minor: int, is_whole: bool = False) -> dict[str, Any]:
    """Of so many months."""
    lines = [{"amount_minor": each, "seconds": 3600} for each in minor]
    amount = formatted(sum(minor), "USD")
    return {"lines": lines, "amount": amount, "charged_to": AT, "is_whole": is_whole}


def test_an_active_one_tells_what_it_is_its_bill_and_what_to_do() -> None:
    told = allocation_sentences(shown(), moments("requested", "active"), a_bill(500, 25))

    assert told[0] == (
        "The allocation alc-1 is active: 2 x h200-sxm-slice in eu-1, on node node-7 (slots 0, 1)."
    )
    assert f"  {AT}  requested" in told
    assert any("$5.25 for 7,200 s" in line for line in told)
    assert any(line.endswith(f"It is charged up to {AT}, so far.") for line in told)
    assert "mainstay alloc release alc-1" in told[-1]


def test_a_bill_that_is_whole_says_no_more_than_what_it_is() -> None:
    paid = allocation_sentences(shown("released"), moments(), a_bill(500, is_whole=True))
    free = allocation_sentences(shown("failed"), moments(), a_bill(is_whole=True))

    assert paid[-1] == "Its bill: $5.00 for 3,600 s, at $2.50 per GPU and hour."
    assert any(line.startswith("Its bill: nothing, at") for line in free)


def test_one_under_way_tells_what_it_waits_for_and_the_last_that_happened() -> None:
    told = allocation_sentences(
        shown("provisioning"), moments("requested", "task_claimed"), a_bill()
    )

    assert "It waits for that." in told[1]
    assert f"The last that happened: task claimed, at {AT}." in told


def test_a_failed_one_tells_what_blocked_it() -> None:
    failure = {"code": "agent_lost", "phase": "provisioning", "message": "no heartbeat"}

    told = allocation_sentences(shown("failed", failure=failure, claims=[]), moments(), a_bill())

    assert "What blocks it: agent_lost while provisioning: no heartbeat." in told
    assert "(it holds nothing now)" in told[0]


def test_a_released_one_shows_its_proof() -> None:
    proof = {"memory_wiped": True, "leases_left": 0, "steps": ["a"]}

    told = allocation_sentences(shown("released", proof=proof), moments(), a_bill())

    assert "The proof of its clean-up: memory wiped yes, leases left 0." in told


def test_clean_up_that_was_repeated_or_not_proved_is_told() -> None:
    told = allocation_sentences(shown("release_failed", release_attempt=3), moments(), a_bill())

    assert "Clean-up was begun 3 times." in told
    assert "There is no proof of its clean-up yet." in told


def test_every_status_has_a_sentence() -> None:
    assert set(STANDINGS) == set(map(str, Status))
    assert set(NEXT) <= set(STANDINGS)


def test_clean_up_that_failed_is_asked_for_again_as_a_release() -> None:
    told = allocation_sentences(shown("release_failed"), moments(), a_bill())

    assert told[-1] == "`mainstay alloc release alc-1` has its clean-up tried again."


@pytest.mark.parametrize("server", ["", "http://127.0.0.1:1", "127.0.0.1:1"])
def test_the_shards_behind_a_request_are_looked_for_where_the_api_is_not(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MAINSTAY_SERVER names the API for this command, and is nobody else's."""
    facts = {"id": "shard-1", "pid": os.getpid(), "addresses": {"grpc": "127.0.0.1:2"}}
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "shard-1.json").write_text(json.dumps(facts))
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MAINSTAY_SERVER", server)

    assert [(each.name, each.address) for each in explain.shards_here()] == [
        ("shard-1", "127.0.0.1:2")
    ]


def test_why_no_shard_could_be_asked_is_said_where_the_context_is_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = tmp_path / "mainstay" / "contexts.toml"
    contexts.parent.mkdir()
    contexts.write_text(CONTEXT_WITHOUT_A_SHARD)
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    faulty, _ = explain.need_told("tenants", "0123456789ab")
    contexts.unlink()

    assert faulty is not None
    assert faulty.when is When.UNKNOWN
    assert "names no shard" in faulty.because[0]
    assert explain.need_told("tenants", "0123456789ab") == (None, ())


def test_when_it_is_expected_stands_behind_what_blocks_it() -> None:
    expected = Expected(when=When.ABOUT, seconds=6.0, because=("the last 2 took 8 s",))

    told = allocation_sentences(shown("provisioning"), moments("requested"), a_bill(), expected)
    active = allocation_sentences(shown(), moments("active"), a_bill())

    assert "When: in about 6 s, because the last 2 took 8 s." in told
    assert [line for line in active if line.startswith("When")] == []


@pytest.mark.parametrize("state", [str(state) for state in CapacityState if state != "placed"])
def test_a_request_for_capacity_tells_its_need_when_and_what_to_do(state: str) -> None:
    request = {
        "request_id": "cap_1", "state": state, "sku": "s", "gpus": 8, "region": "r",
        "reason": "no room", "created_at": AT, "expires_at": AT,
    }  # fmt: skip
    after = After(cluster="tenants", need="0123456789ab", joining_s=None)
    never = Expected(when=When.NEVER, because=("all are held",))

    behind = ("It misses gpu 8.", "The smallest change that admits it: wait.", "When: never.")
    told = request_sentences(request, after, never)
    whole = request_sentences(request, after, never, behind)

    assert whole == (*told[:3], *(f"  {each}" for each in behind[:2]), *told[3:])
    assert told[0].startswith(f"The capacity request cap_1 is {state}: 8 x s in r")
    assert told[1] == "What blocks it: no room."
    assert "`mainstay explain need tenants/01234567`" in told[2]
    assert told[3] == "When: never as things are, because all are held."
    assert "mainstay alloc" in told[4]

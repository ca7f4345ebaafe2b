"""What the worker writes when it knows how a piece of work ended: each one edge, all or nothing.

Each takes a row that the caller's transaction has locked (`transition.locked`) and gives back the
row as it is then. An edge that is not there raises IllegalStep and leaves nothing: the row is then
to be read again, since a repetition of what is done already is no fault.
"""

from collections.abc import Mapping
from typing import Any, Final, TypedDict, Unpack

from psycopg.types.json import Jsonb

from mainstay.model.errors import Rejected
from mainstay.tenancy.billing import usage
from mainstay.tenancy.database.connect import Connection, Row
from mainstay.tenancy.holdings import live_claims, set_holdings
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.states import Actor, ClaimStatus, IllegalStep, SlotStatus, Status
from mainstay.tenancy.transition import Step, move

CANCELLED: Final = "cancelled"
"""The failure code of what was given up before it was active."""

PROOF: Final = ("released", "wiped", "leases_released")
"""What an agent must say, all of it, before anything is given to the next tenant."""


class ProofIncomplete(Rejected):
    """Somebody says it is clean without saying how."""

    code = "proof_incomplete"
    what_to_do = "release again until released, wiped and leases_released are all true"


class Failure(TypedDict):
    """Why there is nothing for the tenant."""

    code: str
    phase: str
    reason: str
    clean: bool
    """Whether every step that was taken was seen undone, or none was taken."""

    actor: Actor


async def begun(tx: Connection, ids: Ids, row: Row) -> Row:
    """A2: work starts. A4 at once if it was cancelled meanwhile: nothing was done, so it is clean.

    The caller goes on only if the row is `provisioning`.
    """
    moved = await move(tx, ids, row, Step(new=Status.PROVISIONING, actor=Actor.WORKER))
    if moved["cancel_requested_by"] is None:
        return moved
    return await failed(
        tx,
        ids,
        moved,
        code=CANCELLED,
        phase="begin",
        reason=f"cancelled by {moved['cancel_requested_by']} before work began",
        clean=True,
        actor=Actor.WORKER,
    )


async def activated(tx: Connection, ids: Ids, row: Row, connection: Mapping[str, Any]) -> Row:
    """A3: the tenant has it. A5 at once if it was cancelled meanwhile: then it is `releasing`."""
    step = Step(
        new=Status.ACTIVE,
        actor=Actor.WORKER,
        changes={"connection": Jsonb(dict(connection))},
        payload={"price_minor": row["price_minor"], "currency": row["currency"]},
    )
    moved = await move(tx, ids, row, step)
    await set_holdings(tx, moved, ClaimStatus.ACTIVE, SlotStatus.IN_USE)
    if moved["cancel_requested_by"] is None:
        return moved
    return await releasing(tx, ids, moved, Actor(moved["cancel_requested_by"]))


async def failed(tx: Connection, ids: Ids, row: Row, **failure: Unpack[Failure]) -> Row:
    """A4: the tenant never had it.

    Clean: the claims end and the slots are free. Otherwise the claims stay live as `blocked` and
    the slots are `cleanup_blocked`: the database itself then refuses the slots, and a whole node,
    to everybody until `cleaned` has a proof or an admin says that nothing runs there.
    """
    step = Step(
        new=Status.FAILED,
        actor=failure["actor"],
        changes={
            "failure_code": failure["code"],
            "failure_phase": failure["phase"],
            "failure_reason": failure["reason"],
        },
        payload={
            "code": failure["code"],
            "phase": failure["phase"],
            "reason": failure["reason"],
            "clean": failure["clean"],
        },
    )
    moved = await move(tx, ids, row, step)
    if failure["clean"]:
        await set_holdings(tx, moved, ClaimStatus.FAILED, SlotStatus.AVAILABLE)
    else:
        await set_holdings(tx, moved, ClaimStatus.BLOCKED, SlotStatus.CLEANUP_BLOCKED)
    return moved


async def releasing(tx: Connection, ids: Ids, row: Row, actor: Actor) -> Row:
    """A5 or A8: clean-up is asked for. Attempts are counted, so that none is taken for another."""
    attempt = row["release_attempt"] + 1
    step = Step(
        new=Status.RELEASING,
        actor=actor,
        changes={"release_attempt": attempt, "release_initiator": str(actor)},
        payload={"attempt": attempt, "initiator": str(actor)},
    )
    moved = await move(tx, ids, row, step)
    await set_holdings(tx, moved, ClaimStatus.RELEASING, SlotStatus.RELEASING)
    return moved


async def released(tx: Connection, ids: Ids, row: Row, proof: Mapping[str, Any]) -> Row:
    """A6: clean-up is proved, and what was held is free.

    What the biller has not charged yet is charged here: whoever sees it released sees all it cost.
    """
    check_proof(proof)
    hard = proof.get("hard_stopped") is True
    step = Step(
        new=Status.RELEASED,
        actor=Actor.WORKER,
        changes={
            "proof": Jsonb(dict(proof)),
            "hard_stopped": hard,
            "failure_code": None,
            "failure_phase": None,
            "failure_reason": None,
        },
        payload={"proof": dict(proof), "hard_stopped": hard, "attempt": row["release_attempt"]},
    )
    moved = await move(tx, ids, row, step)
    await set_holdings(tx, moved, ClaimStatus.RELEASED, SlotStatus.AVAILABLE)
    await usage.charge_the_rest(tx, moved)
    return moved


async def release_failed(
    tx: Connection, ids: Ids, row: Row, reason: str, proof: Mapping[str, Any] | None = None
) -> Row:
    """A7: nobody could prove that it is clean, so it stays held. A partial proof is kept."""
    step = Step(
        new=Status.RELEASE_FAILED,
        actor=Actor.WORKER,
        changes={
            "failure_code": str(Status.RELEASE_FAILED),
            "failure_phase": "release",
            "failure_reason": reason,
            "proof": None if proof is None else Jsonb(dict(proof)),
        },
        payload={
            "reason": reason,
            "proof": None if proof is None else dict(proof),
            "attempt": row["release_attempt"],
        },
    )
    moved = await move(tx, ids, row, step)
    await set_holdings(tx, moved, ClaimStatus.BLOCKED, SlotStatus.CLEANUP_BLOCKED)
    return moved


async def cleaned(tx: Connection, row: Row, proof: Mapping[str, Any]) -> Row:
    """A failed allocation's remains are proved to be gone: what was blocked is free.

    No edge: it stays failed. Once more is no fault.
    """
    check_proof(proof)
    if row["status"] != Status.FAILED:
        raise IllegalStep(f"allocation {row['id']} is {row['status']}, not failed: release it")
    kept = await tx.execute(
        "update allocations set proof = %s where id = %s returning *",
        [Jsonb(dict(proof)), row["id"]],
    )
    found = await kept.fetchone()
    assert found is not None
    if await live_claims(tx, row["id"]):
        await set_holdings(tx, row, ClaimStatus.FAILED, SlotStatus.AVAILABLE)
    return found


def check_proof(proof: Mapping[str, Any]) -> None:
    """All of it, said as true and as nothing else."""
    if missing := [part for part in PROOF if proof.get(part) is not True]:
        raise ProofIncomplete(f"not proved: {', '.join(missing)}")

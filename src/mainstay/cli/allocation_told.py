"""An allocation in sentences: what it is, what it waits for, what blocks, its proof, its bill.

Pure: made of the API's own answers, and every number is one of theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mainstay.model.questions import NOTHING_EXPECTED, Expected
from mainstay.shard.answers.when import expected_sentence
from mainstay.tenancy.billing.charge import formatted
from mainstay.tenancy.expecting import After

Said = Mapping[str, Any]

STANDINGS: Final[Mapping[str, str]] = {
    "requested": "Its room is reserved. It waits for a worker to begin.",
    "provisioning": "The agent of its node is at work. It waits for that.",
    "active": "The tenant has it, and pays.",
    "releasing": "It is given back. It waits for the agent to prove that it is clean; nobody pays.",
    "released": "It was given back, and its node proved that it is clean.",
    "failed": "It came to nothing. Nobody pays.",
    "release_failed": "Clean-up failed: its room stays closed until somebody repeats it.",
}
"""By status: where it stands, and whom it waits for."""

NEXT: Final[Mapping[str, str]] = {
    "requested": "`mainstay alloc watch {id}` tells when it goes on.",
    "provisioning": "`mainstay alloc watch {id}` tells when it is active.",
    "active": "`mainstay alloc ssh {id}` logs in; `mainstay alloc release {id}` gives it back.",
    "releasing": "`mainstay alloc watch {id}` tells when it is released.",
    "failed": "Ask again with `mainstay alloc create`.",
    "release_failed": "`mainstay alloc release {id}` has its clean-up tried again.",
}
"""By status: what to do now."""


NEXT_OF_REQUEST: Final[Mapping[str, str]] = {
    "waiting": "`mainstay alloc waiting` lists what is waited for; `mainstay alloc cancel {id}`"
    " ends it.",
    "cancelled": "Ask again with `mainstay alloc create --wait`.",
    "expired": "Ask again with `mainstay alloc create --wait --wait-s` and more seconds.",
}
"""By state of a request for capacity: what to do now."""


def request_sentences(
    shown: Said, after: After | None, expected: Expected, behind: Sequence[str] = ()
) -> tuple[str, ...]:
    """What is waited for, why, behind which need, when, what to do; `behind` is what a shard tells
    of that need.
    """
    return tuple(_of_request(shown, after, expected, behind))


def _of_request(
    shown: Said, after: After | None, expected: Expected, behind: Sequence[str]
) -> Iterator[str]:
    name, state = shown["request_id"], shown["state"]
    yield (
        f"The capacity request {name} is {state}: {shown['gpus']} x {shown['sku']}"
        f" in {shown['region']}, since {shown['created_at']}, at most until {shown['expires_at']}."
    )
    if shown["reason"]:
        yield f"What blocks it: {shown['reason']}."
    if after is not None:
        need = f"{after.cluster}/{after.need[:8]}"
        yield f"It waits behind the need {need}: `mainstay explain need {need}` tells of that."
        yield from (f"  {each}" for each in behind if not each.startswith("When: "))
    if said := expected_sentence(expected):
        yield said
    if state in NEXT_OF_REQUEST:
        yield NEXT_OF_REQUEST[state].format(id=name)


def allocation_sentences(
    shown: Said, timeline: Said, bill: Said, expected: Expected = NOTHING_EXPECTED
) -> tuple[str, ...]:
    """What it is, where it stands, what blocks, when, what happened, proof, bill, what to do."""
    return tuple(_sentences(shown, timeline, bill, expected))


def _sentences(shown: Said, timeline: Said, bill: Said, expected: Expected) -> Iterator[str]:
    name, status = shown["allocation_id"], shown["status"]
    yield (
        f"The allocation {name} is {status.replace('_', ' ')}: {shown['gpus']} x {shown['sku']}"
        f" in {shown['region']}, on node {shown['node_id']} ({_held(shown['claims'])})."
    )
    yield STANDINGS.get(status, f"Its status is {status}.")
    if shown["cancel_requested"]:
        yield "It was cancelled before it was active."
    yield from _blocker(shown, timeline["moments"])
    if said := expected_sentence(expected):
        yield said
    yield from _moments(timeline["moments"])
    yield from _proof(shown)
    yield _bill(shown, bill)
    if status in NEXT:
        yield NEXT[status].format(id=name)


def _held(claims: Sequence[Said]) -> str:
    slots = [claim["slot_index"] for claim in claims if claim["slot_index"] is not None]
    if not claims:
        return "it holds nothing now"
    return f"slots {', '.join(map(str, slots))}" if slots else "the whole node"


def _blocker(shown: Said, moments: Sequence[Said]) -> Iterator[str]:
    failure = shown["failure"]
    if failure is not None:
        when = f" while {failure['phase']}" if failure["phase"] else ""
        why = f": {failure['message']}" if failure["message"] else ""
        yield f"What blocks it: {failure['code']}{when}{why}."
    elif shown["status"] in {"requested", "provisioning", "releasing"} and moments:
        last = moments[-1]
        yield f"The last that happened: {_moment(last)}, at {last['at']}."
    if shown["release_attempt"] > 1:
        yield f"Clean-up was begun {shown['release_attempt']} times."


def _moments(moments: Sequence[Said]) -> Iterator[str]:
    if moments:
        yield "What happened:"
    for moment in moments:
        yield f"  {moment['at']}  {_moment(moment)}"


def _moment(moment: Said) -> str:
    detail = f" ({moment['detail']})" if moment["detail"] else ""
    return f"{moment['what'].replace('_', ' ')}{detail}"


def _proof(shown: Said) -> Iterator[str]:
    proof = shown["proof"]
    if proof is None:
        if shown["status"] in {"releasing", "release_failed"}:
            yield "There is no proof of its clean-up yet."
        return
    told = [f"{name.replace('_', ' ')} {_word(value)}" for name, value in proof.items()
            if not isinstance(value, list | dict)]  # fmt: skip
    yield f"The proof of its clean-up: {', '.join(told) or 'given'}."


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _bill(shown: Said, bill: Said) -> str:
    price = shown["price"]
    rate = f"{formatted(price['gpu_hour_minor'], price['currency'])} per GPU and hour"
    if not bill["lines"]:
        return f"Its bill: nothing{'' if bill['is_whole'] else ' yet'}, at {rate}."
    seconds = sum(line["seconds"] for line in bill["lines"])
    so_far = "" if bill["is_whole"] else f" It is charged up to {bill['charged_to']}, so far."
    return f"Its bill: {bill['amount']} for {seconds:,} s, at {rate}.{so_far}"

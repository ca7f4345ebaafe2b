"""In which order the steps come. The answers of steps decide, and nothing else does.

So a plan that is run again with the same answers takes the same way. Whoever changes what a plan
does with given answers also changes `VERSION`: work that was begun under another version is left
to workers that have it.
"""

from typing import Final

from mainstay.tenancy.worker.port import Facts, Plans, Run
from mainstay.tenancy.worker.steps import Next

VERSION: Final = "1"

PROVISION: Final = "provision"
RELEASE: Final = "release"
REMAINS: Final = "remains"


async def provision(run: Run, facts: Facts) -> None:
    """From `requested` to `active`, or to `failed` and nothing left behind."""
    allocation = facts["allocation"]
    begun = await run.step("begin", allocation=allocation)
    attempt = 1
    while begun["next"] == Next.ON:
        given = await run.step("give", allocation=allocation, attempt=attempt)
        if given["next"] != Next.ON:
            return
        await run.step("wait", task=given["task"])
        ended = await run.step(
            "conclude", allocation=allocation, task=given["task"], attempt=attempt
        )
        if ended["next"] == Next.UNDO:
            ended = await _undone(run, allocation, given["task"], attempt)
        if ended["next"] == Next.REMAINS:
            await _clear(run, allocation, attempt)
        if ended["next"] != Next.AGAIN:
            return
        await run.pause(ended["pause_s"])
        attempt += 1


async def _undone(run: Run, allocation: str, given: str, attempt: int) -> Facts:
    """What a failed attempt left is taken down and proved gone before the next one begins."""
    sent = await run.step("undo", allocation=allocation, attempt=attempt)
    if sent["next"] != Next.ON:
        return sent
    await run.step("wait", task=sent["task"])
    return await run.step(
        "undone", allocation=allocation, task=sent["task"], given=given, attempt=attempt
    )


async def release(run: Run, facts: Facts) -> None:
    """From `releasing` to `released` with a proof, or to `release_failed`."""
    allocation, round_ = facts["allocation"], facts["round"]
    attempt = 1
    while True:
        sent = await run.step("take_back", allocation=allocation, round_=round_, attempt=attempt)
        if sent["next"] != Next.ON:
            return
        await run.step("wait", task=sent["task"])
        ended = await run.step(
            "conclude_release",
            allocation=allocation,
            task=sent["task"],
            round_=round_,
            attempt=attempt,
        )
        if ended["next"] != Next.AGAIN:
            return
        await run.pause(ended["pause_s"])
        attempt += 1


async def remains(run: Run, facts: Facts) -> None:
    """A machine that nobody is to have is taken down: its allocation failed before it came."""
    await _clear(run, facts["allocation"], facts["given"])


async def _clear(run: Run, allocation: str, given: int) -> None:
    attempt = 1
    while True:
        sent = await run.step("clear", allocation=allocation, given=given, attempt=attempt)
        if sent["next"] != Next.ON:
            return
        await run.step("wait", task=sent["task"])
        ended = await run.step("cleared", allocation=allocation, task=sent["task"], attempt=attempt)
        if ended["next"] != Next.AGAIN:
            return
        await run.pause(ended["pause_s"])
        attempt += 1


PLANS: Final[Plans] = {PROVISION: provision, RELEASE: release, REMAINS: remains}

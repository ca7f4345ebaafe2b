"""The steps, done: each can be taken again by whoever finds that it is due."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mainstay.bridge import rows, taking
from mainstay.bridge.blob import Blob, token_for
from mainstay.bridge.rows import NoMachineNamed, Told
from mainstay.bridge.steps import Life, Name
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.frames import BootstrapAsked
from mainstay.model.ids import is_id
from mainstay.tenancy import enrolment, wanted_rows
from mainstay.tenancy.database.connect import Pool, Row, transaction
from mainstay.tenancy.ids import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the steps are given from outside."""

    cluster: str
    pool: Pool
    ids: Ids
    key: bytes
    """What tokens are made with."""

    agents_url: str
    authority: str
    join_s: float
    cleanup_s: float
    """So much of a grace is left for clean-up; the rest is notice."""

    def blob(self, node: str) -> Blob:
        """What makes this life's machine join; always the same."""
        token = token_for(self.key, self.cluster, node)
        return Blob(node=node, token=token, url=self.agents_url, authority=self.authority)


Do = Callable[[Tools, Row, Told], Awaitable[None]]
"""One step of one life, with the reason for it."""

Ask = Callable[[Tools, BootstrapAsked], Awaitable[Row]]


class NotOverYet(Unavailable):
    """What was held on the machine before could not be ended yet."""

    code = "life_not_over"
    what_to_do = "ask again"


async def ask(tools: Tools, asked: BootstrapAsked) -> Row:
    """The life that a bootstrap is for: the one that is about to begin, or the next.

    A machine is asked for when it is Idle. So a life in which its agent has enrolled is over,
    whatever else we heard; of one in which nobody has, this is a repetition.
    """
    if not is_id(asked.machine):
        raise NoMachineNamed("the shard does not say which machine is to join")
    await _end_earlier(tools, asked.machine)
    async with transaction(tools.pool) as tx:
        await rows.lock_machine(tx, tools.cluster, asked.machine)
        kind = rows.kind_for(await wanted_rows.kinds(tx), asked.requirements)
        there = await rows.lives(tx, tools.cluster, asked.machine)
        if any(not _is_about_to_begin(life) for life in there):
            raise NotOverYet(f"machine {asked.machine} is still {there[0]['node_id']}")
        life = there[0] if there else await rows.begin(tx, tools.cluster, asked.machine, kind)
        await tx.execute(
            "update bridge_nodes set asked_at = clock_timestamp() where node_id = %s",
            [life["node_id"]],
        )
        token = tools.blob(life["node_id"]).token
        await enrolment.invite(tx, life["node_id"], valid_s=tools.join_s, token=token)
    return life


def _is_about_to_begin(life: Row) -> bool:
    return life["state"] == Life.JOINING and not life["enrolled"]


async def _end_earlier(tools: Tools, machine: str) -> None:
    async with transaction(tools.pool) as tx:
        there = await rows.lives(tx, tools.cluster, machine)
    for life in there:
        if _is_about_to_begin(life):
            continue
        await close(tools, life, Told("the machine was given to us anew"))
        await _gone(tools, life)
        for name in (Name.WARN, Name.BURY, Name.RETIRE):
            await DOES[name](tools, life, NOTHING_TOLD)


async def open_(tools: Tools, life: Row, _: Told) -> None:
    """Its slots can be had."""
    async with transaction(tools.pool) as tx:
        await rows.open_slots(tx, life["node_id"])


async def close(tools: Tools, life: Row, told: Told) -> None:
    """Nothing new goes there."""
    async with transaction(tools.pool) as tx:
        await rows.close(tx, life, told)


async def warn(tools: Tools, life: Row, _: Told) -> None:
    """Every tenant there knows."""
    await _each(tools, life, taking.warn)


async def release(tools: Tools, life: Row, _: Told) -> None:
    """Everything there is on its way out."""
    await _each(tools, life, taking.release)


async def bury(tools: Tools, life: Row, _: Told) -> None:
    """Nothing is held there any more, on the word of its provider."""
    await _gone(tools, life)
    await _each(tools, life, taking.bury)


async def retire(tools: Tools, life: Row, _: Told) -> None:
    """This life is over."""
    async with transaction(tools.pool) as tx:
        await rows.retire(tx, life["node_id"])


async def _each(
    tools: Tools, life: Row, act: Callable[[Pool, Ids, Row, str], Awaitable[bool]]
) -> None:
    """Of those who hold something there: one that is refused keeps no other from it."""
    refusal: Rejected | None = None
    for allocation in await taking.holders(tools.pool, life["node_id"]):
        try:
            await act(tools.pool, tools.ids, life, allocation)
        except Rejected as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal


async def _gone(tools: Tools, life: Row) -> None:
    async with transaction(tools.pool) as tx:
        await rows.note_gone(tx, life["node_id"])


NOTHING_TOLD: Final = Told("")

DOES: Final[Mapping[Name, Do]] = {
    Name.OPEN: open_,
    Name.CLOSE: close,
    Name.GIVE_UP: close,
    Name.WARN: warn,
    Name.RELEASE: release,
    Name.BURY: bury,
    Name.RETIRE: retire,
}
"""Every step of the table but the first, which answers a question."""


@dataclass(frozen=True, slots=True)
class Acts:
    """What is done for each step of the table."""

    ask: Ask = ask
    does: Mapping[Name, Do] = field(default_factory=lambda: DOES)

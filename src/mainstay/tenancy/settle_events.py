"""What a consumer's commit means for the row of an event, and for the next one of its key.

Rows of a key are locked in the order of their positions, by everybody: so nobody waits in a circle.
"""

from collections.abc import Iterable

from mainstay.tenancy.database.connect import Connection, tell
from mainstay.tenancy.outbox import CHANNEL
from mainstay.tenancy.states import EventType


async def settle(tx: Connection, event_id: str, subscribers: Iterable[str]) -> None:
    """End the row if nobody is left who will still consume it: done, or failed if one gave up.

    The lock comes before the count: of two consumers that commit at once, the second sees the
    first. It does not shut out their notes in `consumed`, which only refer to the row.
    """
    await tx.execute("select from outbox where id = %s for no key update", [event_id])
    await tx.execute(
        """
        with told as (
            select count(*) filter (where failure.gave_up_at is null) as waiting,
                   count(*) as missing,
                   string_agg(name || ': ' || failure.last_error, '; ' order by name) as error
            from unnest(%(subscribers)s::text[]) as subscriber (name)
            left join consumer_failures failure
                on failure.consumer = name and failure.event_id = %(id)s
            where not exists (
                select from consumed where consumer = name and event_id = %(id)s)
        )
        update outbox
        set status = case when told.missing = 0 then 'done' else 'failed' end,
            ended_at = case when told.missing = 0 then clock_timestamp() end,
            last_error = told.error
        from told
        where id = %(id)s and told.waiting = 0 and status in ('pending', 'published', 'failed')
        """,
        {"id": event_id, "subscribers": sorted(subscribers)},
    )


async def wake_next(
    tx: Connection, event_id: str, consumer: str, subjects: Iterable[EventType]
) -> None:
    """Ring for the next event of the key: it may have come to this consumer before its turn."""
    woken = await tx.execute(
        """
        with following as (
            select later.id
            from outbox event
            join outbox later on later.key = event.key and later.position > event.position
            where event.id = %(id)s and later.status in ('pending', 'published')
              and later.event_type = any(%(subjects)s)
              and not exists (
                  select from consumed where consumer = %(consumer)s and event_id = later.id)
            order by later.position
            limit 1
        ), due as (
            update outbox set not_before = clock_timestamp()
            from following where outbox.id = following.id
        )
        select from following
        """,
        {"id": event_id, "consumer": consumer, "subjects": [*map(str, subjects)]},
    )
    if woken.rowcount > 0:
        ring(tx)


def ring(tx: Connection) -> None:
    """Tell the relays after the commit that there may be work."""
    tell(tx, CHANNEL)

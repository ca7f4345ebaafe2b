"""Money runs out: told once, everything given back, nothing restarts. Scenario 24 and its parts."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import pytest

import tenants
from billed import account, charged, clock, differences, lived, told_to
from event_stage import until
from mainstay.tenancy import consume, relay
from mainstay.tenancy.billing import episodes
from mainstay.tenancy.billing.account import Correction, Credit, correct, credit
from mainstay.tenancy.billing.consumers import Billing
from mainstay.tenancy.billing.force import Releaser
from mainstay.tenancy.billing.options import BillingOptions
from mainstay.tenancy.billing.tick import bill
from mainstay.tenancy.bus import Envelope, envelope_of
from mainstay.tenancy.bus_postgres import PostgresBus
from mainstay.tenancy.consume import ConsumeOptions, check
from mainstay.tenancy.database.connect import Pool, transaction
from mainstay.tenancy.relay import RelayOptions
from mainstay.tenancy.release import release
from mainstay.tenancy.request import InsufficientBalance, request
from mainstay.tenancy.states import Actor
from mainstay.tenancy.subscribers import BILLING, RELEASER, SUBSCRIBERS
from postgres import database_url, server
from tenants import NEW, faults, node, order, rows, run, slots, told, value

__all__ = ["database_url", "server"]

LOW: Final = "billing.low_balance_warning"
PENDING: Final = "billing.auto_release_pending"
DEPLETED: Final = "billing.balance_depleted"
FORCE: Final = "provisioning.force_release_requested"

ONLY_US: Final = {kind: names & {BILLING, RELEASER} for kind, names in SUBSCRIBERS.items()}
SHORT_SIGHT: Final = BillingOptions(pending_s=0)
"""Nothing is announced by its end."""


async def held(pool: Pool, payer: str, gpus: int = 1) -> str:
    """A real allocation of that payer, active."""
    return str((await tenants.active(pool, gpus, project=f"prj_{payer}"))["id"])


async def back(pool: Pool, seconds: float) -> None:
    """Let what is active and not charged yet be active for so much longer."""
    await rows(
        pool,
        """update allocations set created_at = created_at - make_interval(secs => %(s)s),
                  provisioning_started_at = provisioning_started_at - make_interval(secs => %(s)s),
                  active_at = active_at - make_interval(secs => %(s)s)
           where status = 'active' returning 1""",
        {"s": seconds},
    )


async def top_up(pool: Pool, payer: str, amount: int, key: str = "pay_1") -> None:
    async with transaction(pool) as tx:
        money = Credit(account=payer, amount_minor=amount, key=key, correlation_id="cor")
        await credit(tx, NEW, money, SHORT_SIGHT)


async def look(pool: Pool, payer: str, options: BillingOptions = SHORT_SIGHT) -> None:
    async with transaction(pool) as tx:
        await episodes.look(tx, NEW, payer, options)


async def spend(pool: Pool, payer: str, amount: int) -> None:
    """Use up so much, by an allocation that has come and gone."""
    await lived(pool, ago_s=7200, for_s=3600, price=amount, payer=payer)
    await bill(pool, NEW, SHORT_SIGHT)


async def take_away(pool: Pool, payer: str) -> None:
    """The money of the account was booked by mistake."""
    [funds] = await rows(pool, "select * from ledger where account_id = %s", [payer])
    wrong = Correction(
        entry=funds["id"], amount_minor=-funds["amount_minor"], key=payer, reason="mistake"
    )
    async with transaction(pool) as tx:
        await correct(tx, NEW, wrong, SHORT_SIGHT)


async def statuses(pool: Pool) -> list[str]:
    found = await rows(pool, "select status from allocations order by id")
    return [row["status"] for row in found]


async def last(pool: Pool, event_type: str) -> Envelope:
    found = await rows(
        pool, "select * from outbox where event_type = %s order by position desc", [event_type]
    )
    return envelope_of(found[0])


def test_scenario_24_depletion_ends_everything_and_a_top_up_restarts_nothing(
    database_url: str,
) -> None:
    """Balance for 3 minutes, two active allocations, a real relay and bus."""

    async def scenario(pool: Pool) -> None:
        await node(pool)
        payer = await account(pool, 45, low=30)
        pair = [await held(pool, payer), await held(pool, payer)]
        await back(pool, 240)
        began = await value(pool, "select max(active_at) from allocations")
        consumers: list[consume.Consumer] = [Billing(NEW), Releaser(NEW)]
        services = (
            relay.run(pool, PostgresBus(pool), RelayOptions(subscribers=ONLY_US, poll_s=0.05)),
            consume.run(pool, PostgresBus(pool), consumers, ConsumeOptions(subscribers=ONLY_US)),
        )
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(service) for service in services]
            for minute in range(1, 5):
                async with asyncio.TaskGroup() as billers:
                    for _ in range(2):
                        billers.create_task(_billed(pool, began + timedelta(minutes=minute)))
                        billers.create_task(look(pool, payer, BillingOptions()))
            await until(partial(_none_is_active, pool))
            for task in started:
                task.cancel()
        for allocation in pair:
            assert (await told(pool, allocation))[-1] == "provisioning.releasing.requested"
            await tenants.prove(pool, allocation)
        await bill(pool, NEW)

        assert sorted(await told_to(pool, payer)) == sorted([LOW, PENDING, DEPLETED, FORCE])
        assert await statuses(pool) == ["released", "released"]
        initiators = await rows(pool, "select distinct release_initiator as by from allocations")
        assert initiators == [{"by": "billing"}]
        with pytest.raises(InsufficientBalance):
            await request(pool, NEW, order(project=f"prj_{payer}"))

        await top_up(pool, payer, 10_000)
        before = await value(pool, "select max(position) from outbox")
        await bill(pool, NEW)

        assert await statuses(pool) == ["released", "released"]
        assert await value(pool, "select max(position) from outbox") == before
        assert (await request(pool, NEW, order(project=f"prj_{payer}")))["status"] == "requested"
        assert await differences(pool) == []
        assert await faults(pool) == {}

    run(database_url, scenario, connections=24)


async def _billed(pool: Pool, at: datetime) -> None:
    await bill(pool, NEW, at=at)


async def _none_is_active(pool: Pool) -> bool:
    return "active" not in await statuses(pool)


class TestEpisodes:
    def test_a_low_balance_is_told_once_however_often_it_is_looked_at(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 100, low=50)
            await spend(pool, payer, 50)
            assert await told_to(pool, payer) == [LOW]  # by the last charge itself
            await spend(pool, payer, 10)
            for _ in range(3):
                await bill(pool, NEW, SHORT_SIGHT)
                await look(pool, payer)

            assert await told_to(pool, payer) == [LOW]

        run(database_url, scenario)

    def test_of_many_who_look_at_once_one_tells(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, -0, low=50)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(12):
                    tasks.create_task(look(pool, payer))

            assert await told_to(pool, payer) == [LOW, DEPLETED, FORCE]

        run(database_url, scenario)

    def test_after_a_top_up_the_next_low_balance_is_a_new_episode(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 100, low=50)
            await spend(pool, payer, 60)
            await top_up(pool, payer, 100)
            await spend(pool, payer, 95)

            assert await told_to(pool, payer) == [LOW, LOW]
            ended = await rows(
                pool, "select ended_at is not null as over from low_balance_episodes order by 1"
            )
            assert [row["over"] for row in ended] == [False, True]

        run(database_url, scenario)

    def test_a_top_up_below_the_threshold_does_not_hide_the_next_depletion(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 100, low=50)
            await spend(pool, payer, 110)
            await top_up(pool, payer, 30)
            await spend(pool, payer, 20)

            assert await told_to(pool, payer) == [LOW, DEPLETED, FORCE, LOW, DEPLETED, FORCE]

        run(database_url, scenario)

    def test_a_depletion_that_is_near_is_announced_with_its_time(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, 900)
            await lived(pool, ago_s=3600, price=450, payer=payer)
            await bill(pool, NEW, BillingOptions(pending_s=3599))
            assert await told_to(pool, payer) == []

            await bill(pool, NEW, BillingOptions(pending_s=3600))
            await bill(pool, NEW, BillingOptions(pending_s=3600))

            assert await told_to(pool, payer) == [PENDING]
            event = await last(pool, PENDING)
            assert event.payload["balance_minor"] == 450
            gone = event.occurred_at.fromisoformat(event.payload["projected_depletion_at"])
            assert abs(gone - await clock(pool) - timedelta(hours=1)) < timedelta(seconds=30)

        run(database_url, scenario)

    def test_what_is_told_is_written_with_the_episode_or_not_at_all(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            payer = await account(pool, low=50)

            async def undone() -> None:
                async with transaction(pool) as tx:
                    await episodes.look(tx, NEW, payer, SHORT_SIGHT)
                    raise RuntimeError("dies before the commit")

            with pytest.raises(RuntimeError):
                await undone()

            assert await told_to(pool, payer) == []
            assert await rows(pool, "select from low_balance_episodes") == []

        run(database_url, scenario)

    def test_nobody_begins_anything_while_a_depletion_is_being_decided(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer = await account(pool, 100)
            async with transaction(pool) as tx:
                await episodes.hold(tx, payer)
                asked = asyncio.ensure_future(request(pool, NEW, order(project=f"prj_{payer}")))
                await asyncio.sleep(0.2)
                assert not asked.done()
                await tx.execute(
                    """insert into ledger (account_id, amount_minor, currency, kind, corrects_id,
                                           dedupe_key)
                       select account_id, -100, 'USD', 'correction', id, 'gone' from ledger
                       where account_id = %s""",
                    [payer],
                )
            with pytest.raises(InsufficientBalance):
                await asked

        run(database_url, scenario)


class TestForcedRelease:
    def test_active_is_released_and_what_is_not_active_yet_is_cancelled(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer, other = await account(pool, 100), await account(pool, 100)
            mine = await held(pool, payer)
            waiting = str((await request(pool, NEW, order(project=f"prj_{payer}")))["id"])
            at_work = str((await request(pool, NEW, order(project=f"prj_{payer}")))["id"])
            await tenants.begin(pool, at_work)
            given_back = await held(pool, payer)
            await release(
                pool, NEW, given_back, actor=Actor.TENANT, by="usr", project=f"prj_{payer}"
            )
            others = await held(pool, other)
            await take_away(pool, payer)

            consumer = Releaser(NEW)
            check(consumer, SUBSCRIBERS)
            event = await last(pool, FORCE)
            assert event.payload["allocation_ids"] == sorted([mine, waiting, at_work])
            for _ in range(2):
                async with transaction(pool) as tx:
                    await consumer.handle(tx, event)

            found = {
                row["id"]: (row["status"], row["release_initiator"], row["cancel_requested_by"])
                for row in await rows(pool, "select * from allocations where node_id = 'node-a'")
            }
            assert found == {
                mine: ("releasing", "billing", None),
                waiting: ("requested", None, "billing"),
                at_work: ("provisioning", None, "billing"),
                given_back: ("releasing", "tenant", None),
                others: ("active", None, None),
            }
            assert (await tenants.activate(pool, at_work))["status"] == "releasing"
            assert (await tenants.begin(pool, waiting))["status"] == "failed"
            assert (await told(pool, mine)).count("provisioning.releasing.requested") == 1
            audited = await rows(
                pool, "select target_id, actor_role from audit where actor = 'billing' order by id"
            )
            assert [row["target_id"] for row in audited] == sorted([mine, waiting, at_work])
            assert await faults(pool) == {}

        run(database_url, scenario)

    def test_money_that_came_meanwhile_stops_it(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer = await account(pool, 100)
            mine = await held(pool, payer)
            await take_away(pool, payer)
            await top_up(pool, payer, 1000)

            async with transaction(pool) as tx:
                await Releaser(NEW).handle(tx, await last(pool, FORCE))

            assert await value(pool, "select status from allocations where id = %s", [mine]) == (
                "active"
            )

        run(database_url, scenario)

    def test_one_that_cannot_be_moved_does_not_keep_the_others_and_is_tried_again(
        self, database_url: str
    ) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer = await account(pool, 100)
            good, spoilt = await held(pool, payer), await held(pool, payer)
            by_hand = (
                "update slots set status = %s where status = 'in_use' and id = ({}) returning 1"
            )
            slot = "select slot_id from claims where allocation_id = %s"
            await rows(pool, by_hand.format(slot), ["disabled", spoilt])
            await take_away(pool, payer)

            async with transaction(pool) as tx:
                await Releaser(NEW).handle(tx, await last(pool, FORCE))

            state = "select status from allocations where id = %s"
            assert await value(pool, state, [good]) == "releasing"
            assert await value(pool, state, [spoilt]) == "active"

            soon = BillingOptions(overdue_s=0.0)
            assert (await bill(pool, NEW, soon)).failed == [spoilt]
            await rows(
                pool, "update slots set status = 'in_use' where status = 'disabled' returning 1"
            )
            assert (await bill(pool, NEW, soon)).failed == []

            assert await value(pool, state, [spoilt]) == "releasing"
            assert await slots(pool, "releasing") == [0, 1]

        run(database_url, scenario)

    def test_the_biller_releases_what_nobody_else_has_released(self, database_url: str) -> None:
        """The bus is away: the payer is out of money all the same."""

        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer = await account(pool, 100)
            mine = await held(pool, payer)
            await take_away(pool, payer)
            state = "select status from allocations where id = %s"

            await bill(pool, NEW, BillingOptions(overdue_s=600.0))
            assert await value(pool, state, [mine]) == "active"
            await bill(pool, NEW, BillingOptions(overdue_s=0.0))

            assert await value(pool, state, [mine]) == "releasing"
            await bill(pool, NEW, BillingOptions(overdue_s=0.0))
            assert (await told(pool, mine)).count("provisioning.releasing.requested") == 1

        run(database_url, scenario)

    def test_payment_ends_when_the_release_is_accepted(self, database_url: str) -> None:
        async def scenario(pool: Pool) -> None:
            await node(pool)
            payer = await account(pool, 100)
            mine = await held(pool, payer)
            await back(pool, 3600)
            await bill(pool, NEW)
            async with transaction(pool) as tx:
                await Releaser(NEW).handle(tx, await last(pool, FORCE))
            await bill(pool, NEW)
            paid = await charged(pool, mine)
            await tenants.fail_release(pool, mine)
            await bill(pool, NEW)

            assert 450 <= paid <= 453
            assert await charged(pool, mine) == paid
            assert await differences(pool) == []

        run(database_url, scenario)

"""How a node becomes one of ours, on a real PostgreSQL: tokens, certificates, signing keys."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agents import DONE, NodeSide, application, shown
from mainstay.model.errors import MainstayError
from mainstay.tenancy import enrolment, signing, tasks
from mainstay.tenancy.authority import BadCertificate
from mainstay.tenancy.database.connect import Connection, Pool, transaction
from mainstay.tenancy.enrolment import Application, EnrolmentRefused, NodeNotFound, NotThisNode
from mainstay.tenancy.signing import Signer, SignerConflict
from postgres import database_url, server
from tenants import NEW, node, rows, run, value

__all__ = ["database_url", "server"]

Scenario = Callable[[NodeSide], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(database_url: str, tmp_path: Path) -> Play:
    """Run a scenario in a world with a node that has never been seen."""

    def played(scenario: Scenario) -> None:
        async def inside(pool: Pool) -> None:
            await node(pool, status="bootstrap_issued")
            await node(pool, "node-b", status="bootstrap_issued")
            await scenario(await NodeSide(pool, tmp_path).open())

        run(database_url, inside)

    return played


async def refused(error: type[MainstayError], call: Awaitable[object]) -> None:
    with pytest.raises(error):
        await call


async def status(side: NodeSide, name: str = "node-a") -> str:
    return str(await value(side.pool, "select status from nodes where id = %s", [name]))


async def enrol(side: NodeSide, token: str, name: str = "node-a") -> enrolment.Credentials:
    return await enrolment.enrol(side.pool, side.authority, token, application(name))


class TestTokens:
    def test_a_token_opens_one_enrolment_and_no_second(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            token = await side.token()
            given = await enrol(side, token)

            await refused(EnrolmentRefused, enrol(side, token))

            found = await value(side.pool, "select cert_fingerprint from nodes where id = 'node-a'")
            assert found == shown(given.certificate)
            assert given.authority == side.authority.pem

        play(scenario)

    def test_of_ten_that_spend_a_token_at_once_one_is_enrolled(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            token = await side.token()

            async def tried() -> str:
                try:
                    return shown((await enrol(side, token)).certificate)
                except EnrolmentRefused:
                    return ""

            async with asyncio.TaskGroup() as group:
                answers = [group.create_task(tried()) for _ in range(10)]

            (winner,) = {answer.result() for answer in answers} - {""}
            assert (
                await value(side.pool, "select cert_fingerprint from nodes where id = 'node-a'")
                == winner
            )

        play(scenario)

    def test_a_wrong_old_foreign_or_replaced_token_is_refused_alike(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            replaced = await side.token()
            foreign = await side.token("node-b")
            await side.token()
            for token in ("", "enr_guessed", replaced, foreign):
                await refused(EnrolmentRefused, enrol(side, token))
            await refused(EnrolmentRefused, enrol(side, await side.token(valid_s=0)))

            assert await value(side.pool, "select count(cert_fingerprint) from nodes") == 0

        play(scenario)

    def test_only_the_hash_of_a_token_is_kept(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            token = await side.token()

            (kept,) = await rows(side.pool, "select * from nodes where id = 'node-a'")

            assert len(kept["enrol_token_hash"]) == 32
            assert token not in str(kept)

        play(scenario)

    def test_a_bad_request_for_a_certificate_leaves_the_token_good(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            token = await side.token()
            bad = Application(node="node-a", csr=b"no")

            await refused(BadCertificate, enrolment.enrol(side.pool, side.authority, token, bad))

            await enrol(side, token)

        play(scenario)

    def test_there_is_no_token_for_a_node_that_is_not_there_or_retired(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            await rows(side.pool, "update nodes set status = 'retired' returning id")

            for name in ("node-a", "node-z"):
                await refused(NodeNotFound, side.token(name))

        play(scenario)

    def test_a_node_is_open_when_its_agent_first_asks_for_work(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            before = await status(side)
            mine = await side.certificate()
            enrolled = await status(side)
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            assert (before, enrolled, await status(side)) == (
                "bootstrap_issued", "enrolling", "active",
            )  # fmt: skip

        play(scenario)

    @pytest.mark.parametrize("kept", ["quarantined", "draining"])
    def test_enrolling_again_opens_no_node_that_was_closed(self, play: Play, kept: str) -> None:
        async def scenario(side: NodeSide) -> None:
            await rows(side.pool, "update nodes set status = %s returning id", [kept])
            mine = await side.certificate()
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)

            assert await status(side) == kept

        play(scenario)


async def renewed(side: NodeSide, fingerprint: str) -> str:
    given = await enrolment.renew(side.pool, side.authority, fingerprint, application())
    return shown(given.certificate)


class TestRenewal:
    def test_the_old_certificate_holds_until_the_new_one_is_used_and_then_no_more(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            old = await side.certificate()
            new = await renewed(side, old)
            await tasks.claim(side.pool, "node-a", old, wait_s=0)

            await tasks.claim(side.pool, "node-a", new, wait_s=0)

            await refused(NotThisNode, tasks.claim(side.pool, "node-a", old, wait_s=0))
            await refused(NotThisNode, renewed(side, old))

        play(scenario)

    def test_an_answer_lost_on_its_way_locks_nobody_out(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            old = await side.certificate()
            lost = await renewed(side, old)
            new = await renewed(side, old)

            await tasks.claim(side.pool, "node-a", new, wait_s=0)

            await refused(NotThisNode, tasks.claim(side.pool, "node-a", lost, wait_s=0))

        play(scenario)

    def test_another_nodes_certificate_renews_nothing(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            await side.certificate()
            theirs = await side.certificate("node-b")

            await refused(NotThisNode, renewed(side, theirs))

            assert await value(side.pool, "select count(cert_pending_fingerprint) from nodes") == 0

        play(scenario)

    def test_what_the_old_certificate_claimed_the_new_one_ends_and_says_again(
        self, play: Play
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            old = await side.certificate()
            first, second = await side.queue(), await side.queue(attempt=2)
            await tasks.claim(side.pool, "node-a", old, wait_s=0)
            await tasks.claim(side.pool, "node-a", old, wait_s=0)
            await tasks.finish(side.pool, "node-a", old, first, DONE)
            new = await renewed(side, old)

            held = await tasks.in_hand(side.pool, "node-a", new)
            for task in (first, second):
                row = await tasks.finish(side.pool, "node-a", new, task, DONE)
                assert row["status"] == "completed"

            assert [row["id"] for row in held] == [second]

        play(scenario)

    def test_a_new_enrolment_voids_every_certificate_before_it(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            old = await side.certificate()
            pending = await renewed(side, old)
            await side.certificate()

            for gone in (old, pending):
                await refused(NotThisNode, tasks.claim(side.pool, "node-a", gone, wait_s=0))

        play(scenario)

    def test_two_first_uses_at_once_are_one_takeover(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            new = await renewed(side, await side.certificate())

            async with asyncio.TaskGroup() as group:
                for _ in range(10):
                    group.create_task(tasks.claim(side.pool, "node-a", new, wait_s=0))

            found = await rows(side.pool, "select * from nodes where id = 'node-a'")
            assert found[0]["cert_fingerprint"] == new
            assert found[0]["cert_previous_fingerprint"] not in {None, new}

        play(scenario)


async def states(tx: Connection) -> list[str]:
    return [row["state"] for row in await signing.listed(tx)]


class TestRotation:
    def test_a_key_goes_from_staged_by_active_and_grace_to_retired(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async with transaction(side.pool) as tx:
                await signing.stage(tx, NEW, side.signer)
                seen = [await states(tx)]
                for _ in range(3):
                    await signing.rotate(tx, NEW, side.signer, staged_for_s=0)
                    seen.append(await states(tx))

            assert seen == [
                ["active", "staged"],
                ["grace", "active", "staged"],
                ["retired", "grace", "active", "staged"],
                ["retired", "retired", "grace", "active", "staged"],
            ]

        play(scenario)

    def test_agents_believe_staged_active_and_grace_keys_only(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async with transaction(side.pool) as tx:
                await signing.stage(tx, NEW, side.signer)
                for _ in range(2):
                    await signing.rotate(tx, NEW, side.signer, staged_for_s=0)
                known = [row["id"] for row in await signing.listed(tx)]
                believed = await signing.believed(tx)
                await signing.revoke(tx, known[2])
                left = await signing.believed(tx)

            assert list(believed) == known[1:]
            assert list(left) == [known[1], known[3]]

        play(scenario)

    def test_a_key_does_not_sign_before_agents_had_time_to_hear_of_it(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async def too_early() -> None:
                async with transaction(side.pool) as tx:
                    await signing.rotate(tx, NEW, side.signer, staged_for_s=3600)

            async with transaction(side.pool) as tx:
                await signing.stage(tx, NEW, side.signer)

            await refused(SignerConflict, too_early())

            async with transaction(side.pool) as tx:
                assert await states(tx) == ["active", "staged"]

        play(scenario)

    def test_a_key_in_grace_is_believed_while_a_task_it_signed_is_open(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            task = await side.queue()

            async def turned() -> None:
                async with transaction(side.pool) as tx:
                    await signing.rotate(tx, NEW, side.signer, staged_for_s=0)

            async with transaction(side.pool) as tx:
                await signing.stage(tx, NEW, side.signer)
            await turned()
            await refused(SignerConflict, turned())
            await tasks.claim(side.pool, "node-a", mine, wait_s=0)
            await tasks.finish(side.pool, "node-a", mine, task, DONE)
            await turned()

        play(scenario)

    def test_without_a_staged_key_there_is_no_turn(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            async def turned() -> None:
                async with transaction(side.pool) as tx:
                    await signing.rotate(tx, NEW, side.signer, staged_for_s=0)

            await refused(SignerConflict, turned())

        play(scenario)

    def test_every_process_signs_with_the_key_the_database_says(
        self, play: Play, tmp_path: Path
    ) -> None:
        async def scenario(side: NodeSide) -> None:
            other = Signer(tmp_path / "signing")
            first = await side.queue()
            async with transaction(side.pool) as tx:
                staged = await signing.stage(tx, NEW, other)
                await signing.activate(tx, staged, staged_for_s=0)
            second = await side.queue(attempt=2)

            found = await rows(side.pool, "select id, signer_version_id from node_tasks")
            by = {row["id"]: row["signer_version_id"] for row in found}
            assert by[second] == staged
            assert by[first] != staged

        play(scenario)

    def test_many_first_starts_make_one_key(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            await rows(side.pool, "delete from signer_versions returning id")
            async with asyncio.TaskGroup() as group:
                for _ in range(5):
                    group.create_task(side.open())

            assert await value(side.pool, "select count(*) from signer_versions") == 1

        play(scenario)

    def test_a_renewal_brings_the_keys_of_today(self, play: Play) -> None:
        async def scenario(side: NodeSide) -> None:
            mine = await side.certificate()
            async with transaction(side.pool) as tx:
                staged = await signing.stage(tx, NEW, side.signer)

            given = await enrolment.renew(side.pool, side.authority, mine, application())

            assert staged in given.keys

        play(scenario)

"""`mainstay shard` as people run it: real processes, real kills. The rows of the failure table that
concern one shard (docs/explanation/static-stability.md) are tests here and in
`test_shard_in_flight.py`.
"""

import asyncio
from pathlib import Path

from running import Home, Process, at_home
from shard_processes import (
    connected,
    cycles,
    executed,
    health,
    needs,
    provider,
    serving,
    shard,
    so_many,
    until,
)


def test_a_shard_that_is_killed_comes_back_with_every_assignment(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        first = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(first) as web:
            web.set_needs(needs(5))
            before = await so_many(first, 5)
            first.kill()
            second = await asyncio.to_thread(shard, home, ("east", east))
            assert second.facts["epoch"] == first.facts["epoch"] + 1
            await until(lambda: second.page("/readyz")[0] == 200)
            await until(lambda: web.facts().sessions == 2)
            await asyncio.sleep(1.5)

            assert await serving(second) == before
            assert await executed(second) == 0

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_cluster_that_is_cut_off_keeps_its_machines_and_comes_back_with_its_demand(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process) as web:
            web.set_needs(needs(3))
            before = await so_many(process, 3)
        await asyncio.sleep(2)
        assert await serving(process) == before
        async with connected(process) as web:
            web.set_needs(needs(4))
            after = await so_many(process, 4)
        assert before < after

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_provider_that_is_killed_costs_nobody_anything_but_its_own_capacity(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        west = await asyncio.to_thread(provider, home, "west", "use1-az4")
        process = await asyncio.to_thread(shard, home, ("east", east), ("west", west))
        async with connected(process) as web:
            web.set_needs(needs(3))
            before = await so_many(process, 3)
            east.kill()
            await until(lambda: process.metric("mainstay_shard_providers_lost_total") >= 1)
            web.set_needs(needs(5))
            both = await so_many(process, 5)
            assert before < both
            assert await health(process) == {"east": "lost", "west": "answering"}

            await asyncio.to_thread(provider, home)
            await until(lambda: process.metric("mainstay_shard_providers_back_total") >= 1)
            assert await serving(process) == both

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_with_everything_down_machines_stay_and_everything_comes_back(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process) as web:
            web.set_needs(needs(4))
            before = await so_many(process, 4)
        process.kill()
        east.kill()
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        await until(lambda: process.page("/readyz")[0] == 200)
        assert await so_many(process, 4) == before
        async with connected(process) as web:
            web.set_needs(needs(5))
            after = await so_many(process, 5)
        assert before < after

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_a_paused_shard_calls_nobody_and_says_what_it_would_do(tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        stopped = home.run("pause", "--reason", "a test", "--for", "1h")
        assert stopped.returncode == 0, stopped.stderr
        async with connected(process) as web:
            web.set_needs(needs(2))
            told = {"disposition": "suppressed", "kind": "bootstrap"}
            await until(lambda: process.metric("mainstay_shard_actions_total", **told) >= 2)
            assert await serving(process) == set()

            process.kill()
            process = await asyncio.to_thread(shard, home, ("east", east))
            await until(lambda: process.metric("mainstay_shard_actions_total", **told) >= 2)
            assert await serving(process) == set()

            lifted = home.run("resume", "--reason", "the test is over")
            assert lifted.returncode == 0, lifted.stderr
            await so_many(process, 2)

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_two_processes_with_one_data_directory_are_refused(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        east = provider(home)
        shard(home, ("east", east))
        ended = home.run("shard", "--insecure", "--provider", f"east={east.grpc}",
                         "--listen", "127.0.0.1:0", "--http", "")  # fmt: skip

        assert ended.returncode != 0
        assert "in use by process" in ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1


def test_an_unreadable_epoch_refuses_to_start(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        folder = home.path / "shards" / "shard-0"
        folder.mkdir(parents=True)
        (folder / "epoch").write_text("seven\n")
        ended = home.run("shard", "--insecure", "--provider", "east=127.0.0.1:1",
                         "--listen", "127.0.0.1:0", "--http", "")  # fmt: skip

        assert ended.returncode == 1
        assert "epoch" in ended.stderr
        assert "seven" in ended.stderr
        assert (folder / "epoch").read_text() == "seven\n"


def test_a_shard_is_ready_without_any_provider_answering(tmp_path: Path) -> None:
    """Readiness is the first list of each provider, or its recorded failure."""
    with at_home(tmp_path) as home:
        east = provider(home)
        east.kill()
        process = shard(home, ("east", east))
        asyncio.run(until(lambda: process.page("/readyz")[0] == 200))


async def mutations(provider: Process, **labels: str) -> float:
    """How many mutating calls a provider has answered."""
    name, calls = "mainstay_provider_calls_total", ("create", "configure", "drain", "delete")

    def counted() -> float:
        return sum(provider.metric(name, call=each, **labels) for each in calls)

    return await asyncio.to_thread(counted)


def test_a_shard_whose_successor_acts_says_so_and_looks_and_calls_nobody_any_more(
    tmp_path: Path,
) -> None:
    """Two processes with one id, as when a data directory was copied to another machine."""

    async def scenario(home: Home, other: Home) -> None:
        folder = other.path / "shards" / "shard-0"
        folder.mkdir(parents=True)
        (folder / "epoch").write_text("6\n")
        east = await asyncio.to_thread(provider, home)
        old = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(old) as web:
            web.set_needs(needs(1))
            await so_many(old, 1)
            new = await asyncio.to_thread(shard, other, ("east", east))
            assert (old.facts["epoch"], new.facts["epoch"]) == (1, 7)
            async with connected(new) as other_web:
                other_web.set_needs(needs(3))
                await so_many(new, 3)
                done = await mutations(east, status="OK")
                assert done == 3

                web.set_needs(needs(6))
                await until(lambda: old.page("/readyz")[0] == 503)
                assert "epoch 7 of this shard acts, we are epoch 1" in old.page("/readyz")[1]
                assert new.page("/readyz")[0] == 200
                await cycles(old, 5)  # so that what was under way has been answered
                tried = await mutations(east)
                assert tried > done
                await cycles(old, 5)
                assert await mutations(east) == tried
                assert await mutations(east, status="OK") == done

                other_web.set_needs(needs(4))
                serves = await so_many(new, 4)
                assert await so_many(old, 4) == serves
                assert await mutations(east, status="OK") == done + 1
                assert old.page("/readyz")[0] == 503

    with at_home(tmp_path / "old") as home, at_home(tmp_path / "new") as other:
        asyncio.run(scenario(home, other))

"""What people see of a shard that does not act, by real processes: every verb says so, and why."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

from running import Home, Process, at_home
from shard_processes import connected, needs, provider, shard, so_many, until

SETTINGS: Final = {"actuation_paused": "pause", "dry_run": "shadow"}
ONLY_A_RESTART: Final = "only another configuration and a restart lift that"


def configured(home: Home, setting: str) -> str:
    path = home.path / "held.toml"
    path.write_text(f"[shard]\n{setting} = true\n")
    return str(path)


def said(home: Home, *words: str) -> str:
    ended = home.run(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(home: Home, *words: str) -> str:
    ended = home.run(*words)
    assert (ended.returncode, ended.stdout) == (1, "")
    return ended.stderr


def data(home: Home, *words: str) -> Any:
    return json.loads(said(home, *words, "-o", "json"))


def in_a_home(path: Path, scenario: Callable[[Home], Coroutine[Any, Any, None]]) -> None:
    with at_home(path) as home:
        asyncio.run(scenario(home))


def planned(home: Home) -> bool:
    return [each["machines"] for each in data(home, "get", "needs")] == [3]


async def begun(home: Home, **settings: str) -> Process:
    east = await asyncio.to_thread(provider, home)
    return await asyncio.to_thread(shard, home, ("east", east), **settings)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_shard_that_its_configuration_holds_back_says_so_by_every_verb(
    setting: str, tmp_path: Path
) -> None:
    kind = SETTINGS[setting]

    async def scenario(home: Home) -> None:
        process = await begun(home, config=configured(home, setting))
        async with connected(process) as web:
            web.set_needs(needs(3))
            await until(lambda: planned(home))
            await asyncio.to_thread(look, home)

    def look(home: Home) -> None:
        (control,) = data(home, "get", "controls")
        assert (control["kind"], control["by"], control["fixed"]) == (kind, "configuration", True)
        assert setting in control["reason"]
        assert " never " in said(home, "get", "controls")

        held = {"serving": 0, "coming": 0, "held_back": 3, "held_by": [kind]}
        (cluster,) = data(home, "get", "clusters")
        (need,) = data(home, "get", "needs")
        assert cluster["progress"] == need["progress"] == held
        assert f"3 ({kind})" in said(home, "get", "clusters")

        top = said(home, "top", "--once")
        assert f"{kind.upper()}" in top
        assert f"by its configuration ({setting} is set)" in top
        assert f"3 machines: 0 serving, 0 coming, 3 ({kind}) held back" in top

        told = said(home, "explain", "need", "web")
        assert "It misses nothing, and 0 of its 3 machines serve it yet." in told
        assert f"by its configuration ({setting}), and {ONLY_A_RESTART}" in told
        whole = said(home, "explain", "cluster", "web")
        assert "Cluster web has 1 need, 1 of which misses nothing." in whole
        assert f"0 serving, 0 coming, 3 held back ({kind})." in whole

        error = refused(home, "resume", "--reason", "go on")
        assert f"there is nothing to lift: {kind} by its configuration" in error
        assert ONLY_A_RESTART in error
        assert "lists what does" not in error

    in_a_home(tmp_path, scenario)


def test_a_control_for_a_cluster_that_nobody_knows_is_not_set_by_mistake(tmp_path: Path) -> None:
    """It is the kill switch: whoever mistypes a name must not believe that it is off."""

    async def scenario(home: Home) -> None:
        process = await begun(home)
        async with connected(process) as web:
            web.set_needs(needs(1))
            await so_many(process, 1)
            await asyncio.to_thread(try_it, home)

    def try_it(home: Home) -> None:
        words = ("pause", "--cluster", "wbe", "--reason", "stop it", "--for", "1h")
        error = refused(home, *words)
        assert "no cluster wbe is known here (known: web), and nothing is set" in error
        assert "--even-if-unknown" in error
        assert data(home, "get", "controls") == []

        assert "Set pause for cluster wbe" in said(home, *words, "--even-if-unknown")
        assert [each["cluster"] for each in data(home, "get", "controls")] == ["wbe"]

    in_a_home(tmp_path, scenario)


def test_whoever_resumes_a_cluster_is_told_that_the_whole_shard_is_held_back(
    tmp_path: Path,
) -> None:
    async def scenario(home: Home) -> None:
        process = await begun(home)
        async with connected(process) as web:
            web.set_needs(needs(1))
            await so_many(process, 1)
            await asyncio.to_thread(try_it, home)

    def try_it(home: Home) -> None:
        for more in ((), ("--cluster", "web")):
            said(home, "pause", "--reason", "network work", "--for", "1h", *more)
        lifted = home.run("resume", "--cluster", "web", "--reason", "done")
        assert lifted.stdout == "Lifted pause for cluster web of shard shard-0.\n"
        assert "Shard shard-0 is still held back: pause by" in lifted.stderr

        error = refused(home, "resume", "--cluster", "web", "--reason", "done")
        own = "nothing holds back cluster web alone"
        assert f"{own}, but the whole shard is held back: pause by" in error
        assert "`mainstay resume` without --cluster lifts that" in error

        assert said(home, "resume", "--reason", "done") == "Lifted pause of shard shard-0.\n"
        error = refused(home, "resume", "--reason", "done")
        assert "nothing holds the shard back: `mainstay get controls` lists what does" in error

    in_a_home(tmp_path, scenario)

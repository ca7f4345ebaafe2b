"""`mainstay shard` and the verbs that ask it: its settings, and what people see of a real one."""

import asyncio
import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

import outside
from mainstay.cli import exits, main
from mainstay.config.shard import ShardConfig
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from running import Home, at_home
from served_shard import instant, served, until
from shard_processes import connected, cycles, needs, provider, shard, so_many
from shard_processes import until as patiently

Captured = pytest.CaptureFixture[str]


FIELDS: Final = 4
"""Columns of the table that has all settings; others on the page have fewer."""


class TestSettings:
    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("[shard]\ncycle_intervall_s = 3.0\n", "shard.cycle_intervall_s"),
            ("[shards]\nworkers = 3\n", "unknown section"),
            ("[shard]\nworkers = 0\n", "shard.workers must be between 1 and 10000: 0"),
            ('[shard]\nworkers = "many"\n', "workers"),
            ("[shard\n", "not a TOML file"),
        ],
    )
    def test_a_file_with_a_key_that_is_not_known_or_a_value_that_cannot_be_starts_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
        text: str, complaint: str,
    ) -> None:  # fmt: skip
        monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path / "home"))
        path = tmp_path / "mine.toml"
        path.write_text(text)
        words = ["shard", "--config", str(path), "--insecure", "--provider", "sim=127.0.0.1:1"]

        assert main.dispatch(words) == exits.FAILED
        told = capsys.readouterr()
        assert complaint in told.err
        assert len(told.err.strip().splitlines()) == 1
        assert not (tmp_path / "home").exists()

    def test_a_shard_without_a_provider_is_refused_before_it_begins_a_life(
        self, tmp_path: Path
    ) -> None:
        ended = Home(tmp_path).run("shard", "--insecure", "--data-dir", "data")
        assert ended.returncode == exits.FAILED
        assert "no providers: give --provider NAME=HOST:PORT" in ended.stderr
        assert not (tmp_path / "data").exists()

    def test_every_field_has_its_words(self) -> None:
        """On a page that is made from the code, and another test sees when it is not."""
        page = (outside.ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
        rows = [line.split("|") for line in page.splitlines() if line.startswith("| `shard.")]
        words = {row[1].strip(): row[4].strip() for row in rows if len(row) > FIELDS}
        assert words.keys() == {
            f"`shard.{field.name}`" for field in dataclasses.fields(ShardConfig)
        }
        assert [name for name, meaning in words.items() if not meaning] == []


def asked(home: Home, *words: str) -> Any:
    """What a verb prints as data."""
    done: subprocess.CompletedProcess[str] = home.run(*words, "-o", "json")
    assert done.returncode == exits.DONE, done.stderr
    return json.loads(done.stdout)


def text(home: Home, *words: str) -> str:
    """What a verb tells people."""
    done: subprocess.CompletedProcess[str] = home.run(*words)
    assert done.returncode == exits.DONE, done.stderr
    return " ".join(done.stdout.split())


def test_every_verb_says_what_is_true_of_a_shard_process_whose_cluster_asks_for_too_much(
    tmp_path: Path,
) -> None:
    """Twelve machines there are, and fourteen are asked for; in the end ten."""
    demand = needs(14)[0].profile.fingerprint

    def is_told(home: Home, serving: set[str]) -> None:
        some = asked(home, "get", "machines", "--state", "Configured", "--limit", "0")
        assert {(row["id"], row["cluster"], row["need"]) for row in some} == {
            (name, "web", demand) for name in serving
        }
        (need,) = asked(home, "get", "needs", "--unmet")
        assert (need["cluster"], need["fingerprint"], need["machines"]) == ("web", demand, 12)
        assert (need["asked"], need["missing"]) == ({"cpu": "28"}, {"cpu": "4"})
        assert need["reason"] == "no supply"
        (cluster,) = asked(home, "get", "clusters")
        assert (cluster["cluster"], cluster["connected"], cluster["heard"]) == ("web", True, True)
        assert (cluster["unmet"], cluster["machines"]) == (1, {"Configured": 12})
        (short,) = asked(home, "get", "shortfalls")
        assert (short["fingerprint"], short["missing"]) == (demand, {"cpu": "4"})
        (east,) = asked(home, "get", "providers")
        assert (east["name"], east["health"], east["machines"]) == ("east", "answering", 12)
        done = asked(home, "get", "actions", "--limit", "0")
        assert {row["machine"] for row in done if row["kind"] == "bootstrap"} == serving

    def is_explained(home: Home, machine: str) -> None:
        why = text(home, "explain", "need", "web", demand[:8])
        assert "asks for cpu 28 at priority 100" in why
        assert "What counts for it: 12 configured." in why
        assert "It misses cpu 4 (no supply)" in why
        assert "The smallest change that admits it: ask for 12 of its 14 pieces." in why
        assert "Its machines: 12 Configured." in text(home, "explain", "cluster", "web")
        why = text(home, "explain", "machine", machine)
        assert f"Machine {machine} is Configured, of cluster web" in why
        assert f"The need web/{demand[:8]} claims it." in why
        lost = text(home, "whatif", "--lose-zone", "use1-az2")
        assert f"web/{demand[:8]}: missed cpu=4, would miss cpu=28" in lost
        shown = text(home, "top", "--once")
        assert "needs 1, 1 unmet" in shown
        assert "Configured 12 " in shown
        assert "provider east answering, 12 machines" in shown

    async def scenario(home: Home) -> None:
        east = await asyncio.to_thread(provider, home)
        process = await asyncio.to_thread(shard, home, ("east", east))
        async with connected(process) as web:
            web.set_needs(needs(14))
            serving = await so_many(process, 12)
            await cycles(process, 2)
            await asyncio.to_thread(is_told, home, serving)
            await asyncio.to_thread(is_explained, home, min(serving))

            stopped = await asyncio.to_thread(
                text, home, "pause", "--reason", "a look", "--for", "1h"
            )
            assert stopped.startswith("Set pause of shard shard-0")
            (control,) = await asyncio.to_thread(asked, home, "get", "controls")
            assert (control["kind"], control["reason"]) == ("pause", "a look")
            web.set_needs(needs(10))
            held = {"disposition": "suppressed", "kind": "reclaim"}
            await patiently(lambda: process.metric("mainstay_shard_actions_total", **held))
            assert await so_many(process, 12) == serving
            ended = await asyncio.to_thread(text, home, "resume", "--reason", "seen")
            assert ended == "Lifted pause of shard shard-0."
            assert await asyncio.to_thread(asked, home, "get", "controls") == []
            assert await so_many(process, 10) < serving

        assert await asyncio.to_thread(process.stop) == 0
        folder = home.path / "shards" / "shard-0" / "audit"
        written = sum(len(path.read_text().splitlines()) for path in folder.glob("*.jsonl"))
        whole = await asyncio.to_thread(text, home, "audit", "verify", str(folder))
        assert f"whole: {written} lines in 1 files, 1 to {written}" in whole
        assert written >= 12 + 2

    with at_home(tmp_path) as home:
        asyncio.run(scenario(home))


def test_shortfalls_and_a_shadow_of_a_real_shard_are_shown(tmp_path: Path) -> None:
    home = Home(tmp_path)
    need = Need(
        cluster=ClusterId("web"),
        profile=NeedProfile(priority=100),
        aggregate={"cpu": 6_000},
        min_unit={"cpu": 2_000},
    )

    async def scenario() -> None:
        async with served(tmp_path, instant(idle=2)) as shard, shard.cluster() as web:
            words = ("shadow", "--reason", "a look", "--for", "1h")
            done = await asyncio.to_thread(home.run, *words)
            assert done.stdout.startswith("Set shadow of shard shard-0 for "), done.stderr
            web.set_needs([need])

            async def shadowed() -> bool:
                told = {"disposition": "shadowed", "kind": "bootstrap"}
                return await shard.metric("mainstay_shard_actions_total", **told) >= 2

            await until(shadowed)
            rows = await asyncio.to_thread(asked, home, "get", "actions")
            assert {(row["kind"], row["disposition"]) for row in rows} == {
                ("bootstrap", "shadowed")
            }
            (short,) = await asyncio.to_thread(asked, home, "get", "shortfalls")
            assert (short["missing"], short["clusters"]) == ({"cpu": "2"}, ["web"])
            assert await shard.metric("mainstay_shard_actions_total", disposition="executed") == 0

            done = await asyncio.to_thread(home.run, "resume", "--reason", "seen")
            assert done.returncode == exits.DONE, done.stderr

            async def executed() -> bool:
                told = {"disposition": "executed", "kind": "bootstrap"}
                return await shard.metric("mainstay_shard_actions_total", **told) == 2

            await until(executed)

    asyncio.run(scenario())

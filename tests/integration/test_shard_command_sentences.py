"""`mainstay shard` and the verbs that ask it: its settings, and what people see of a real one."""

import asyncio
import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import outside
from mainstay.cli import exits, main
from mainstay.config.shard import ShardConfig
from mainstay.model.ids import ClusterId
from mainstay.model.need import Need, NeedProfile
from running import Home
from served_shard import instant, served, until

Captured = pytest.CaptureFixture[str]


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
        words = {row[1].strip(): row[4].strip() for row in rows}
        assert words.keys() == {
            f"`shard.{field.name}`" for field in dataclasses.fields(ShardConfig)
        }
        assert [name for name, meaning in words.items() if not meaning] == []


def asked(home: Home, *words: str) -> Any:
    """What a verb prints as data."""
    done: subprocess.CompletedProcess[str] = home.run(*words, "-o", "json")
    assert done.returncode == exits.DONE, done.stderr
    return json.loads(done.stdout)


def test_shortfalls_and_a_shadow_of_a_real_shard_are_shown(tmp_path: Path) -> None:
    """The other verbs meet real shards in the README and the tutorials, which are run."""
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

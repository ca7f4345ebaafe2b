"""A process of the nursery is a process like any other."""

import os
import signal
from pathlib import Path

import nursery
import outside
from live_shard import started
from mainstay import __version__
from mainstay.cli import exits


def test_it_has_its_own_arguments_environment_folder_and_outputs(tmp_path: Path) -> None:
    env = outside.environment(MAINSTAY_HOME="/no/such/home", NO_COLOR="1")

    version = nursery.run(["--version"], cwd=tmp_path, env=env)
    wrong = nursery.run(["no-such-command"], cwd=tmp_path, env=env)
    nobody = nursery.run(["get", "shards"], cwd=tmp_path, env=env)
    made = nursery.run(["provider", "new", "my-rack", "--folder", "."], cwd=tmp_path, env=env)

    assert (version.returncode, version.stdout) == (exits.DONE, f"mainstay {__version__}\n")
    assert (wrong.returncode, wrong.stdout) == (exits.WRONG_USAGE, "")
    assert "no such command: no-such-command" in wrong.stderr
    assert "/no/such/home/run has none" in nobody.stderr
    assert made.returncode == exits.DONE, made.stderr
    assert (tmp_path / "my-rack").is_dir()


def test_it_can_be_killed_and_says_of_what_it_died(tmp_path: Path) -> None:
    process = started(tmp_path, "s-0")

    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)

    assert process.wait(20) == -signal.SIGKILL
    assert process.poll() == -signal.SIGKILL

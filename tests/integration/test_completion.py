"""Shell completion, in a real shell: a verb, an option, the value of an option."""

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import outside
from live_shard import plain_need, started
from mainstay.cli import completion
from mainstay.cli.known import known
from running import read_until

STARTS: Final = (
    "import sys\n"
    "from mainstay.cli import main\n"
    'main.COMMANDS.setdefault("completion", main.Command("mainstay.cli.completion", "completes"))\n'
    "main.main()\n"
)
COMPLETES: Final = """
eval "$(mainstay completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_mainstay_completion
printf '%s\\n' "${COMPREPLY[@]}"
complete -p mainstay
"""
ZSH_BEGINS: Final = 'eval "$(mainstay completion zsh)"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a `mainstay` to be found on the path."""
    made = tmp_path_factory.mktemp("bin")
    program = made / "mainstay"
    program.write_text(f"#!{sys.executable}\n{STARTS}", encoding="utf-8")
    program.chmod(0o755)
    return made


def completed(folder: Path, *words: str, home: Path | None = None) -> list[str]:
    path = f"{folder}:/usr/bin:/bin"
    home = home or folder
    ended = subprocess.run(
        ["bash", "--norc", "-c", COMPLETES, "bash", "mainstay", *words],
        env=outside.environment(
            PATH=path, MAINSTAY_HOME=str(home), XDG_CONFIG_HOME=str(home)
        ), capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    *found, how = ended.stdout.splitlines()
    assert "_mainstay_completion mainstay" in how
    return found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("expl",), ["explain"]),
        (("explain", "mach"), ["machine"]),
        (("explain", "need", "--qui"), ["--quick"]),
        (("explain", "need", "web", "-o", "j"), ["json"]),
        (("get", "actions", "--disposition", "sh"), ["shadowed"]),
        (("get", "needs", "--reason", "pre"), ["preemption-exhausted"]),
        (("get", "machines", "--state", "I"), ["Idle"]),
        (("whatif", "--lose"), ["--lose-zone"]),
        (("explain", "need", "--server", ""), [""]),
        (("nonsense", ""), [""]),
    ],
)
def test_bash_completes_verbs_options_and_their_values(
    folder: Path, words: tuple[str, ...], found: list[str]
) -> None:
    assert completed(folder, *words) == found


NAME_THAT_IS_A_COMMAND: Final = "$(touch${IFS}touched)"


def test_bash_runs_nothing_that_a_name_says(tmp_path: Path) -> None:
    program = tmp_path / "mainstay"
    said = completion.SCRIPTS[completion.Shell.BASH]
    (tmp_path / "script").write_text(said, encoding="utf-8")
    lines = ("#!/bin/sh", "case $2 in bash) cat script;; words) cat words;; esac")
    program.write_text("\n".join(lines), encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "words").write_text(f"{NAME_THAT_IS_A_COMMAND}\na b\n", encoding="utf-8")
    typed = COMPLETES + 'eval echo "${COMPREPLY[0]}"'
    ended = subprocess.run(
        ["bash", "--norc", "-c", typed, "bash", "mainstay", ""],
        env=outside.environment(PATH=f"{tmp_path}:/usr/bin:/bin"), cwd=tmp_path,
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip

    assert not (tmp_path / "touched").exists()
    assert ended.stdout.splitlines()[1] == r"a\ b"
    assert ended.stdout.splitlines()[-1] == NAME_THAT_IS_A_COMMAND, "typed, it is the name"


@pytest.fixture
def zsh(folder: Path, tmp_path: Path) -> Iterator["Zsh"]:
    """At a terminal, in a folder with one file."""
    (tmp_path / "only-file.toml").touch()
    shell = Zsh(folder, tmp_path)
    yield shell
    shell.close()


class Zsh:
    """One that a person types in."""

    def __init__(self, folder: Path, here: Path) -> None:
        self._terminal, its = pty.openpty()
        environment = outside.environment(
            PATH=f"{folder}:/usr/bin:/bin", TERM="dumb", COLUMNS="200",
            HOME=str(here), ZDOTDIR=str(here), MAINSTAY_HOME=str(here), XDG_CONFIG_HOME=str(here),
        )  # fmt: skip
        self._process = subprocess.Popen(
            ["zsh", "-f", "-i"], env=environment, cwd=here,
            stdin=its, stdout=its, stderr=its, start_new_session=True,
        )  # fmt: skip
        os.close(its)
        self._types(f'autoload -U compinit; compinit -u; {ZSH_BEGINS}; print be""gun\n')
        read_until(self._terminal, lambda seen: b"begun" in seen)

    def completes(self, typed: str, to: str) -> None:
        """A Tab behind what is typed makes this of it."""
        self._types(f"{typed}\t")
        read_until(self._terminal, lambda seen: to.encode() in seen)
        self._types("\x15")  # and away with it

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def _types(self, text: str) -> None:
        os.write(self._terminal, text.encode())


@pytest.mark.needs("zsh")
def test_zsh_completes_our_words_and_files_where_we_have_none(zsh: "Zsh") -> None:
    zsh.completes("mainstay expl", "mainstay explain ")
    zsh.completes("mainstay get actions --disposition sh", "--disposition shadowed ")
    zsh.completes("mainstay up --config ", "--config only-file.toml ")


def test_every_command_is_offered_first(folder: Path) -> None:
    offered = completed(folder, "")

    assert {"up", "get", "explain", "whatif", "top", "--help"} <= set(offered)


@pytest.mark.parametrize("shell", completion.Shell)
def test_every_shell_has_a_script_that_asks_for_words(folder: Path, shell: str) -> None:
    ended = outside.run([folder / "mainstay", "completion", shell])

    assert "completion words" in ended.stdout


def test_what_is_hidden_is_not_offered(folder: Path) -> None:
    assert completed(folder, "completion", "") == ["bash", "fish", "zsh"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a shard and two contexts."""
    made = tmp_path_factory.mktemp("home")
    (made / "mainstay").mkdir()
    (made / "mainstay/contexts.toml").write_text("[contexts.prod]\n[contexts.test]\n")
    process = started(made, "s-0")
    yield made
    process.terminate()
    process.wait()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("explain", "machine", "x-00"), ["x-000", "x-001", "x-002", "x-003"]),
        (("get", "machine", "x-003"), ["x-003"]),
        (("get", "machines", "x-001", "x-003"), ["x-003"]),
        (("explain", "cluster", ""), ["batch", "late", "web"]),
        (("get", "needs", "--cluster", "la"), ["late"]),
        (("explain", "need", "web/"), [f"web/{plain_need().profile.fingerprint[:8]}"]),
        (("explain", "gang", "batch", ""), ["train-1"]),
        (("get", "clusters", "--shard", ""), ["s-0"]),
        (("get", "clusters", "--context", ""), ["prod", "test"]),
        (("get", "provider", "m"), ["metal"]),
        (("get", "machines", "--server", "127.0.0.1:1", "x"), []),
    ],
)
def test_names_of_what_runs_are_offered(
    home: Path, words: tuple[str, ...], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))

    assert completion.candidates(words) == found


def test_bash_offers_names_of_what_runs(folder: Path, home: Path) -> None:
    assert completed(folder, "get", "machine", "x-003", home=home) == ["x-003"]


@pytest.mark.parametrize(
    "words", [("explain", "machine", ""), ("alloc", "show", ""), ("get", "needs", "--context", "")]
)
def test_where_nothing_runs_nothing_is_offered_and_nothing_said(
    folder: Path, words: tuple[str, ...]
) -> None:
    assert completed(folder, *words) == [""]


def test_a_server_that_does_not_answer_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It takes the call and says nothing: who waited for it would wait for ever."""
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MAINSTAY_KEY", "key")
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]

        assert known("machine", "", {"--server": f"127.0.0.1:{port}"}) == []
        assert known("allocation", "", {"--server": f"http://127.0.0.1:{port}"}) == []

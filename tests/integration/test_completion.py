"""Shell completion, in a real shell: a verb, an option, the value of an option."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import outside
from mainstay.cli import completion

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a `mainstay` to be found on the path."""
    made = tmp_path_factory.mktemp("bin")
    program = made / "mainstay"
    program.write_text(f"#!{sys.executable}\n{STARTS}", encoding="utf-8")
    program.chmod(0o755)
    return made


def completed(folder: Path, *words: str) -> list[str]:
    path = f"{folder}:/usr/bin:/bin"
    ended = subprocess.run(
        ["bash", "--norc", "-c", COMPLETES, "bash", "mainstay", *words],
        env=outside.environment(PATH=path), capture_output=True, text=True, check=False,
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
        (("whatif", "--lose"), ["--lose-zone"]),
        (("explain", "need", "--server", ""), [""]),
        (("nonsense", ""), [""]),
    ],
)
def test_bash_completes_verbs_options_and_their_values(
    folder: Path, words: tuple[str, ...], found: list[str]
) -> None:
    assert completed(folder, *words) == found


def test_every_command_is_offered_first(folder: Path) -> None:
    offered = completed(folder, "")

    assert {"up", "get", "explain", "whatif", "top", "--help"} <= set(offered)


@pytest.mark.parametrize("shell", completion.Shell)
def test_every_shell_has_a_script_that_asks_for_words(folder: Path, shell: str) -> None:
    ended = outside.run([folder / "mainstay", "completion", shell])

    assert "completion words" in ended.stdout


def test_what_is_hidden_is_not_offered(folder: Path) -> None:
    assert completed(folder, "completion", "") == ["bash", "fish", "zsh"]

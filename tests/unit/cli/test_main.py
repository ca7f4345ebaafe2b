"""`mainstay`: which command is run, what help says, how a process ends."""

import importlib
import sys
from types import ModuleType

import pytest
import typer

import outside
from mainstay import __version__
from mainstay.cli import exits, main
from tree import BIN

HEAVY = ("numpy", "typer", "rich", "structlog", "yaml")

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command named `probe` that keeps the words it was given."""
    words: list[str] = []
    module = ModuleType("mainstay_probe")
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(word: str) -> None:
        words.append(word)

    module.app = app  # type: ignore[attr-defined] # what a command's module has
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(main.COMMANDS, "probe", main.Command(module.__name__, "keeps words"))
    return words


class TestHelp:
    @pytest.mark.parametrize("words", [[], ["-h"], ["--help"], ["help"]])
    def test_help_is_the_table_of_commands(self, words: list[str], capsys: Captured) -> None:
        code = main.dispatch(words)

        shown = capsys.readouterr()
        assert code == exits.DONE
        assert shown.err == ""
        for name, command in main.COMMANDS.items():
            assert any(line.split() == [name, *command.help.split()] for line in
                       shown.out.splitlines())  # fmt: skip

    def test_a_command_added_to_the_table_is_in_the_help(self, probe: list[str]) -> None:
        lines = [line.split() for line in main.help_text().splitlines()]

        assert ["probe", "keeps", "words"] in lines

    def test_help_tells_every_exit_code(self) -> None:
        text = " ".join(main.help_text().split())

        assert "0 done, 1 failed or a check found fault, 2 wrong usage" in text
        assert f"{exits.NOT_REACHABLE} server not reachable" in text

    def test_help_fits_on_a_terminal_of_a_hundred_columns(self) -> None:
        assert max(map(len, main.help_text().splitlines())) <= 100

    @pytest.mark.parametrize("words", [["--help"], ["--version"], ["nonsense"]])
    def test_answers_from_the_table_import_nothing_heavy(self, words: list[str]) -> None:
        """Or help takes half a second instead of none."""
        script = (
            "import sys\nfrom mainstay.cli import main\n"
            f"main.dispatch({words})\nprint('LOADED', *sys.modules)\n"
        )

        ended = outside.run([sys.executable, "-c", script])

        loaded = ended.stdout.splitlines()[-1].split()
        assert loaded[0] == "LOADED", ended.stderr
        assert "mainstay.cli.exits" in loaded
        assert sorted({*HEAVY} & {*loaded}) == []


class TestDispatch:
    @pytest.mark.parametrize("word", ["-V", "--version"])
    def test_version_is_one_line_on_stdout(self, word: str, capsys: Captured) -> None:
        assert main.dispatch([word]) == exits.DONE

        assert capsys.readouterr() == (f"mainstay {__version__}\n", "")

    def test_an_unknown_command_is_wrong_usage_and_one_line_on_stderr(
        self, capsys: Captured
    ) -> None:
        assert main.dispatch(["upp", "--machines", "3"]) == exits.WRONG_USAGE

        assert capsys.readouterr() == (
            "", "mainstay: no such command: upp: `mainstay --help` lists them\n",
        )  # fmt: skip

    def test_the_words_after_a_command_are_its_own(self, probe: list[str]) -> None:
        assert main.dispatch(["probe", "one"]) == exits.DONE

        assert probe == ["one"]

    def test_wrong_words_after_a_command_are_wrong_usage(
        self, probe: list[str], capsys: Captured
    ) -> None:
        assert main.dispatch(["probe", "one", "two"]) == exits.WRONG_USAGE

        assert "`mainstay probe --help` tells what it takes" in capsys.readouterr().err
        assert probe == []

    @pytest.mark.parametrize("name", main.COMMANDS)
    def test_every_command_of_the_table_has_its_module(self, name: str) -> None:
        command = main.COMMANDS[name]
        module = importlib.import_module(command.module)

        assert isinstance(getattr(module, command.app), typer.Typer)


class TestProcess:
    def test_the_exit_code_is_that_of_the_command(self) -> None:
        with pytest.raises(SystemExit) as end:
            main.main(["nonsense"])

        assert end.value.code == exits.WRONG_USAGE

    def test_the_installed_command_reads_its_own_words(self) -> None:
        ended = outside.run([BIN / "mainstay", "--version"])

        assert (ended.returncode, ended.stdout) == (exits.DONE, f"mainstay {__version__}\n")

    @pytest.mark.parametrize("words", ["--help", "config show"])
    @pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
    def test_a_reader_that_has_seen_enough_is_no_failure(self, words: str, unbuffered: str) -> None:
        """`mainstay ... | head` must not end in a traceback."""
        script = f"'{BIN}/mainstay' {words} | true; echo ${{PIPESTATUS[0]}}"
        env = outside.environment(PYTHONUNBUFFERED=unbuffered)

        ended = outside.run(["bash", "-c", script], env=env)

        assert (ended.stdout, ended.stderr) == ("0\n", "")

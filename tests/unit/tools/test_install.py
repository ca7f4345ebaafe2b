"""tools/install.py: which Python it goes on with, and when it has nothing to do."""

import ast
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from outside import ROOT
from tree import load_tool

tool = load_tool("install")

Captured = pytest.CaptureFixture[str]


class Replaced(Exception):
    """This process became another one: what os.execv does, as far as a test can see."""


class Machine:
    """A machine with a python3 of one version, and others on its PATH; `broken` ones do not run."""

    def __init__(self, version: tuple[int, int], *others: str, broken: str = "") -> None:
        self.sys = SimpleNamespace(
            version_info=(*version, 0), argv=["tools/install.py", "dev"], exit=sys.exit,
            stderr=sys.stderr,
        )  # fmt: skip
        self.os = SimpleNamespace(execv=self._execv)
        self.shutil = SimpleNamespace(which=lambda name: name if name in others else None)
        self._broken = broken

    def put_under(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("sys", "os", "shutil"):
            monkeypatch.setattr(tool, name, getattr(self, name))
        monkeypatch.setattr(tool, "runs", lambda python: python != self._broken)

    @staticmethod
    def _execv(path: str, words: list[str]) -> NoReturn:
        raise Replaced(path, words)


class TestPython:
    @pytest.mark.parametrize("minor", [11, 12, 13])
    def test_a_supported_python_goes_on(
        self, minor: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        Machine((3, minor), "python3.13").put_under(monkeypatch)

        tool.use_supported_python()

        assert capsys.readouterr().err == ""

    def test_an_old_python_hands_over_to_the_newest_supported_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Machine((3, 9), "python3.11", "python3.12").put_under(monkeypatch)

        with pytest.raises(Replaced) as replaced:
            tool.use_supported_python()

        words = ["python3.12", "tools/install.py", "dev"]
        assert replaced.value.args == ("python3.12", words)

    def test_a_shim_that_does_not_run_is_passed_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        machine = Machine((3, 9), "python3.11", "python3.12", broken="python3.12")
        machine.put_under(monkeypatch)

        with pytest.raises(Replaced) as replaced:
            tool.use_supported_python()

        assert replaced.value.args[0] == "python3.11"

    def test_only_an_old_python_is_one_clear_line_and_a_failure(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        Machine((3, 9)).put_under(monkeypatch)

        with pytest.raises(SystemExit) as end:
            tool.use_supported_python()

        assert end.value.code == 1
        assert capsys.readouterr().err == (
            "mainstay set-up: Mainstay needs Python 3.11 or later, this is 3.9: install one, or"
            " name it: make PYTHON=/path/to/python3\n"
        )

    def test_a_newer_python_is_told_and_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        Machine((3, 14)).put_under(monkeypatch)

        tool.use_supported_python()

        assert "newer than any Mainstay was tested with" in capsys.readouterr().err

    def test_a_python_that_fails_does_not_run(self, tmp_path: Path) -> None:
        shim = tmp_path / "python3.12"
        shim.write_text("#!/bin/sh\nexit 127\n")
        shim.chmod(0o755)

        assert not tool.runs(str(shim))
        assert tool.runs(sys.executable)


def unreadable_by_python_3_6(source: str) -> list[str]:
    """Annotations that an old interpreter would evaluate and stumble over."""
    module = ast.parse(source, feature_version=(3, 6))
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    annotations = [note for function in functions for note in
                   [function.returns, *(arg.annotation for arg in function.args.args)]]  # fmt: skip
    return [ast.unparse(note) for note in annotations
            if isinstance(note, ast.Subscript | ast.BinOp)]  # fmt: skip


class TestOldPython:
    def test_the_installer_can_be_read_by_the_python_it_refuses(self) -> None:
        """A traceback instead of our line would say nothing of Python versions."""
        assert unreadable_by_python_3_6((ROOT / "tools/install.py").read_text()) == []

    def test_what_it_could_not_read_would_be_seen(self) -> None:
        assert unreadable_by_python_3_6("def f(a: list[str]) -> int | None: ...\n") == [
            "int | None", "list[str]",
        ]  # fmt: skip
        with pytest.raises(SyntaxError):
            unreadable_by_python_3_6("if (a := 1): ...\n")


@pytest.fixture
def clone(tmp_path: Path) -> ModuleType:
    """The installer in a tree of its own, whose set-up is only written down."""
    for name in ("tools/install.py", "requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv").mkdir()
    return load_tool("install", tmp_path)


def install(clone: ModuleType, kind: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run `main` for `kind`; what it would have run, without the folder it is in."""
    commands: list[str] = []
    here = f"{clone.ROOT}/"
    monkeypatch.setattr(clone, "use_supported_python", lambda: None)
    monkeypatch.setattr(
        clone, "run", lambda command: commands.append(" ".join(command).replace(here, ""))
    )
    monkeypatch.setattr(clone.sys, "argv", ["tools/install.py", kind])
    clone.main()
    return commands


class TestInstall:
    def test_everything_comes_from_the_lock_with_hashes_and_ourselves_last(
        self, clone: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commands = install(clone, "dev", monkeypatch)

        venv, pip, sync, ours, warm = commands
        assert venv.endswith("-m venv --clear .venv")
        assert "--require-hashes -r .venv/uv.lock.txt" in pip
        assert sync.startswith(".venv/bin/uv pip sync")
        assert sync.endswith("--require-hashes requirements-dev.lock")
        assert "--no-deps --no-build-isolation --editable" in ours
        assert warm == ".venv/bin/mainstay warm"

    def test_uv_is_taken_from_the_lock_alone(
        self, clone: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(clone, "runtime", monkeypatch)

        first, *others = (clone.VENV / "uv.lock.txt").read_text().splitlines()
        assert first.startswith("uv==")
        assert others
        assert all(line.startswith("    --hash=sha256:") for line in others)

    @pytest.mark.parametrize(
        ("first", "second"), [("runtime", "runtime"), ("dev", "dev"), ("dev", "runtime")]
    )
    def test_what_is_there_already_is_not_installed_again(
        self, first: str, second: str, clone: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(clone, first, monkeypatch)

        assert install(clone, second, monkeypatch) == []

    def test_the_dev_set_is_installed_over_the_other(
        self, clone: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(clone, "runtime", monkeypatch)

        assert install(clone, "dev", monkeypatch) != []

    @pytest.mark.parametrize(
        "name", ["requirements-dev.lock", "pyproject.toml", "tools/install.py"]
    )
    def test_a_change_of_what_it_depends_on_installs_again(
        self, name: str, clone: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(clone, "dev", monkeypatch)
        changed = clone.ROOT / name
        changed.write_text(changed.read_text() + "\n# changed\n")

        assert install(clone, "dev", monkeypatch) != []

    def test_a_set_up_that_failed_is_done_again(
        self, clone: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        clone.LOCKS["dev"].write_text("a==1\n")
        with pytest.raises(SystemExit):
            install(clone, "dev", monkeypatch)

        assert not clone.is_current("dev")
        assert "no uv in requirements-dev.lock: run make lock" in capsys.readouterr().err

    def test_an_unknown_set_is_refused_with_the_usage(
        self, clone: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Captured
    ) -> None:
        with pytest.raises(SystemExit):
            install(clone, "everything", monkeypatch)

        assert "usage: python3 tools/install.py {runtime|dev}" in capsys.readouterr().err

    def test_a_step_that_fails_ends_the_set_up_and_is_named(self, capsys: Captured) -> None:
        with pytest.raises(SystemExit) as end:
            tool.run(["false", "really"])

        assert end.value.code == 1
        assert capsys.readouterr().err == (
            "mainstay set-up: set-up stopped, this failed: false really\n"
        )

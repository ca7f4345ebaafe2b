"""tools/system_packages.py: which packages are missing, and what is run to install them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from outside import ROOT
from tree import load_tool

tool = load_tool("system_packages")


class Shell:
    """Keeps what it is told to run; a command with a word of `failing` fails, once per word."""

    def __init__(self, *failing: str) -> None:
        self.commands: list[str] = []
        self._failing = list(failing)

    def __call__(self, command: Sequence[str]) -> int:
        self.commands.append(" ".join(command))
        for word in self._failing:
            if word in command:
                self._failing.remove(word)
                return 100
        return 0


class TestList:
    def test_a_line_is_a_package_its_probe_and_its_reason(self) -> None:
        packages = tool.read("# why\n\ngit  command:git   for a clone\n")

        assert packages == [tool.Package("git", "command:git", "for a clone")]

    @pytest.mark.parametrize("line", ["git", "git command:git"])
    def test_a_line_without_three_columns_is_an_error(self, line: str) -> None:
        with pytest.raises(ValueError, match="not enough values"):
            tool.read(line)

    def test_our_own_list_can_be_read_and_each_name_is_there_once(self) -> None:
        packages = tool.read((ROOT / "system-packages.txt").read_text())

        names = [package.name for package in packages]
        assert names
        assert len(names) == len(set(names))
        for package in packages:
            tool.is_present(package)


class TestProbe:
    def test_a_command_is_looked_for_on_the_path(self) -> None:
        assert tool.is_present(tool.Package("x", "command:sh", "r"))
        assert not tool.is_present(tool.Package("x", "command:no-such-command-at-all", "r"))

    def test_a_file_is_looked_for_where_it_is(self, tmp_path: Path) -> None:
        package = tool.Package("x", f"file:{tmp_path}/lib.so", "r")

        before = tool.is_present(package)
        (tmp_path / "lib.so").touch()

        assert (before, tool.is_present(package)) == (False, True)

    def test_another_kind_of_probe_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="not module:x"):
            tool.is_present(tool.Package("x", "module:x", "r"))


APT = "sudo apt-get -qq -y --no-install-recommends"


class TestInstall:
    def test_known_packages_are_installed_without_asking_for_lists(self) -> None:
        shell = Shell()

        assert tool.install(["git", "make"], ["sudo"], shell) == 0

        assert shell.commands == [f"{APT} install git make"]

    def test_lists_are_fetched_when_a_package_is_not_known_yet(self) -> None:
        shell = Shell("install")

        assert tool.install(["git"], ["sudo"], shell) == 0

        assert shell.commands == [f"{APT} install git", f"{APT} update", f"{APT} install git"]

    def test_a_package_that_cannot_be_installed_is_told(self) -> None:
        assert tool.install(["git"], ["sudo"], Shell("install", "install")) != 0


class TestServices:
    @pytest.fixture
    def policy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "policy-rc.d"
        monkeypatch.setattr(tool, "POLICY", path)
        return path

    def test_nothing_installed_may_start_a_service_until_undone(self, policy: Path) -> None:
        undo = tool.without_services([], tool.quiet)

        during = (policy.read_text(), policy.stat().st_mode & 0o777)
        undo()

        assert during == (tool.POLICY_TEXT, 0o755)
        assert not policy.exists()

    def test_a_policy_that_was_there_stays(self, policy: Path) -> None:
        policy.write_text("theirs")
        shell = Shell()

        tool.without_services([], shell)()

        assert policy.read_text() == "theirs"
        assert shell.commands == []


class TestMain:
    @pytest.fixture
    def shell(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
        """One missing package, and a shell that keeps what is run."""
        listed = tmp_path / "system-packages.txt"
        listed.write_text("shell command:sh r\nunicorn command:no-such-command-at-all r\n")
        shell = Shell()
        monkeypatch.setattr(tool, "LIST", listed)
        monkeypatch.setattr(tool, "POLICY", tmp_path)
        monkeypatch.setattr(tool, "run_shown", shell)
        return shell

    def test_only_what_is_missing_is_installed(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tool, "privilege", list)

        tool.main()

        assert shell.commands == ["apt-get -qq -y --no-install-recommends install unicorn"]

    def test_who_may_not_install_is_told_what_is_missing_and_goes_on(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(tool, "privilege", lambda: None)

        tool.main()

        assert shell.commands == []
        assert capsys.readouterr().err == (
            "mainstay set-up: missing, and this user may not install: unicorn"
            " (their tests are skipped)\n"
        )

    def test_services_may_start_again_even_when_the_installation_fails(
        self,
        tmp_path: Path,
        shell: Shell,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        failing = Shell("unicorn", "unicorn")
        monkeypatch.setattr(tool, "run_shown", failing)
        monkeypatch.setattr(tool, "privilege", list)
        monkeypatch.setattr(tool, "POLICY", tmp_path / "policy-rc.d")

        tool.main()

        assert failing.commands[0].startswith("sh -c ")
        assert failing.commands[-1] == f"rm -f {tmp_path}/policy-rc.d"
        assert "could not install all of: unicorn" in capsys.readouterr().err

    def test_nothing_is_said_when_nothing_is_missing(
        self, shell: Shell, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tool.LIST.write_text("shell command:sh r\n")

        tool.main()

        assert (shell.commands, capsys.readouterr().err) == ([], "")

"""The files of a new provider: named after it, in good form, all or nothing."""

import ast
import re
from pathlib import Path

import pytest

import outside
import pages
from mainstay.cli import exits, main, provider_new
from mainstay.model.errors import Rejected
from mainstay.providers.kit.backend import Backend
from mainstay.providers.template.project import NAME_LENGTH_MAX, checked_name, files
from tree import BIN

LONGEST = "abc-" * (NAME_LENGTH_MAX // 4 - 1) + "wxyz"
TOO_LONG = "a" * (NAME_LENGTH_MAX + 1)
PAGE = (outside.ROOT / "docs/how-to/write-a-provider.md").read_text()

Captured = pytest.CaptureFixture[str]


class TestNames:
    @pytest.mark.parametrize("name", ["a", "rack", "rack-7", "my-own-rack", "a" * NAME_LENGTH_MAX])
    def test_a_name_is_of_words_with_dashes(self, name: str) -> None:
        assert checked_name(name) == name

    @pytest.mark.parametrize(
        "name",
        ["", "Rack", "7up", "-a", "a-", "a--b", "a_b", "a b", "../a", "a\n", "ä", "a.b", TOO_LONG],
    )
    def test_any_other_is_refused_with_what_it_may_be(self, name: str) -> None:
        with pytest.raises(Rejected, match=r"not a name for a provider: .*a letter first"):
            files(name)


class TestFiles:
    def test_everything_bears_the_name_in_the_form_of_its_place(self) -> None:
        texts = files("my-rack")

        assert list(texts) == [
            "README.md", "my_rack_backend.py", "my_rack_hardware.py", "test_my_rack_backend.py",
        ]  # fmt: skip
        backend = texts["my_rack_backend.py"]
        assert "class MyRackBackend(Backend):" in backend
        assert 'name = "my-rack"' in backend
        assert "from my_rack_hardware import " in backend
        assert "from my_rack_backend import make_backend" in texts["test_my_rack_backend.py"]
        assert "serve my_rack_backend:make_backend" in texts["README.md"]
        assert re.findall(r"(?i)toy|providers\.template|[{}]module", "".join(texts.values())) == []

    def test_the_backend_is_some_hundred_lines_and_the_page_some_ten(self) -> None:
        texts = files("rack")

        assert len(texts["rack_backend.py"].splitlines()) <= 125
        assert len(texts["README.md"].splitlines()) <= 12

    @pytest.mark.parametrize("name", ["a", "my-rack", LONGEST])
    def test_it_is_in_good_form_under_any_name(self, name: str, tmp_path: Path) -> None:
        assert len(LONGEST) == NAME_LENGTH_MAX
        project = provider_new.written(name, tmp_path)
        ruff = [str(BIN / "ruff"), "--isolated"]
        chosen = ["--line-length", "100", "--no-cache"]

        rules = ["--select", "A,ARG,ASYNC,B,C90,E,F,I,N,PL,PTH,RET,RUF,SIM,TRY,UP,W"]
        ignored = ["--ignore", "ARG002,N818,TRY003"]
        form = outside.run([*ruff, "format", "--check", *chosen, "."], cwd=project)
        lint = outside.run([*ruff, "check", *chosen, *rules, *ignored, "."], cwd=project)

        assert form.returncode == 0, form.stdout + form.stderr
        assert lint.returncode == 0, lint.stdout + lint.stderr


class TestTheCommand:
    def test_it_writes_the_project_and_says_what_to_do_next(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        code = main.dispatch(["provider", "new", "rack", "--folder", str(tmp_path)])

        shown = capsys.readouterr()
        assert code == exits.DONE
        assert {path.name: path.read_text() for path in (tmp_path / "rack").iterdir()} == files(
            "rack"
        )
        assert [path.name for path in tmp_path.iterdir()] == ["rack"]
        assert "mainstay provider serve rack_backend:make_backend --insecure" in shown.out

    @pytest.mark.parametrize("kind", ["folder", "file", "link"])
    def test_what_is_there_already_is_never_touched(
        self, kind: str, tmp_path: Path, capsys: Captured
    ) -> None:
        place = tmp_path / "rack"
        match kind:
            case "folder":
                place.mkdir()
            case "file":
                place.write_text("mine")
            case _:
                place.symlink_to(tmp_path / "nowhere")

        code = main.dispatch(["provider", "new", "rack", "--folder", str(tmp_path)])

        assert code == exits.FAILED
        assert "rack is there already: choose another name" in one_line(capsys)
        assert [path.name for path in tmp_path.iterdir()] == ["rack"]
        assert not place.is_dir() or list(place.iterdir()) == []

    def test_a_bad_name_is_one_line(self, tmp_path: Path, capsys: Captured) -> None:
        code = main.dispatch(["provider", "new", "../rack", "--folder", str(tmp_path)])

        assert code == exits.FAILED
        assert "not a name for a provider: '../rack'" in one_line(capsys)
        assert list(tmp_path.iterdir()) == []

    def test_a_place_that_cannot_be_written_is_one_line(
        self, tmp_path: Path, capsys: Captured
    ) -> None:
        (tmp_path / "file").write_text("not a folder")

        for folder in ("file", "missing"):
            code = main.dispatch(["provider", "new", "rack", "--folder", str(tmp_path / folder)])

            assert code == exits.FAILED
            assert f"cannot write {tmp_path / folder / 'rack'}: " in one_line(capsys)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_failure_half_way_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = {"README.md": "fine", "n" * 300: "no file system takes such a name"}
        monkeypatch.setattr(provider_new, "files", lambda _: texts)

        with pytest.raises(Rejected, match=r"cannot write .*rack: .*choose another --folder"):
            provider_new.written("rack", tmp_path)

        assert list(tmp_path.iterdir()) == []


def one_line(capsys: Captured) -> str:
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


class TestThePage:
    def test_its_outline_is_a_whole_backend(self) -> None:
        outline = next(block.text for block in pages.blocks(PAGE) if block.info == "python")
        names: dict[str, object] = {}

        exec(compile(ast.parse(outline), "page", "exec"), names)
        make_backend = names["make_backend"]

        assert callable(make_backend)
        backend = make_backend()
        assert isinstance(backend, Backend)
        own = {name for name in vars(type(backend)) if not name.startswith("_")}
        assert own <= {name for name in dir(Backend) if not name.startswith("_")} | {"name"}

    def test_it_names_everything_a_backend_can_have(self) -> None:
        parts = {name for name in [*vars(Backend), *Backend.__annotations__] if name[0] != "_"}

        unnamed = {name for name in parts if not re.search(rf"\b{name}\b", PAGE)}

        assert len(parts) > 10
        assert unnamed == set()

"""A backend of somebody else's is found by its name, or refused in one line that helps."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardware import Hardware, a_slot
from mainstay.model.errors import Rejected
from mainstay.processes.own_backend import examined, found
from mainstay.providers.kit.backend import Backend

GOOD = """\
from hardware import Hardware, a_slot

NOT_A_FUNCTION = 7

def make_backend():
    return Hardware(a_slot())

def make_number():
    return 7

def make_nameless():
    backend = make_backend()
    backend.name = "a/b"
    return backend

def make_trouble():
    return 1 / 0

def make_by_size(size):
    return make_backend()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_good.py").write_text(GOOD)
    (tmp_path / "own_broken.py").write_text("import os\n\nraise KeyError('colour')\n")
    (tmp_path / "own_needy.py").write_text("import no_such_thing\n")
    (tmp_path / "own_odd.py").write_text("def make(:\n")
    yield tmp_path
    for name in ("own_good", "own_broken", "own_needy", "own_odd"):
        sys.modules.pop(name, None)


class TestFound:
    def test_a_module_beside_which_we_stand_is_found(self, folder: Path) -> None:
        backend = found("own_good:make_backend", folder)

        assert isinstance(backend, Backend)
        assert backend.name == "lab"

    @pytest.mark.parametrize(
        ("target", "complaint"),
        [
            ("own_good", r"not a backend: own_good \(write MODULE:FUNCTION\)"),
            (":make", "not a backend"),
            ("own_good:a b", "not a backend"),
            ("own_absent:make", r"no module own_absent: .*run in the folder it is in"),
            ("own_good.inner:make", r"cannot import own_good\.inner|no module own_good\.inner"),
            ("own_needy:make", r"cannot import own_needy: .*no_such_thing.*\(own_needy\.py line 1"),
            ("own_broken:make", r"KeyError: 'colour' \(own_broken\.py line 3\)"),
            ("own_odd:make", "cannot import own_odd: SyntaxError"),
            ("own_good:absent", "module own_good has no function absent"),
            ("own_good:NOT_A_FUNCTION", "has no function NOT_A_FUNCTION"),
            ("own_good:make_number", r"makes no mainstay\.providers\.kit\.backend\.Backend: int"),
            ("own_good:make_nameless", "needs a name without spaces or slashes: 'a/b'"),
            ("own_good:make_by_size", r"failed: TypeError: .*argument: 'size'$"),
            ("own_good:make_trouble", r"ZeroDivisionError: .*\(own_good\.py line 17\)"),
        ],
    )
    def test_anything_else_is_refused_with_the_place(
        self, folder: Path, target: str, complaint: str
    ) -> None:
        with pytest.raises(Rejected, match=complaint):
            found(target, folder)


class TestExamined:
    def test_a_backend_that_cannot_be_made_is_told_as_it_is(self) -> None:
        def broken() -> Backend:
            raise LookupError("no credentials")

        with pytest.raises(LookupError, match="no credentials"):
            asyncio.run(examined(broken))

    def test_a_slot_that_cannot_be_is_told_as_it_is(self) -> None:
        with pytest.raises(Rejected, match="its name is not a machine id"):
            asyncio.run(examined(lambda: Hardware(a_slot("a b"))))

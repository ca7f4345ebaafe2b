"""A process that is ready says so in a file, as long as it is."""

import json
import os
from pathlib import Path

import pytest

from mainstay.model.errors import Rejected
from mainstay.processes.announce import announced


def test_the_file_is_there_while_the_process_is_and_gone_afterwards(tmp_path: Path) -> None:
    facts = {"addresses": {"grpc": "127.0.0.1:9000"}}

    with announced(tmp_path / "home", "provider", "sim-9000", facts) as path:
        assert path == tmp_path / "home/run/provider-sim-9000.json"
        assert json.loads(path.read_text()) == {
            "process": "provider", "id": "sim-9000", "pid": os.getpid(), **facts,
        }  # fmt: skip
        assert list(path.parent.iterdir()) == [path]

    assert list(path.parent.iterdir()) == []


def test_it_is_gone_after_a_failure_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="oh"), announced(tmp_path, "provider", "x", {}):
        raise ValueError("oh")

    assert list((tmp_path / "run").iterdir()) == []


def test_a_home_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file, not a folder")

    with (
        pytest.raises(Rejected, match=r"cannot write .*set MAINSTAY_HOME"),
        announced(tmp_path, "provider", "x", {}),
    ):
        pass

"""tools/proto.py: the generated code is a function of proto/, and drift is seen."""

from pathlib import Path

import pytest

import outside
from tree import load_tool

tool = load_tool("proto")


@pytest.fixture(scope="module")
def wanted() -> dict[str, bytes]:
    made: dict[str, bytes] = tool.generated(outside.ROOT / "proto")
    return made


def test_the_same_sources_give_the_same_bytes(wanted: dict[str, bytes]) -> None:
    assert tool.generated(outside.ROOT / "proto") == wanted


def test_the_committed_code_is_what_the_sources_give(wanted: dict[str, bytes]) -> None:
    assert tool.drift(wanted, outside.ROOT / "src/mainstay/wire/pb") == []


def test_every_kind_of_drift_is_seen_and_repaired(tmp_path: Path, wanted: dict[str, bytes]) -> None:
    tool.write(wanted, tmp_path)
    assert tool.drift(wanted, tmp_path) == []

    changed, missing, *_ = sorted(wanted)
    (tmp_path / changed).write_text("edited by hand\n")
    (tmp_path / missing).unlink()
    (tmp_path / "stray.py").write_text("left over\n")
    assert tool.drift(wanted, tmp_path) == sorted([changed, missing, "stray.py"])

    tool.write(wanted, tmp_path)
    assert tool.drift(wanted, tmp_path) == []


def test_imports_of_other_files_point_below_our_package(wanted: dict[str, bytes]) -> None:
    shard = wanted["bigfleet/v1alpha1/shard_pb2.py"].decode()

    assert "\nfrom mainstay.wire.pb.bigfleet.v1alpha1 import provider_pb2" in shard
    assert "\nfrom bigfleet" not in shard


def test_a_source_that_is_no_proto_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.proto").write_text("message {")

    with pytest.raises(SystemExit, match="protoc refused"):
        tool.generated(tmp_path)

    assert "b.proto" in capfd.readouterr().err

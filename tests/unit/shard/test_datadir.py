"""What survives a restart, and what refuses a start."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import outside
from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.model.coordination import Domain, Handed, Outcome, Stray
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId, MachineId, ShardId
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.datadir import EPOCH_MAX, DataDir
from mainstay.shard.ownership.owned import Done, Owned, Promise, Victim

WEB: Final = ClusterId("web")
A_QUOTA: Final = Quota({WEB: 7}, {("ec2", "eu-1"): 3, ("metal", ""): 0})
A_CONTROL: Final = Control(
    kind=ControlKind.RECLAIM_CAP,
    cluster=WEB,
    value=0.01,
    reason="a drill, “quoted”",
    by="ann",
    set_at_s=1000.5,
    expires_at_s=1060.0,
)
A_PAUSE: Final = Control(
    kind=ControlKind.PAUSE, reason="stop", by="bob", set_at_s=0.0, expires_at_s=1.0
)
RACK: Final = Domain("rack", "r1")
M_1, M_2, M_3 = (MachineId(f"m-{number}") for number in (1, 2, 3))
MUCH_OWNED: Final = Owned(
    domains=frozenset({RACK, Domain("rack", "r2")}),
    assigned=True,
    here={
        M_1: Stray(M_1, "metal", Domain("rack", "r3"), leaving=True),
        M_2: Stray(M_2, "ec2", None, leaving=False),
    },
    away={M_3: RACK, MachineId("m-4"): None},
    term=2**60,
    done=(
        Done(instruction="i-1", outcome=Outcome.REJECTED_INVALID, reason="“no”"),
        Done(instruction="i-2", outcome=Outcome.ACCEPTED, given=(Handed(M_3, "metal", RACK),)),
    ),
    promises=(
        Promise(
            instruction="i-3",
            to=ShardId("shard-b"),
            victims=(Victim(Handed(M_1, "metal", None), 30),),
            priority=-5,
            until_s=1700.5,
        ),
    ),
)
FILES: Final = ("owned.json", "quota.json", "controls.json", "listed.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shards" / "shard-0"


def life(folder: Path) -> int:
    with DataDir(folder) as data:
        return data.epoch


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


class TestEpoch:
    def test_each_life_has_the_next_number(self, folder: Path) -> None:
        assert [life(folder) for _ in range(3)] == [1, 2, 3]

    def test_it_is_kept_as_a_decimal_text(self, folder: Path) -> None:
        life(folder)

        assert (folder / "epoch").read_text() == "1\n"

    @pytest.mark.parametrize("text", ["41", "41\n", "0041\n"])
    def test_one_that_people_wrote_counts(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True)
        (folder / "epoch").write_text(text)

        assert life(folder) == 42

    @pytest.mark.parametrize(
        "text",
        ["", "\n", "x", "-1", "1.5", "1 2", "0x10", "٤", "4\n\n", "9" * 40, str(EPOCH_MAX)],
    )
    def test_one_that_cannot_be_read_refuses_to_start_and_says_what_to_do(
        self, folder: Path, text: str
    ) -> None:
        folder.mkdir(parents=True)
        (folder / "epoch").write_text(text)

        with pytest.raises(Rejected, match=r"epoch .* cannot be read: .*; write a number into it"):
            DataDir(folder)

        assert (folder / "epoch").read_text() == text

    def test_the_last_one_there_can_be_is_one_below_the_bound(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "epoch").write_text(str(EPOCH_MAX - 1))

        assert life(folder) == EPOCH_MAX

    def test_one_that_is_no_file_refuses_to_start(self, folder: Path) -> None:
        (folder / "epoch").mkdir(parents=True)

        with pytest.raises(Rejected, match="cannot be read: Is a directory"):
            DataDir(folder)

    def test_a_life_that_cannot_be_written_down_does_not_begin(self, folder: Path) -> None:
        life(folder)
        (folder / "epoch.new").mkdir()

        with pytest.raises(Unavailable, match="epoch cannot be written: Is a directory"):
            DataDir(folder)

        assert (folder / "epoch").read_text() == "1\n"

    def test_what_a_crash_left_half_written_is_not_read(self, folder: Path) -> None:
        life(folder)
        (folder / "epoch.new").write_text("99")

        assert life(folder) == 2


class TestLock:
    def test_a_second_process_is_refused_and_told_who_has_it(self, folder: Path) -> None:
        with DataDir(folder) as first:
            with pytest.raises(Unavailable, match=r"in use by process \d+; stop it"):
                DataDir(folder)

            assert first.epoch == 1
        assert life(folder) == 2

    def test_the_process_that_had_it_before_is_not_blamed(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "lock").write_text("123456789012\n")

        with (
            DataDir(folder),
            pytest.raises(Unavailable, match=rf"in use by process {os.getpid()};"),
        ):
            DataDir(folder)

    def test_a_process_that_is_killed_lets_go_of_it(self, folder: Path) -> None:
        script = (
            "import os, signal, sys; from pathlib import Path\n"
            "from mainstay.shard.datadir import DataDir\n"
            "from mainstay.shard.ownership.owned import Owned\n"
            "data = DataDir(Path(sys.argv[1])); data.owned.keep(Owned(term=7))\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )

        ended = outside.run([sys.executable, "-c", script, folder])

        assert ended.returncode == -9, ended.stderr
        with DataDir(folder) as data:
            assert data.epoch == 2
            assert data.owned.value.term == 7

    def test_a_start_that_is_refused_leaves_it_free(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "epoch").write_text("x")
        with pytest.raises(Rejected):
            DataDir(folder)

        (folder / "epoch").write_text("4")

        assert life(folder) == 5

    def test_a_folder_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")

        with pytest.raises(Unavailable, match="cannot be used: "):
            DataDir(tmp_path / "file")

    def test_closing_twice_is_harmless(self, folder: Path) -> None:
        data = DataDir(folder)
        data.close()
        data.close()

    def test_nobody_else_may_look_into_a_new_one(self, folder: Path) -> None:
        life(folder)

        assert folder.stat().st_mode & 0o777 == 0o700


class TestKept:
    def test_a_new_shard_was_never_assigned_anything(self, folder: Path) -> None:
        with DataDir(folder) as data:
            assert data.owned.value == Owned()
            assert data.quota.value == NO_QUOTA
            assert data.controls.value == ()

    def test_what_is_owned_quota_and_controls_survive_a_restart(self, folder: Path) -> None:
        with DataDir(folder) as data:
            data.owned.keep(MUCH_OWNED)
            data.quota.keep(A_QUOTA)
            data.controls.keep((A_CONTROL, A_PAUSE))

        with DataDir(folder) as data:
            assert data.owned.value == MUCH_OWNED
            assert data.quota.value == A_QUOTA
            assert data.controls.value == (A_CONTROL, A_PAUSE)

    def test_no_domain_left_is_not_the_same_as_never_assigned(self, folder: Path) -> None:
        """Else taking the last one away would widen a shard to everything."""
        with DataDir(folder) as data:
            data.owned.keep(Owned(domains=frozenset(), assigned=True))

        with DataDir(folder) as data:
            assert data.owned.value.domains == frozenset()
            data.owned.keep(Owned(domains=frozenset({RACK}), term=2))

        with DataDir(folder) as data:
            assert data.owned.value == Owned(term=2)

    def test_what_was_kept_last_counts(self, folder: Path) -> None:
        with DataDir(folder) as data:
            data.quota.keep(A_QUOTA)
            data.quota.keep(NO_QUOTA)
            assert data.quota.value == NO_QUOTA

        with DataDir(folder) as data:
            assert data.quota.value == NO_QUOTA

    def test_what_cannot_be_written_changes_nothing(self, folder: Path) -> None:
        with DataDir(folder) as data:
            data.quota.keep(A_QUOTA)
            (folder / "quota.json.new").mkdir()

            with pytest.raises(Unavailable, match=r"quota.json cannot be written"):
                data.quota.keep(NO_QUOTA)

            assert data.quota.value == A_QUOTA
            (folder / "quota.json.new").rmdir()
        with DataDir(folder) as data:
            assert data.quota.value == A_QUOTA


def value(of: object) -> str:
    return json.dumps({"version": 1, "value": of})


def a_control_with(**changes: object) -> str:
    parts = {
        "kind": "pause", "cluster": None, "value": 0, "reason": "r", "by": "b",
        "set_at_s": 0, "expires_at_s": 1, **changes,
    }  # fmt: skip
    return value([parts])


def owned_with(**changes: object) -> str:
    parts: dict[str, object] = {
        "domains": None,
        "here": [],
        "away": [],
        "term": 0,
        "done": [],
        "promises": [],
    }
    return value({**parts, **changes})


UNREADABLE: Final = {
    "no JSON": lambda _: "{",
    "empty": lambda _: "",
    "another thing": lambda _: "[]",
    "no version": lambda _: "{}",
    "a later version": lambda _: '{"version": 2, "value": []}',
    "no value": lambda _: '{"version": 1}',
    "a number": lambda _: value(7),
    "a text": lambda _: value("text"),
    "an empty text": lambda _: value(""),
    "an empty object": lambda _: value({}),
    "deep": lambda _: "[" * 100_000,
}


class TestUnreadable:
    @pytest.mark.parametrize("file", FILES)
    @pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
    def test_a_file_that_cannot_be_read_refuses_to_start_before_anything_changes(
        self, folder: Path, file: str, text: Callable[[str], str]
    ) -> None:
        life(folder)
        (folder / file).write_text(text(file))
        before = contents(folder)

        with pytest.raises(
            Rejected, match=rf"{file} cannot be read: .*; restore it, or remove it and start with"
        ):
            DataDir(folder)

        assert contents(folder) == before

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("owned.json", owned_with(domains=[["rack"]])),
            ("owned.json", owned_with(domains=[["rack", ""]])),
            ("owned.json", owned_with(domains=[["rack", 1]])),
            ("owned.json", owned_with(domains={})),
            ("owned.json", owned_with(here=[["m-1", "metal", None]])),
            ("owned.json", owned_with(here=[["m-1", "metal", None, 1]])),
            ("owned.json", owned_with(here=[["m 1", "metal", None, True]])),
            ("owned.json", owned_with(here=[["m-1", "", None, True]])),
            ("owned.json", owned_with(away=[["m-1", ["rack"]]])),
            ("owned.json", owned_with(away={})),
            ("owned.json", owned_with(term="7")),
            ("owned.json", owned_with(term=True)),
            ("owned.json", owned_with(done=[["i-1", 9, "", []]])),
            ("owned.json", owned_with(done=[["i-1", 1, None, []]])),
            ("owned.json", owned_with(promises=[{"instruction": "i-1"}])),
            ("owned.json", owned_with(promises=[7])),
            ("quota.json", value({"machines": {"web": -1}, "slots": []})),
            ("quota.json", value({"machines": {"web": 1.5}, "slots": []})),
            ("quota.json", value({"machines": {"web": True}, "slots": []})),
            ("quota.json", value({"machines": {"a b": 1}, "slots": []})),
            ("quota.json", value({"machines": [], "slots": []})),
            ("quota.json", value({"machines": {}, "slots": {}})),
            ("quota.json", value({"machines": {}, "slots": [["ec2", None, 1]]})),
            ("controls.json", a_control_with(kind="stop")),
            ("controls.json", a_control_with(reason="")),
            ("controls.json", a_control_with(expires_at_s=0)),
            ("controls.json", a_control_with(expires_at_s=float("nan"))),
            ("controls.json", a_control_with(expires_at_s=10**400)),
            ("controls.json", a_control_with(value="1")),
            ("controls.json", a_control_with(cluster=3)),
        ],
    )
    def test_a_value_that_cannot_be_refuses_to_start(
        self, folder: Path, file: str, text: str
    ) -> None:
        folder.mkdir(parents=True)
        (folder / file).write_text(text)

        with pytest.raises(Rejected, match=f"{file} cannot be read"):
            DataDir(folder)

        assert not (folder / "epoch").exists()

    def test_bytes_that_are_no_text_refuse_to_start(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "owned.json").write_bytes(b"\xff\xfe")

        with pytest.raises(Rejected, match=r"owned\.json cannot be read"):
            DataDir(folder)


def test_a_missing_epoch_beside_other_files_refuses_to_start(tmp_path: Path) -> None:
    """An older life's number would be used again, and its calls be fenced or, worse, not."""
    with DataDir(tmp_path) as data:
        data.owned.keep(Owned(term=1))
    (tmp_path / "epoch").unlink()

    with pytest.raises(Rejected, match="it is missing"):
        DataDir(tmp_path)

"""A PostgreSQL of our own, in every situation it may be started in."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import outside
from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database import cluster
from mainstay.tenancy.database.account import UNPRIVILEGED
from mainstay.tenancy.database.binaries import INSTALLED, LIBRARIES, PACKAGE, _installed, can_reach
from mainstay.tenancy.database.cluster import InUse, forget
from mainstay.tenancy.database.embedded import Server, embedded

PROGRAM: Final = outside.ROOT / "tests" / "lone_server.py"
PATIENCE_S: Final = 60.0
NOBODY: Final = pwd.getpwnam(UNPRIVILEGED)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter."""
    folder = Path(tempfile.mkdtemp(prefix="mainstay-embedded-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where a server has been before, and left a note."""
    with open_folder() as folder:
        with embedded(folder) as server:
            say(server.url, "create table notes (note text)")
            say(server.url, "insert into notes values ('kept')")
        yield folder


def say(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def notes(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [note for (note,) in connection.execute("select note from notes order by note")]


def answers(server: Server) -> bool:
    with psycopg.connect(server.url) as connection:
        return connection.execute("select 1").fetchone() == (1,)


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def modes(*places: Path) -> dict[Path, tuple[int, int, int]]:
    """Mode and owner of each folder and of all above it."""
    above = {path for place in places for path in (place, *place.resolve().parents)}
    found = {path: path.stat() for path in above}
    return {path: (it.st_mode, it.st_uid, it.st_gid) for path, it in found.items()}


class TestStartingAgain:
    def test_what_was_committed_is_there_at_the_second_start(self, home: Path) -> None:
        with embedded(home) as server:
            assert notes(server.url) == ["kept"]

    def test_the_password_is_in_a_file_that_only_we_can_read(self, home: Path) -> None:
        path = home / "password"

        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_uid == os.geteuid()
        assert len(path.read_text()) >= 32
        assert not list(home.rglob("initial-password"))

    def test_nobody_gets_in_without_the_password(self, home: Path) -> None:
        with embedded(home) as server, pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"host=127.0.0.1 port={server.port} user=mainstay", password="guess")

    def test_it_is_at_the_port_it_is_told_and_a_taken_one_is_said_in_one_line(
        self, home: Path
    ) -> None:
        with embedded(home) as server:
            port = server.port
            with (
                open_folder() as other,
                pytest.raises(Rejected) as refused,
                embedded(other, port=port),
            ):
                pytest.fail("two servers at one port")
        assert str(refused.value) == f"cannot listen at 127.0.0.1:{port}: Address already in use"

        with embedded(home, port=port) as server:
            assert answers(server)
            assert server.port == port

    def test_it_is_gone_when_the_block_is_left(self, home: Path) -> None:
        with embedded(home) as server:
            assert answers(server)

        assert not is_alive(server.pid)

    def test_two_at_once_are_refused_in_one_line(self, home: Path) -> None:
        with embedded(home), pytest.raises(InUse) as refused, embedded(home):
            pytest.fail("two servers on one folder")

        assert str(refused.value) == (
            f"another process runs PostgreSQL in {home}: stop it, or choose another home"
        )

    @pytest.mark.parametrize(
        "text",
        ["", "nonsense\n", "4194305\n", f"{os.getpid()}\n"],
        ids=["empty", "no number", "a process that is gone", "a number that was used again"],
    )
    def test_a_stale_pid_file_does_not_keep_it_from_starting(self, home: Path, text: str) -> None:
        (data_of(home) / "postmaster.pid").write_text(text)

        with embedded(home) as server:
            assert notes(server.url) == ["kept"]

    @pytest.mark.parametrize("kept", ["", "another"], ids=["gone", "another one's"])
    def test_a_password_that_does_not_fit_is_made_anew_and_nothing_else_is(
        self, home: Path, kept: str
    ) -> None:
        path = home / "password"
        before = path.read_text()
        path.write_text(kept)
        if not kept:
            path.unlink()

        with embedded(home) as server:
            assert notes(server.url) == ["kept"]
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(server.url.replace(path.read_text(), before))
        assert path.stat().st_mode & 0o777 == 0o600
        with embedded(home) as server:
            assert notes(server.url) == ["kept"]

    def test_a_start_that_was_cut_short_is_begun_anew(self, home: Path) -> None:
        unfinished = data_of(home).with_name("data.unfinished")
        with open_folder() as other:
            shutil.copytree(home, other, dirs_exist_ok=True)
            place = data_of(other)
            place.rename(place.with_name(unfinished.name))
            with embedded(other) as server:
                assert answers(server)
            assert not place.with_name(unfinished.name).exists()


def data_of(home: Path) -> Path:
    return home / "server" / "data" if os.geteuid() == 0 else home / "data"


def is_alive(pid: int) -> bool:
    """Whether it runs; one that nobody has buried yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


@contextmanager
def program(*words: object) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """Another process with a server of its own; what it says of it."""
    command = [sys.executable, str(PROGRAM), *map(str, words)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd="/", env=outside.environment(PYTHONPATH=f"{outside.ROOT}/src"),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            said = process.stdout.readline()
            assert said, process.stderr.read()
            yield process, json.loads(said)
        finally:
            process.kill()


class TestParent:
    def test_after_kill_9_of_the_parent_the_server_goes_and_the_next_start_has_it_all(
        self, home: Path
    ) -> None:
        with program(home) as (process, told):
            say(told["url"], "insert into notes values ('last words')")
            process.send_signal(signal.SIGKILL)
            process.wait()
            with embedded(home) as server:  # at once: it waits for the other one to be gone
                assert notes(server.url) == ["kept", "last words"]
                say(server.url, "delete from notes where note <> 'kept'")
            until_gone(told["pid"])

    def test_after_kill_9_of_both_what_was_committed_is_recovered(self, home: Path) -> None:
        with program(home) as (process, told):
            say(told["url"], "insert into notes values ('last words')")
            process.send_signal(signal.SIGKILL)
            os.kill(told["pid"], signal.SIGKILL)
            process.wait()
            until_gone(told["pid"])

        assert (data_of(home) / "postmaster.pid").exists()
        with embedded(home) as server:
            assert notes(server.url) == ["kept", "last words"]
            say(server.url, "delete from notes where note <> 'kept'")

    def test_a_parent_that_ends_in_order_takes_the_server_with_it(self, home: Path) -> None:
        with program(home) as (process, told):
            process.communicate("")

        assert process.returncode == 0
        assert not is_alive(told["pid"])
        assert not (data_of(home) / "postmaster.pid").exists()


@contextmanager
def closed_home() -> Iterator[tuple[Path, Path]]:
    """A folder below one that only root can enter, and where its files go instead."""
    with open_folder() as ours, open_folder() as elsewhere:
        closed = ours / "closed"
        closed.mkdir(mode=0o700)
        yield closed / "home", elsewhere


@contextmanager
def closed_binaries(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment that only root can read, as one under an umask of 077."""
    with open_folder() as ours:
        closed = ours / "closed"
        closed.mkdir(mode=0o700)
        shutil.copytree(_installed(), closed / PACKAGE / INSTALLED, symlinks=True)
        shutil.copytree(_installed().parent.with_name(LIBRARIES), closed / LIBRARIES)
        for path in (closed / PACKAGE).rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o700)
        (closed / PACKAGE / "__init__.py").touch()
        monkeypatch.syspath_prepend(closed)
        yield closed


class TestWhoRunsIt:
    @as_root
    def test_root_runs_it_as_an_unprivileged_user(self, home: Path) -> None:
        with embedded(home) as server:
            assert owner_of(server.pid) == NOBODY.pw_uid

    @as_root
    def test_root_under_a_0700_parent_puts_its_files_elsewhere_and_changes_no_mode(self) -> None:
        with open_folder() as ours, open_folder() as elsewhere:
            closed = ours / "closed"
            closed.mkdir(mode=0o700)
            folder = closed / "home"
            folder.mkdir(mode=0o700)
            before = modes(folder, elsewhere)

            with embedded(folder, elsewhere=elsewhere) as server:
                assert answers(server)
                assert owner_of(server.pid) == NOBODY.pw_uid

            assert modes(folder, elsewhere) == before
            (made,) = elsewhere.iterdir()
            assert (made / "data" / "PG_VERSION").exists()
            assert made.stat().st_uid == NOBODY.pw_uid
            with embedded(folder, elsewhere=elsewhere) as server:
                assert answers(server)
            assert list(elsewhere.iterdir()) == [made]

    @as_root
    def test_a_home_made_again_at_the_same_path_begins_anew_and_deletes_nothing(self) -> None:
        with closed_home() as (folder, elsewhere):
            with embedded(folder, elsewhere=elsewhere) as server:
                say(server.url, "create table notes (note text)")
            (lost,) = elsewhere.iterdir()
            shutil.rmtree(folder)

            with embedded(folder, elsewhere=elsewhere) as server:
                say(server.url, "create table notes (note text)")

            assert (lost / "data" / "PG_VERSION").exists()
            assert len({*elsewhere.iterdir()} - {lost}) == 1

    @as_root
    def test_what_is_elsewhere_is_forgotten_with_the_home_and_nothing_else_is(self) -> None:
        with closed_home() as (folder, elsewhere):
            another = folder.with_name("another")
            for each in (folder, another):
                with embedded(each, elsewhere=elsewhere) as server:
                    say(server.url, "create table notes (note text)")
            lost = elsewhere / f"{cluster._named(folder)}-a-symlink"
            lost.symlink_to(another)
            with (
                embedded(folder, elsewhere=elsewhere) as server,
                pytest.raises(InUse, match="another process runs PostgreSQL in"),
            ):
                forget(folder, elsewhere=elsewhere)

            forget(folder, elsewhere=elsewhere)

            assert not folder.exists()
            assert (another / "password").exists()
            assert len([place for place in elsewhere.iterdir() if place != lost]) == 1
            with embedded(another, elsewhere=elsewhere) as server:
                say(server.url, "select from notes")

    @as_root
    def test_binaries_that_the_user_cannot_read_are_copied_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with closed_binaries(monkeypatch) as closed, open_folder() as ours:
            before = modes(closed / PACKAGE / INSTALLED)

            with embedded(ours / "home") as server:
                assert answers(server)
                running = Path(f"/proc/{server.pid}/exe").readlink()

            (copy,) = (ours / "home" / "server").glob("binaries-*")
            assert running == copy / PACKAGE / INSTALLED / "bin" / "postgres"
            assert modes(closed / PACKAGE / INSTALLED) == before
            written = copy.stat().st_mtime_ns
            with embedded(ours / "home") as server:
                assert answers(server)
            assert copy.stat().st_mtime_ns == written

    @as_root
    def test_a_folder_that_is_not_ours_to_write_is_said_in_one_line(self) -> None:
        with open_folder() as ours:
            ended = outside.run(
                [sys.executable, PROGRAM, ours, str(NOBODY.pw_uid)],
                env=outside.environment(PYTHONPATH=f"{outside.ROOT}/src"),
            )

        assert ended.stderr.splitlines()[-1] == (
            "mainstay.model.errors.Rejected: "
            f"cannot write in {ours}: Permission denied (set MAINSTAY_HOME)"
        )

    @as_root
    def test_a_copy_for_which_there_is_no_room_is_said_in_one_line(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with closed_binaries(monkeypatch), small_disk("8m") as folder:
            with (
                pytest.raises(Unavailable, match="No space left on device") as no,
                embedded(folder),
            ):
                pytest.fail("there was room")

            assert "\n" not in str(no.value)

    @as_root
    def test_an_ordinary_user_runs_the_binaries_where_they_are(self) -> None:
        if not can_reach(_installed() / "bin" / "postgres", NOBODY.pw_uid):
            pytest.skip("no ordinary user can read this environment")
        with open_folder() as ours:
            os.chown(ours, NOBODY.pw_uid, NOBODY.pw_gid)
            before = modes(ours)

            with program(ours / "home", NOBODY.pw_uid) as (process, told):
                running = Path(f"/proc/{told['pid']}/exe").readlink()
                assert owner_of(told["pid"]) == owner_of(process.pid) == NOBODY.pw_uid
                say(told["url"], "create table notes (note text)")
                process.communicate("")

            assert running == (_installed() / "bin" / "postgres").resolve()
            assert modes(ours) == before
            assert sorted(path.name for path in (ours / "home").iterdir()) == [
                "data", "lock", "password", "postgres.log",
            ]  # fmt: skip

    def test_one_who_is_no_root_runs_it_himself(self, tmp_path: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("this is root; the test before has it as an ordinary user")
        with embedded(tmp_path) as server:
            assert owner_of(server.pid) == os.geteuid()


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    with open_folder() as folder:
        mounted = outside.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", folder]
        )
        if mounted.returncode:
            pytest.skip("no small disk can be mounted here")
        try:
            yield folder
        finally:
            outside.run(["umount", "--lazy", folder])


@as_root
@pytest.mark.parametrize("size", ["4k", "16k", "8m"])
def test_a_full_disk_is_said_in_one_line(size: str) -> None:
    with small_disk(size) as folder:
        with pytest.raises(Unavailable, match="No space left on device") as no, embedded(folder):
            pytest.fail("there was room")

        assert "\n" not in str(no.value)
        assert not (data_of(folder) / "PG_VERSION").exists(), "nothing half done"


@as_root
def test_a_disk_that_has_room_again_is_used() -> None:
    with small_disk("400m") as folder:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(395 << 20))
        with pytest.raises(Unavailable, match="No space left on device"), embedded(folder):
            pytest.fail("there was room")
        ballast.unlink()

        with embedded(folder) as server:
            assert answers(server)

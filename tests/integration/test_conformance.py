"""Providers as processes, and the conformance suite against them by gRPC, with TLS and without."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

import nursery
import outside
from certificates import Authority
from mainstay.wire.tls import TlsFlags
from nursery import Born
from tree import BIN

LOOPBACK: Final = "127.0.0.1:0"
PROVIDER: Final = (str(BIN / "mainstay"), "provider")
ADMIN: Final = "bigfleet://admin"

QUICK: Final = """\
[[pool]]
capacity = "OnDemand"
slots = 60

[[pool]]
capacity = "BareMetal"
slots = 6

[latency_s]
create = 0.05
configure = 0.05
drain = 0.05
delete = 0.05

"""
FAULTY: Final = f"fault_slots = 4\n{QUICK}\n[timeout_s]\nconfigure = 2\n"


@dataclass(frozen=True)
class Place:
    """Where the processes of one test live."""

    folder: Path

    def environment(self) -> dict[str, str]:
        return outside.environment(MAINSTAY_HOME=str(self.folder / "home"))

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def announcements(self) -> list[Path]:
        return sorted((self.folder / "home/run").glob("*.json"))

    @contextmanager
    def provider(self, *words: str) -> Iterator[dict[str, Any]]:
        """A provider at work; what it announces. It is gone when the block is left."""
        log = self.folder / "provider.log"
        command = ["provider", *words]
        process = nursery.logged(command, log, cwd=outside.ROOT, **self.environment())
        try:
            yield self._ready(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            finally:
                process.kill()
                process.wait()
        assert process.returncode == 0
        assert self.announcements() == []

    def _ready(self, process: Born) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if announced := self.announcements():
                told: dict[str, Any] = json.loads(announced[0].read_text())
                assert told["pid"] == process.pid
                return told
            time.sleep(0.05)
        raise AssertionError((self.folder / "provider.log").read_text())

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return nursery.run(words, cwd=outside.ROOT, env=self.environment(), timeout_s=150)

    def conformance(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return self.run("conformance", *words)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def words(flags: TlsFlags) -> list[str]:
    return ["--tls-cert", flags.cert, "--tls-key", flags.key, "--tls-ca", flags.ca]


def hosts(count: int) -> str:
    host = '[[host]]\nname = "r{0}"\ntype = "h100-8"\nzone = "a"\nresources = {{cpu = 8}}\n'
    return "".join(host.format(number) for number in range(count))


def report_of(ended: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert ended.stdout, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    bad = [each for each in report["checks"] if each["outcome"] in {"failed", "not run"}]
    assert bad == []
    assert report["grade"] == "conformant"
    assert ended.returncode == 0
    return report


class TestProvidersConform:
    def test_the_mixed_fleet_of_the_simulator_has_enough_for_anybody(self, place: Place) -> None:
        with place.provider("sim", "--listen", LOOPBACK) as told:
            ended = place.conformance(told["addresses"]["grpc"], "-o", "json")

        report = report_of(ended)
        assert report["machines_found"]["Speculative"] >= 500
        assert report["machines_found"]["Idle"] > 0
        assert report["not_given_back"] == []
        assert report["counts"]["passed"] >= 95

    def test_the_simulator_conforms_over_mutual_tls(
        self, place: Place, authority: Authority
    ) -> None:
        fleet = place.file("fleet.toml", QUICK)
        flags = words(authority.flags(ADMIN))

        with place.provider("sim", "--listen", LOOPBACK, "--fleet", str(fleet), *flags) as told:
            assert told["tls"]["cert"] == flags[1]
            ended = place.conformance(told["addresses"]["grpc"], *flags, "-o", "json")

        report = report_of(ended)
        assert report["counts"]["passed"] >= 95

    @pytest.mark.parametrize("over", ["plaintext", "mutual TLS"])
    def test_bare_metal_conforms_and_is_never_deleted(
        self, place: Place, authority: Authority, over: str
    ) -> None:
        path = place.file("hosts.toml", hosts(60))
        flags = ["--insecure"] if over == "plaintext" else words(authority.flags(ADMIN))

        with place.provider("static", "--hosts", str(path), "--listen", LOOPBACK, *flags) as told:
            ended = place.conformance(told["addresses"]["grpc"], *flags, "-o", "json")

        report = report_of(ended)
        assert report["machines_found"] == {"Idle": 60}
        assert report["not_given_back"] == []
        skipped = {each["id"]: each["why"] for each in report["checks"] if each["why"]}
        assert skipped["CreateIdempotent"] == "it has no quota slots: nothing can be created"
        assert report["counts"]["passed"] >= 70


RESTART: Final = """\
import os, signal, subprocess, sys

pid_file, log, *command = sys.argv[1:]
if os.path.exists(pid_file):
    os.kill(int(open(pid_file).read()), signal.SIGKILL)
with open(log, "ab") as output:
    process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
with open(pid_file, "w") as file:
    file.write(str(process.pid))
"""


@contextmanager
def restartable(place: Place, command: Sequence[str]) -> Iterator[str]:
    """A command that starts a provider anew each time; the last one is gone at the end."""
    script, pid = place.file("restart.py", RESTART), place.folder / "pid"
    line = [sys.executable, str(script), str(pid), str(place.folder / "log"), *command]
    try:
        assert outside.run(line, env=place.environment()).returncode == 0
        yield shlex.join(line)
    finally:
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGKILL)


class TestTorment:
    def test_a_simulator_that_is_killed_in_the_middle_of_steps_loses_nothing(
        self, place: Place
    ) -> None:
        fleet, state = place.file("fleet.toml", FAULTY), place.folder / "state.db"
        with place.provider("sim", "--listen", LOOPBACK, "--fleet", str(fleet)) as told:
            address = told["addresses"]["grpc"]  # free again when this one is gone
        command = [
            *(*PROVIDER, "sim", "--listen", address),
            *("--fleet", str(fleet), "--state", str(state)),
        ]

        with restartable(place, command) as restart:
            while not place.announcements():
                time.sleep(0.05)
            ended = place.conformance(
                address, "--torment", "--restart-command", restart, "-o", "json"
            )

        report = report_of(ended)
        assert report["by_part"]["fault"]["passed"] == 8
        assert report["by_part"]["durable"]["passed"] == 7
        assert report["by_part"]["torment"]["passed"] == 11
        assert report["counts"]["not asked"] == 0


class TestTheCommand:
    def test_nobody_there_is_a_code_of_its_own(self, place: Place) -> None:
        ended = place.conformance("127.0.0.1:1", "--insecure")

        assert ended.returncode == 3
        assert "the provider cannot be listed" in ended.stderr
        assert ended.stderr.count("\n") == 1

    def test_plaintext_to_another_machine_is_refused(self, place: Place) -> None:
        ended = place.conformance("example.org:9000")

        assert ended.returncode == 1
        assert "plaintext only on loopback" in ended.stderr

    def test_a_shard_may_not_act_in_the_name_of_others_and_is_told_what_to_use(
        self, place: Place, authority: Authority
    ) -> None:
        fleet = place.file("fleet.toml", QUICK)
        server = words(authority.flags(ADMIN, name="server"))
        shard = words(authority.flags("bigfleet://shard/s-0", name="shard"))
        reader = words(authority.flags("bigfleet://cluster/c-0", name="reader"))

        with place.provider("sim", "--listen", LOOPBACK, "--fleet", str(fleet), *server) as told:
            address = told["addresses"]["grpc"]
            as_shard = place.conformance(address, *shard)
            as_reader = place.conformance(address, *reader)

        for ended in (as_shard, as_reader):
            assert ended.returncode == 1
            assert "use a certificate for bigfleet://admin" in ended.stderr

    def test_one_check_can_be_asked_for_in_every_form(self, place: Place) -> None:
        fleet = place.file("fleet.toml", QUICK)
        with place.provider("sim", "--listen", LOOPBACK, "--fleet", str(fleet)) as told:
            address = told["addresses"]["grpc"]
            table = place.conformance(address, "--check", "B101")
            junit = place.conformance(address, "--check", "B101", "-o", "junit")
            unknown = place.conformance(address, "--check", "B999")

        assert table.returncode == 0
        assert "B101" in table.stdout
        assert f"grade of {address}: conformant" in table.stdout
        assert table.stderr == f"Plaintext at {address}: loopback, and no --tls flags were given.\n"
        suite = ET.fromstring(junit.stdout)
        assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
        assert unknown.returncode == 1
        assert "no such check: B999" in unknown.stderr


class TestProviders:
    def test_bare_metal_is_not_served_without_a_word_on_tls(self, place: Place) -> None:
        path = place.file("hosts.toml", hosts(1))
        command = ["provider", "static", "--hosts", str(path), "--listen", LOOPBACK]

        ended = place.run(*command)

        assert ended.returncode == 1
        assert "no TLS: give --tls-cert" in ended.stderr

    @pytest.mark.parametrize("kind", ["static", "ec2"])
    def test_a_provider_without_its_file_says_which_to_give(self, place: Place, kind: str) -> None:
        command = ["provider", kind, "--insecure", "--listen", LOOPBACK]

        ended = place.run(*command)

        assert ended.returncode == 1
        assert ": give --" in ended.stderr
        assert ended.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("flag", "text", "complaint"),
        [
            ("--fleet", "[[pool]]\nslots = 1\ncolour = 1\n", "unknown key: colour"),
            ("--faults", 'fog = "1"\n', "no such fault: fog"),
        ],
    )
    def test_a_wrong_file_is_one_line_and_nothing_is_served(
        self, place: Place, flag: str, text: str, complaint: str
    ) -> None:
        path = place.file("wrong.toml", text)
        command = ["provider", "sim", "--listen", LOOPBACK, flag, str(path)]

        ended = place.run(*command)

        assert ended.returncode == 1
        assert complaint in ended.stderr
        assert ended.stderr.count("\n") == 1
        assert place.announcements() == []


class TestPages:
    def test_a_provider_tells_its_health_and_metrics_and_takes_other_faults(
        self, place: Place
    ) -> None:
        fleet = place.file("fleet.toml", QUICK)
        words = ("--listen", LOOPBACK, "--http", LOOPBACK, "--fleet", str(fleet))

        with place.provider("sim", *words) as told:
            at = f"http://{told['addresses']['http']}"
            assert fetched(f"{at}/healthz") == (200, "ok\n")
            assert fetched(f"{at}/readyz") == (200, "ok\n")
            assert (
                'mainstay_provider_machines_count{state="Speculative"} 60.0'
                in (fetched(f"{at}/metrics")[1])
            )
            assert "notice_s=0.0" in fetched(f"{at}/faults")[1]
            assert "notice_s=120.0" in fetched(f"{at}/faults", '{"notice_s": "120"}')[1]
            assert fetched(f"{at}/faults", '{"no": "1"}')[1].startswith("no such fault: no")
            assert "notice_s=120.0" in fetched(f"{at}/faults")[1]


def fetched(url: str, body: str | None = None) -> tuple[int, str]:
    """A page, or what was posted to it came to; nothing goes through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, data=None if body is None else body.encode(), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()

"""What `mainstay provider new` writes, and what a newcomer writes from our page, conforms."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

import outside
from mainstay.conformance.report import Grade, Outcome, remarks
from mainstay.conformance.table import CHECKS
from mainstay.model.errors import NoCapacity
from mainstay.processes.own_backend import examined
from mainstay.providers.kit.backend import Job
from providers_by_newcomers import file_hosts
from tree import BIN

MAINSTAY: Final = str(BIN / "mainstay")


@dataclass(frozen=True)
class Project:
    """A folder with a backend in it, and the processes that are run there."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def change(self, old: str, new: str) -> None:
        """Put other words into the backend."""
        path = self.folder / "my_rack_backend.py"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        variables = outside.environment(MAINSTAY_HOME=str(self.home))
        return outside.run(words, cwd=self.folder, env=variables, timeout_s=100)

    @contextmanager
    def served(self, *words: str) -> Iterator[dict[str, Any]]:
        """`mainstay provider serve` at work; what it announces. Gone when the block is left."""
        log = (self.folder / "log").open("wb")
        process = subprocess.Popen(
            [MAINSTAY, "provider", "serve", *words, "--insecure", "--listen", "127.0.0.1:0"],
            cwd=self.folder, env=outside.environment(MAINSTAY_HOME=str(self.home)),
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield self._announced(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            finally:
                process.kill()
                process.wait()
                log.close()
        assert process.returncode == 0

    def _announced(self, process: "subprocess.Popen[bytes]") -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            for path in (self.home / "run").glob("*.json"):
                told: dict[str, Any] = json.loads(path.read_text())
                return told
            time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def report(self, target: str) -> dict[str, Any]:
        """What the suite says of the backend, served by a process of its own."""
        with self.served(target) as told:
            ended = self.run(MAINSTAY, "conformance", told["addresses"]["grpc"], "-o", "json")
        assert ended.stdout, ended.stderr
        report: dict[str, Any] = json.loads(ended.stdout)
        bad = [each for each in report["checks"] if each["outcome"] in {"failed", "not run"}]
        assert bad == []
        assert ended.returncode == 0
        return report


@pytest.fixture
def template(tmp_path: Path) -> Project:
    ended = outside.run([MAINSTAY, "provider", "new", "my-rack", "--folder", tmp_path])
    assert ended.returncode == 0, ended.stderr
    return Project(tmp_path / "my-rack")


def test_the_template_conforms_as_it_is(template: Project) -> None:
    report = template.report("my_rack_backend:make_backend")

    assert report["grade"] == "conformant"
    assert report["machines_found"] == {"Speculative": 60}
    assert report["not_given_back"] == []
    assert report["by_part"]["baseline"]["passed"] == sum(report["by_part"]["baseline"].values())
    assert (template.home / "providers/my-rack.db").exists()


def test_the_test_of_the_template_passes(template: Project) -> None:
    without = ("-p", "no:cacheprovider", "-p", "no:schemathesis")
    ended = template.run(sys.executable, "-m", "pytest", "-q", *without)

    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout


def test_a_provider_written_from_the_page_conforms_in_any_weather(tmp_path: Path) -> None:
    report = asyncio.run(examined(lambda: file_hosts.make_backend(tmp_path), torment=True))

    assert report.exit_code == 0, "\n".join(remarks(report))
    assert report.grade is Grade.CONFORMANT
    assert report.counts[Outcome.NOT_ASKED] == 0


def test_a_backend_that_breaks_a_step_is_seen(tmp_path: Path) -> None:
    class Broken(file_hosts.FileHosts):
        @override
        async def drain(self, job: Job, grace_s: int) -> None:
            raise NoCapacity("it is stuck")

    walk = [check for check in CHECKS if check.id == "FullLifecycle"]

    report = asyncio.run(examined(lambda: Broken(tmp_path), checks=walk))

    assert report.grade is Grade.FAILED
    assert "it is stuck" in "".join(remarks(report))


class TestServe:
    def test_a_backend_that_is_not_there_is_one_line(self, tmp_path: Path) -> None:
        ended = Project(tmp_path).run(MAINSTAY, "provider", "serve", "absent:make", "--insecure")

        assert ended.returncode == 1
        assert "no module absent: absent:make (run in the folder it is in" in ended.stderr
        assert ended.stderr.count("\n") == 1

    def test_it_is_not_served_without_a_word_on_tls(self, template: Project) -> None:
        ended = template.run(MAINSTAY, "provider", "serve", "my_rack_backend:make_backend")

        assert ended.returncode == 1
        assert "no TLS: give --tls-cert" in ended.stderr

    def test_a_step_has_the_time_it_was_given(self, template: Project) -> None:
        template.change("POLL_S: Final = 0.05", "POLL_S: Final = 60.0")
        words = ("my_rack_backend:make_backend", "--create-timeout", "0.3")

        with template.served(*words) as told:
            address = told["addresses"]["grpc"]
            ended = template.run(MAINSTAY, "conformance", address, "--check", "FullLifecycle")

        assert ended.returncode == 1
        assert "create: timed out after 0.3 s" in ended.stdout

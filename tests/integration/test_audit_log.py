"""A process that writes an audit log is killed at any moment, again and again."""

import signal
import subprocess
import sys
from pathlib import Path

import outside
from mainstay.shard.audit.files import files_of
from mainstay.shard.audit.verify import verify

WRITER = """
import sys
from pathlib import Path
from mainstay.shard.audit.files import AuditFiles, Sizes

log = AuditFiles(Path(sys.argv[1]), Sizes(file_bytes=20_000))
assert not log.found.broken, log.found.broken
written = log.last.n
while True:
    written += log.append({"number": written + n, "text": "x" * 300} for n in range(20))
    print(written, flush=True)
"""


def test_what_was_written_before_a_kill_is_there_and_the_chain_is_whole(tmp_path: Path) -> None:
    acknowledged = 0
    for round_ in range(outside.examples(6)):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            env=outside.environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert writer.stdout is not None
        for _ in range(3 + round_):
            acknowledged = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged

        tear(tmp_path, round_)
        assert whole_lines(tmp_path) >= acknowledged
    assert len(files_of(tmp_path)) > 1


def tear(directory: Path, round_: int) -> None:
    """A kill in the middle of a write is rare; here is what it leaves."""
    last = files_of(directory)[-1]
    if round_ % 2 and last.read_bytes().endswith(b"\n"):
        last.write_bytes(last.read_bytes() + b'{"n":')


def whole_lines(directory: Path) -> int:
    """As far as the log is whole; nothing but a torn end may stop a check."""
    seen = verify(directory)
    assert not seen.broken or "has no end" in seen.broken
    return seen.last_n

"""Processes that start quickly: one interpreter has imported everything of ours, and forks.

What it bears is a process like any other: with its own number, environment, folder and outputs, to
be killed when somebody likes. Only the second or two of imports is paid once, instead of by each.
That a command starts from nothing is what the tests of `up`, of the wheel and of the pages show.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

import outside
from tree import BIN

MESSAGE_MAX: Final = 1 << 18
DIES_WITH_ITS_PARENT: Final = 1
"""PR_SET_PDEATHSIG of Linux; elsewhere the nursery is told to end, and ends what it bore."""

Request = dict[str, Any]


class Born:
    """A process of the nursery; what tests ask of `subprocess.Popen`."""

    def __init__(self, of: "Nursery", pid: int, alive: int, args: Sequence[str]) -> None:
        self.pid = pid
        self.args = tuple(args)
        self.returncode: int | None = None
        self._of = of
        self._alive = alive
        """The end of a pipe that nobody writes to; it ends when the process does."""

    def poll(self) -> int | None:
        return self.returncode if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout_s: float | None) -> bool:
        if self.returncode is None and select.select([self._alive], [], [], timeout_s)[0]:
            os.close(self._alive)
            self.returncode = self._of.code_of(self.pid)
        return self.returncode is not None


class Nursery:
    """The other end: asks for a process, or for how one has ended."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._asks, serves = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = f"{outside.ROOT / 'src'}:{outside.ROOT / 'tests'}"
        with serves:
            self._parent = subprocess.Popen(
                [sys.executable, __file__, str(serves.fileno())],
                env=outside.environment(PYTHONPATH=path, OPENBLAS_NUM_THREADS="1"),
                pass_fds=[serves.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def bear(self, request: Request, outputs: Sequence[int]) -> Born:
        """A process with these as its stdin, stdout and stderr."""
        reads, writes = os.pipe()
        try:
            pid = self._asked(request, [*outputs, writes])
        finally:
            os.close(writes)
        return Born(self, pid, reads, request["args"])

    def code_of(self, pid: int) -> int:
        """The code of a process that has ended, or is about to."""
        return self._asked({"ended": pid}, [])

    def close(self) -> None:
        self._asks.close()
        self._parent.wait()

    def _asked(self, request: Request, files: Sequence[int]) -> int:
        with self._turn:
            socket.send_fds(self._asks, [json.dumps(request).encode()], files)
            answer = self._asks.recv(MESSAGE_MAX)
        assert answer, "the nursery is gone"
        return int(answer)


@cache
def _nursery() -> Nursery:
    """One for each worker of a run, from when the first process is asked for."""
    return Nursery()


def stop() -> None:
    """At the end of the run."""
    if _nursery.cache_info().currsize:
        _nursery().close()
        _nursery.cache_clear()


def start(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    outputs: tuple[int, int],
    module: str = "",
) -> Born:
    """`mainstay WORDS`, or with `module` what `main` of tests/MODULE.py does with these words."""
    with Path(os.devnull).open("rb") as nothing:
        files = [nothing.fileno(), *outputs]
        return _nursery().bear(_request(words, cwd, env, module), files)


def logged(words: Sequence[str], log: Path, *, cwd: Path, module: str = "", **env: str) -> Born:
    """The same with all that it says in a file, and with these variables."""
    with log.open("wb") as stream:
        outputs = stream.fileno(), stream.fileno()
        given = outside.environment(**env)
        return start(words, cwd=cwd, env=given, outputs=outputs, module=module)


def run(
    words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], text: str = "",
    timeout_s: float = 120.0,
) -> "subprocess.CompletedProcess[str]":  # fmt: skip
    """`mainstay WORDS` to its end, as `outside.run` does."""
    args = [str(word) for word in words]
    with _held(text) as stdin, _held() as stdout, _held() as stderr:
        files = [each.fileno() for each in (stdin, stdout, stderr)]
        born = _nursery().bear(_request(args, cwd, env, ""), files)
        try:
            code = born.wait(timeout_s)
        except subprocess.TimeoutExpired:
            born.kill()
            born.wait()
            raise
        return subprocess.CompletedProcess(args, code, _all_of(stdout), _all_of(stderr))


def _held(text: str = "") -> IO[bytes]:
    """A file and no pipe, so that nobody waits for anybody to read."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever asked for it
    file.write(text.encode())
    file.seek(0)
    return file


def _all_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _request(words: Sequence[str], cwd: Path, env: Mapping[str, str], module: str) -> Request:
    return {"args": list(words), "cwd": str(cwd), "env": dict(env), "module": module}


def _imports() -> None:
    """Everything that a command may import, and the compiled loops."""
    from mainstay import cli, processes  # noqa: PLC0415 - in the nursery only
    from mainstay.engine import kernels  # noqa: PLC0415
    from mainstay.wire import loops  # noqa: PLC0415

    for package in (cli, processes):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    for warmed in (kernels, loops):
        warmed.warm()
        warmed.cool()


def _serve(asks: socket.socket) -> Request | None:
    """Answer until nobody asks any more; in a child, what it has to do."""
    while True:
        said, files, _, _ = socket.recv_fds(asks, MESSAGE_MAX, 4)
        if not said:
            return None
        request: Request = json.loads(said)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            if request["module"]:
                importlib.import_module(request["module"])
            answer = os.fork()
            if answer == 0:
                asks.close()
                _settle(request, files)
                return request
            for file in files:
                os.close(file)
        asks.send(str(answer).encode())


def _settle(request: Request, files: Sequence[int]) -> None:
    """Become the process that was asked for."""
    _die_with_the_parent()
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.set_inheritable(files[3], False)
    os.environ.clear()  # noqa: TID251 - this process has not read it yet
    os.environ.update(request["env"])  # noqa: TID251
    time.tzset()
    os.chdir(request["cwd"])
    here = str(Path(__file__).parent)
    if request["module"]:
        sys.argv = [str(outside.ROOT / "tests" / f"{request['module']}.py"), *request["args"]]
    else:
        sys.argv = [str(BIN / "mainstay"), *request["args"]]
        sys.path[:] = [str(BIN), *(path for path in sys.path if path != here)]


def _die_with_the_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_ITS_PARENT, int(signal.SIGKILL))


def _run(request: Request) -> None:
    try:
        importlib.import_module(request["module"] or "mainstay.cli.main").main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        _end(ended.code)


def _end(code: int) -> None:
    """As Python ends, but for what it clears away, which all would have to be copied first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _main() -> None:
    """It ends when nobody can ask any more: when who has started it has ended, of whatever."""
    asks = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _imports()
    gc.freeze()
    if sys.platform == "linux":
        threads = [*Path("/proc/self/task").iterdir()]
        assert len(threads) == 1, "who forks must have one thread"
    request = _serve(asks)
    if request is not None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _run(request)


if __name__ == "__main__":
    _main()

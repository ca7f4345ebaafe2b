"""`mainstay up` on a terminal: it goes on until Ctrl-C, and ends well."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path


def test_on_a_terminal_it_goes_on_until_ctrl_c_and_ends_well() -> None:
    command = str(Path(sys.executable).with_name("mainstay"))
    terminal, its_end = pty.openpty()
    up = subprocess.Popen(
        [command, "up", "--machines", "200"], stdin=its_end, stdout=its_end, stderr=its_end
    )
    os.close(its_end)

    shown = read_until(terminal, b"Ctrl-C stops it")
    up.send_signal(signal.SIGINT)
    shown += read_until(terminal, b"Stopped.")
    code = up.wait(timeout=60)
    os.close(terminal)

    assert b"200 machines checked, 0 broken rules" in shown
    assert shown.endswith(b"Stopped.\r\n")
    assert code == 0


def read_until(terminal: int, text: bytes) -> bytes:
    """What the terminal shows, up to the line with `text`; the end of the program ends it too."""
    shown = b""
    while text not in shown or not shown.endswith(b"\n"):
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    return shown

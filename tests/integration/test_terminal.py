"""`mainstay up` on a terminal: it goes on until Ctrl-C, and ends well."""

import os
import pty
import sys
from pathlib import Path

CTRL_C = b"\x03"


def test_on_a_terminal_it_goes_on_until_ctrl_c_and_ends_well() -> None:
    command = str(Path(sys.executable).with_name("mainstay"))
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command, [command, "up", "--machines", "200"])

    shown = read_until(terminal, b"Ctrl-C stops it")
    os.write(terminal, CTRL_C)
    shown += read_until(terminal, b"Stopped.")
    _, status = os.waitpid(child, 0)

    assert b"200 machines checked, 0 broken rules" in shown
    assert os.waitstatus_to_exitcode(status) == 0


def read_until(terminal: int, text: bytes) -> bytes:
    """What the terminal shows, up to `text`; the end of the program ends it too."""
    shown = b""
    while text not in shown:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    return shown

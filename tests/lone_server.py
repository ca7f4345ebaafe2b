"""A program that starts a PostgreSQL of its own, says where, and waits: for tests that kill it.

usage: python tests/lone_server.py FOLDER [UID]

With a UID it becomes that user first. All that it needs is loaded before: that user may not be able
to read the interpreter's own files.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

import psycopg

from mainstay.tenancy.database.embedded import embedded


def main() -> None:
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        _become(int(sys.argv[2]))
    with embedded(folder) as server:
        sys.stdout.write(json.dumps({"pid": server.pid, "url": server.url}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


def _become(uid: int) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect("host=127.0.0.1 port=1 connect_timeout=1")  # loads what it loads late
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    main()

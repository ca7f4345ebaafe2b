"""Files with secrets: in a folder only we can read, written whole or not at all."""

import os
import secrets
import stat
from pathlib import Path

from mainstay.model.errors import Rejected


def private_folder(path: Path) -> Path:
    """The folder, made if it is not there. One that others can read is refused, not changed."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(path, "700")
    except OSError as error:
        raise Rejected(f"cannot use {path} for keys: {error.strerror}") from error
    return path


def write_once(path: Path, content: bytes) -> bytes:
    """Write a file that is not there yet; what is in it then, ours or that of who was faster."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return read_private(path)
    finally:
        unfinished.unlink()
    return content


def read_private(path: Path) -> bytes:
    """What is in it; a file that others can read is no secret any more, and refused."""
    try:
        _check(path, "600")
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"cannot read {path}: {error.strerror}") from error


def _check(path: Path, wanted: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise Rejected(f"{path} holds keys and others can reach it: chmod {wanted} it")

"""Who may look and who may do: two tokens in a file, a signed cookie, a word against forged forms.

Nothing is kept in memory: a session lives through a restart, and ends when the tokens change.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from mainstay.model.errors import Rejected
from mainstay.runtime.clock import Clock
from mainstay.tenancy.private_files import private_folder, read_private, write_once

FOLDER: Final = "dashboard"
FILE: Final = "tokens"
COOKIE: Final = "mainstay_dashboard"
TOKEN_BYTES: Final = 32
TOKEN_MAX: Final = 200


class Role(StrEnum):
    """What somebody may do here."""

    ADMIN = "admin"
    READONLY = "readonly"


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in."""

    role: Role
    ends_s: float
    csrf: str
    """Every form carries it; nobody can guess it who does not have the cookie."""

    @property
    def may_change(self) -> bool:
        """Whether there are buttons."""
        return self.role is Role.ADMIN


def tokens_in(home: Path) -> tuple[Path, dict[Role, str]]:
    """The file and its tokens; both are made when they are not there."""
    folder = private_folder(home / FOLDER)
    path = folder / FILE
    if not path.exists():
        made = (f"{role} {secrets.token_urlsafe(TOKEN_BYTES)}\n" for role in Role)
        write_once(path, "".join(made).encode())
    found = _parsed(read_private(path).decode(errors="replace"))
    if set(found) != set(Role):
        raise Rejected(f"{path} must have a line `admin TOKEN` and a line `readonly TOKEN`")
    return path, found


def _parsed(text: str) -> dict[Role, str]:
    rows = (line.split() for line in text.splitlines())
    return {Role(row[0]): row[1] for row in rows if len(row) == 2 and row[0] in set(Role)}


class Doorkeeper:
    """Lets in who knows a token, and knows them again by their cookie."""

    def __init__(self, tokens: Mapping[Role, str], clock: Clock, *, lasts_s: float) -> None:
        self._tokens, self._clock, self._lasts_s = dict(tokens), clock, lasts_s
        joined = "\0".join(tokens[role] for role in Role)
        self._secret = hashlib.sha256(b"mainstay dashboard\0" + joined.encode()).digest()

    def admit(self, token: str) -> str | None:
        """The cookie of whoever has this token; None: nobody's."""
        given = token.strip()[:TOKEN_MAX].encode()
        found = [
            role for role, own in self._tokens.items() if hmac.compare_digest(own.encode(), given)
        ]
        if not found:
            return None
        ends_s = int(self._clock.now_s() + self._lasts_s)
        said = f"{found[0]}.{ends_s}.{secrets.token_hex(8)}"
        return f"{said}.{self._signed(said)}"

    def known(self, cookie: str) -> Session | None:
        """Whose cookie it is; None: not one of ours, or its time is over."""
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(self._signed(said).encode(), signature.encode()):
            return None
        role, ends, _ = said.split(".")
        if self._clock.now_s() >= int(ends):
            return None
        return Session(Role(role), float(ends), self._signed(f"csrf {cookie}"))

    def _signed(self, said: str) -> str:
        digest = hmac.new(self._secret, said.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_genuine(session: Session, csrf: str) -> bool:
    """Whether a form is one that we gave to this session."""
    return hmac.compare_digest(session.csrf.encode(), csrf.encode())

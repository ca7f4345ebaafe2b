"""Who may look and who may do: a line in a file for each person, a signed cookie, a word against
forged forms.

A session lives through a restart, and ends when somebody signs out, when their line changes, or
with its time.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from mainstay.dashboard.ended import Ended
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import Clock
from mainstay.tenancy.private_files import private_folder, read_private, write_once

FOLDER: Final = "dashboard"
FILE: Final = "tokens"
ENDED_FILE: Final = "ended"
COOKIE: Final = "mainstay_dashboard"
TOKEN_BYTES: Final = 32
TOKEN_MIN: Final = 16
TOKEN_MAX: Final = 200
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What a person can be called: it stands in cookies and in the id of a call."""

READ_AS: Final = "ROLE TOKEN or ROLE NAME TOKEN"


class Role(StrEnum):
    """What somebody may do here."""

    ADMIN = "admin"
    READONLY = "readonly"


@dataclass(frozen=True, slots=True)
class Person:
    """A line of the file."""

    role: Role
    name: str
    """Who it is, as controls, logs and the audit tell it."""

    token: str


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has signed in."""

    role: Role
    name: str
    id: str
    ends_s: float
    csrf: str
    """Every form carries it; nobody can guess it who does not have the cookie."""

    @property
    def may_change(self) -> bool:
        """Whether there are buttons."""
        return self.role is Role.ADMIN


def tokens_in(home: Path) -> tuple[Path, tuple[Person, ...]]:
    """The file and who is in it; it is made, with one of each role, when it is not there."""
    path = private_folder(home / FOLDER) / FILE
    if not path.exists():
        made = (f"{role} {secrets.token_urlsafe(TOKEN_BYTES)}\n" for role in Role)
        write_once(path, "".join(made).encode())
    try:
        return path, people_in(read_private(path).decode(errors="replace"))
    except Rejected as error:
        raise Rejected(f"{path} {error.message}") from error


def people_in(text: str) -> tuple[Person, ...]:
    """Everybody; what is wrong is told by its line, and never with a token."""
    lines = [(place, line.split()) for place, line in enumerate(text.splitlines(), start=1)]
    meant = [(place, words) for place, words in lines if words and not words[0].startswith("#")]
    people = tuple(_person(place, words) for place, words in meant)
    if not people:
        raise Rejected(f"lets nobody in: it needs lines {READ_AS}, the role admin or readonly")
    lines_of = [place for place, _ in meant]
    _must_differ(lines_of, [person.token for person in people], "have one token: give each its own")
    _must_differ(lines_of, [person.name for person in people],
                 "have one name: write ROLE NAME TOKEN with two names")  # fmt: skip
    return people


def _must_differ(lines: Sequence[int], values: Sequence[str], what: str) -> None:
    first: dict[str, int] = {}
    for line, value in zip(lines, values, strict=True):
        before = first.setdefault(value, line)
        if before != line:
            raise Rejected(f"lines {before} and {line} {what}")


def _person(place: int, words: Sequence[str]) -> Person:
    if len(words) not in {2, 3} or words[0] not in set(Role):
        raise Rejected(f"line {place} is not {READ_AS}, the role admin or readonly")
    role, name, token = words[0], words[-2], words[-1]  # of two words the role is the name too
    if not NAME.fullmatch(name):
        raise Rejected(f"line {place}: a name is 1 to 32 letters, digits, - and _")
    if not TOKEN_MIN <= len(token) <= TOKEN_MAX:
        said = f"line {place}: a token has {TOKEN_MIN} to {TOKEN_MAX} characters"
        raise Rejected(f"{said}; `openssl rand -hex 32` makes one")
    return Person(Role(role), name, token)


class Doorkeeper:
    """Lets in who knows a token, and knows them again by their cookie until they sign out."""

    def __init__(
        self, people: Iterable[Person], clock: Clock, *, lasts_s: float, ended: Ended
    ) -> None:
        self._people = {person.name: person for person in people}
        self._clock, self._lasts_s, self._ended = clock, lasts_s, ended

    def admit(self, token: str) -> str | None:
        """The cookie of whoever has this token; None: nobody's."""
        given = token.strip()[: TOKEN_MAX + 1].encode()
        found = [
            person
            for person in self._people.values()
            if hmac.compare_digest(person.token.encode(), given)
        ]
        if not found:
            return None
        ends_s = int(self._clock.now_s() + self._lasts_s)
        said = f"{found[0].role}.{found[0].name}.{ends_s}.{secrets.token_hex(16)}"
        return f"{said}.{_signed(found[0], said)}"

    def known(self, cookie: str) -> Session | None:
        """Whose cookie it is; None: not one of ours, or it has ended."""
        parts = cookie.split(".")
        person = self._people.get(parts[1]) if len(parts) == 5 else None
        if person is None:
            return None
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(_signed(person, said).encode(), signature.encode()):
            return None
        ends_s, identity = int(parts[2]), parts[3]
        if self._clock.now_s() >= ends_s or identity in self._ended:
            return None
        csrf = _signed(person, f"csrf {cookie}")
        return Session(person.role, person.name, identity, float(ends_s), csrf)

    def dismiss(self, session: Session) -> None:
        """Nobody is known by its cookie any more, whoever has a copy. Unavailable: the disk would
        not have it, and it holds only until the next start.
        """
        self._ended.add(session.id, session.ends_s, self._clock.now_s())


def _signed(person: Person, said: str) -> str:
    """By a secret of one's own: a line that changes ends the sessions of that person."""
    told = f"mainstay dashboard\0{person.role}\0{person.name}\0{person.token}"
    secret = hashlib.sha256(told.encode()).digest()
    digest = hmac.new(secret, said.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_genuine(session: Session, csrf: str) -> bool:
    """Whether a form is one that we gave to this session."""
    return hmac.compare_digest(session.csrf.encode(), csrf.encode())

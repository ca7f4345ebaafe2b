"""The errors of Mainstay, by what the caller should do about them.

MainstayError
├── Rejected             change the request; repeating it will not help
│   ├── UnknownMachine
│   ├── DuplicateMachine
│   ├── IllegalTransition
│   ├── InvalidMachine   names the rule that was broken
│   ├── InvalidRollup    names every bad row
│   ├── NotSupported     never ask this provider again
│   ├── Unknown          nothing has this name
│   └── Taken            somebody else has it
├── Unavailable          the request is fine, the moment is not: try again later
│   └── NotLeading       ask the one that leads
├── NoCapacity           a truthful no: record the shortfall and answer
└── Fenced               a newer owner exists: stop, never repeat

A subclass exists only where some caller acts differently on it. `code` is stable: never changed,
never given to another meaning.
"""

from typing import ClassVar, NamedTuple


class MainstayError(Exception):
    """Something expected went wrong. The subclass says what to do about it."""

    code: ClassVar[str] = "error"
    what_to_do: str = ""

    def __init__(self, message: str, *, detail: str = "", what_to_do: str | None = None) -> None:
        """`message` may be shown to anyone; `detail` is for our own logs.

        `what_to_do` is given where there is something better to do than what its kind says.
        """
        super().__init__(message)
        self.message = message
        self.detail = detail
        if what_to_do is not None:
            self.what_to_do = what_to_do


class Rejected(MainstayError):
    """The request is wrong as it stands. Change it; repeating it will not help."""

    code = "rejected"
    what_to_do = "change the request"


class Unavailable(MainstayError):
    """The request is fine, the moment is not. Repeat it after a pause."""

    code = "unavailable"
    what_to_do = "try again later"


class NoCapacity(MainstayError):
    """A truthful no. Record the shortfall and answer the caller."""

    code = "no_capacity"
    what_to_do = "ask for less, or wait for capacity"


class Fenced(MainstayError):
    """A newer owner exists. Stop acting; never repeat."""

    code = "fenced"
    what_to_do = "stop: another owner has taken over"

    def __init__(self, message: str, *, epoch: int | None = None, detail: str = "") -> None:
        """`epoch` is the newest that whoever refuses has seen of that shard, if it says so."""
        super().__init__(message, detail=detail)
        self.epoch = epoch


REACTIONS: tuple[type[MainstayError], ...] = (Rejected, Unavailable, NoCapacity, Fenced)


class UnknownMachine(Rejected):
    """No machine has this id."""

    code = "unknown_machine"
    what_to_do = "check the id"


class DuplicateMachine(Rejected):
    """A machine with this id is already there."""

    code = "duplicate_machine"
    what_to_do = "apply to the machine that is there"


class IllegalTransition(Rejected):
    """The table has no such edge."""

    code = "illegal_transition"
    what_to_do = "go through the states the table names"


class InvalidMachine(Rejected):
    """A machine that cannot exist; `rule` names what it breaks."""

    code = "invalid_machine"
    what_to_do = "correct the record"

    def __init__(self, message: str, *, rule: str, detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.rule = rule


class BadRow(NamedTuple):
    """One thing that is wrong with one row."""

    position: int
    """Of the row in the roll-up, from 0."""

    what: str
    value: str


class InvalidRollup(Rejected):
    """A roll-up of which nothing was taken in; `bad` holds all that is wrong with its rows.

    Empty when it is the roll-up that is wrong and not a row of it.
    """

    code = "invalid_rollup"
    what_to_do = "correct the rows it names; until then the last accepted demand stays"

    def __init__(self, message: str, *, bad: tuple[BadRow, ...] = (), detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.bad = bad


class NotSupported(Rejected):
    """The provider does not have this call, or not for this machine. Never send it again."""

    code = "not_supported"
    what_to_do = "do not ask this provider for it"


class Unknown(Rejected):
    """Nothing has this name."""

    code = "unknown"
    what_to_do = "check the name"


class Taken(Rejected):
    """Somebody else has it."""

    code = "taken"
    what_to_do = "take it away from its owner first"


class NotLeading(Unavailable):
    """This coordinator does not lead; `leader` says where the one is that does, if known."""

    code = "not_leading"
    what_to_do = "ask the coordinator that leads"

    def __init__(self, message: str, *, leader: str = "", detail: str = "") -> None:
        super().__init__(message, detail=detail)
        self.leader = leader

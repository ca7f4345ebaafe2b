"""What a shard remembers over a restart: a small directory, held by one process.

Everything else is rebuilt from providers and sessions. Each file is replaced whole: written beside,
synced, renamed. A file that is there and cannot be read refuses the start, before anything is
changed; guessing would mean an older life, wider domains or a forgotten pause.
"""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from mainstay.engine.quota import NO_QUOTA, Quota
from mainstay.model.errors import MainstayError, Rejected, Unavailable
from mainstay.model.ids import ClusterId, parse_cluster_id
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.money import document as money_document
from mainstay.shard.money.book import Kept as KeptMoney
from mainstay.shard.ownership import document as owned_document
from mainstay.shard.ownership.owned import Owned

VERSION: Final = 1
EPOCH_MAX: Final = 2**63 - 1

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[ValueT]):
    """How a value is written, and what its absence means."""

    file: str
    missing: ValueT
    encode: Callable[[ValueT], Any]
    decode: Callable[[Any], ValueT]
    without_it: str
    """What a shard does that starts without the file; for people who consider removing it."""


class Kept(Generic[ValueT]):
    """One value that survives a restart."""

    def __init__(self, folder: Path, form: Form[ValueT]) -> None:
        """Read it; Rejected when it is there and cannot be."""
        self._path = folder / form.file
        self._form = form
        self._value = _read(self._path, form)

    @property
    def value(self) -> ValueT:
        """As it was kept last."""
        return self._value

    def keep(self, value: ValueT) -> None:
        """Have this value from now on; Unavailable, and then the old one stays."""
        document = {"version": VERSION, "value": self._form.encode(value)}
        _replace(self._path, json.dumps(document, indent=1, sort_keys=True) + "\n")
        self._value = value


class DataDir:
    """The directory of one shard. Opening it begins the shard's next life.

    Unavailable when another process has it or the disk does not take it, Rejected when what is in
    it cannot be read.
    """

    epoch: int
    """Of this life: one more than the last."""

    def __init__(self, path: Path) -> None:
        self._lock = _locked(path)
        try:
            self.owned = Kept(path, OWNED)
            self.quota = Kept(path, QUOTA)
            self.controls = Kept(path, CONTROLS)
            self.money = Kept(path, MONEY)
            self.listed = Kept(path, LISTED)
            self.epoch = _epoch(path / "epoch", is_new=not _has_lived(path)) + 1
            _replace(path / "epoch", f"{self.epoch}\n")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _locked(path: Path) -> int:
    """The open lock file. The system takes the lock back from a process that dies."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"data directory {path} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except OSError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise Unavailable(
                f"data directory {path} is in use by process {holder or 'unknown'}; "
                "stop it, or give this shard a directory of its own"
            ) from error
        raise Unavailable(f"data directory {path} cannot be used: {error.strerror}") from error
    return lock


def _has_lived(path: Path) -> bool:
    """Whether a shard has kept something here before."""
    return any((path / form.file).exists() for form in (OWNED, QUOTA, CONTROLS, MONEY, LISTED))


def _epoch(path: Path, *, is_new: bool) -> int:
    """The epoch of the last life, 0 before the first."""
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        if is_new:
            return 0
        raise _unreadable_epoch(path, "it is missing, and other files of this shard are not") from (
            error
        )
    except OSError as error:
        raise _unreadable_epoch(path, error.strerror or "") from error
    digits = text.removesuffix(b"\n")
    if not digits.isdigit() or len(digits) > len(str(EPOCH_MAX)):
        raise _unreadable_epoch(path, f"not a number: {text[:40]!r}")
    if int(digits) >= EPOCH_MAX:
        raise _unreadable_epoch(path, f"too large: {int(digits)}")
    return int(digits)


def _unreadable_epoch(path: Path, why: str) -> Rejected:
    return Rejected(
        f"epoch {path} cannot be read: {why}; write a number into it that is at least the last "
        "epoch of this shard, which its log and its providers' refusals name"
    )


def _read(path: Path, form: Form[ValueT]) -> ValueT:
    try:
        return form.decode(_value(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return form.missing
    except _UNREADABLE as error:
        raise Rejected(
            f"{path} cannot be read: {type(error).__name__}: {error}; restore it, or remove it "
            f"and start {form.without_it}"
        ) from error


_UNREADABLE: Final = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
    MainstayError,
)  # fmt: skip
"""All that reading a file of unknown content can raise."""


def _value(text: str) -> Any:
    document = json.loads(text)
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']}, this is version {VERSION}")
    return document["value"]


def _replace(path: Path, text: str) -> None:
    """Either the old content or the new is there, whatever happens."""
    beside = path.with_name(f"{path.name}.new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"not a text: {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"not a number: {value!r}")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"not a number: {value!r}")
    return float(value)


def _rows(value: Any) -> list[Any]:
    """An empty object must not pass for an empty list."""
    if not isinstance(value, list):
        raise TypeError(f"not a list: {type(value).__name__}")
    return value


OWNED: Final[Form[Owned]] = Form(
    file="owned.json",
    missing=Owned(),
    encode=owned_document.encoded,
    decode=owned_document.decoded,
    without_it="with the domains of the configuration and without any machine outside them",
)


def _quota_to(quota: Quota) -> dict[str, Any]:
    return {
        "machines": dict(quota.machines),
        "slots": [[*place, count] for place, count in sorted(quota.slots.items())],
    }


def _quota_from(value: Any) -> Quota:
    machines: dict[ClusterId, int] = {
        parse_cluster_id(_text(cluster)): _count(count)
        for cluster, count in value["machines"].items()
    }
    slots: dict[tuple[str, str], int] = {}
    for source, region, count in _rows(value["slots"]):
        if not isinstance(region, str):
            raise TypeError(f"not a region: {region!r}")
        slots[_text(source), region] = _count(count)
    return Quota(machines, slots)


QUOTA: Final[Form[Quota]] = Form(
    file="quota.json",
    missing=NO_QUOTA,
    encode=_quota_to,
    decode=_quota_from,
    without_it="without any quota",
)


def _control_to(control: Control) -> dict[str, Any]:
    return {
        "kind": control.kind.value,
        "cluster": control.cluster,
        "value": control.value,
        "reason": control.reason,
        "by": control.by,
        "set_at_s": control.set_at_s,
        "expires_at_s": control.expires_at_s,
    }


def _control_from(value: Any) -> Control:
    cluster = value["cluster"]
    return Control(
        kind=ControlKind(value["kind"]),
        cluster=None if cluster is None else parse_cluster_id(_text(cluster)),
        value=_seconds(value["value"]),
        reason=_text(value["reason"]),
        by=_text(value["by"]),
        set_at_s=_seconds(value["set_at_s"]),
        expires_at_s=_seconds(value["expires_at_s"]),
    )


CONTROLS: Final[Form[tuple[Control, ...]]] = Form(
    file="controls.json",
    missing=(),
    encode=lambda controls: [_control_to(control) for control in controls],
    decode=lambda value: tuple(map(_control_from, _rows(value))),
    without_it="without any live control",
)

MONEY: Final[Form[KeptMoney | None]] = Form(
    file="money.json",
    missing=None,
    encode=lambda kept: None if kept is None else money_document.encoded(kept),
    decode=lambda value: None if value is None else money_document.decoded(value),
    without_it="with a new count of money, from that moment on",
)

LISTED: Final[Form[frozenset[str] | None]] = Form(
    file="listed.json",
    missing=None,
    encode=lambda names: sorted(names or ()),
    decode=lambda value: frozenset(map(_text, _rows(value))),
    without_it="with a wait for the first list of every provider before anything is acquired",
)
"""The providers that were ever listed; None: nobody knows."""

"""Which servers a command asks: named, by environment, by context, or those that run here."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.certs import FOLDER, files_of
from mainstay.wire.tls import Plaintext, TlsFlags, transport
from mainstay.wire.transport import Over

SERVER_VARIABLE: Final = "MAINSTAY_SERVER"
SHARD: Final = "shard"
API: Final = "api"
DEFAULT_API: Final = "http://127.0.0.1:8800"
BRIDGING: Final = ("bridge", API)
"""Who may hold tenancy's session with a shard."""

COORDINATOR: Final = "coordinator"
COORDINATOR_VARIABLE: Final = "MAINSTAY_COORDINATOR"
"""A name of its own: who works with shards and a coordinator names both at once."""

NO_FLAGS: Final = TlsFlags()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server to ask."""

    name: str
    """Its id where it is known, else its address."""

    address: str
    over: Over

    @property
    def announcement(self) -> str:
        """A line to print when plaintext is used and nobody asked for it."""
        return self.over.announcement if isinstance(self.over, Plaintext) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """All that is known about where to look."""

    process: str
    """Such as `shard`: of which kind the servers are."""

    home: Path
    contexts: Path
    environment: Mapping[str, str]
    server: str = ""
    context: str = ""
    flags: TlsFlags = NO_FLAGS


def find(where: Where) -> tuple[Server, ...]:
    """One server at least, in the order: flag, environment, context, what runs here."""
    if named := where.server or where.environment.get(_variable(where), ""):
        return tuple(_named(where, address) for address in _addresses(named))
    if chosen := _context(where):
        return chosen
    running = tuple(_running(where))
    if not running:
        folder = where.home / "run"
        ask = "start one, or name it with --server HOST:PORT"
        raise Unavailable(f"no {where.process} runs here ({folder} has none)", what_to_do=ask)
    return running


def _variable(where: Where) -> str:
    return COORDINATOR_VARIABLE if where.process == COORDINATOR else SERVER_VARIABLE


def _addresses(named: str) -> list[str]:
    addresses = [each.strip() for each in named.split(",") if each.strip()]
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdecimal()):
            raise Rejected(f"not an address: {address[:80]} (write HOST:PORT)")
    return addresses


def _named(where: Where, address: str) -> Server:
    """A server by address; one that runs here is known by its id, and by how it is reached."""
    here = [facts for facts in _announced(where) if _address(facts) == address]
    if here and where.flags == NO_FLAGS:
        return _announced_server(where, here[0])
    over = transport(where.flags, address, tool=True)
    return Server(name=address, address=address, over=over)


def find_api(where: Where) -> str:
    """The URL of an API, in the same order; what runs here is one database, so any of them.

    Without any, the usual address: it may run where it cannot tell us. A context that was not asked
    for by name may be about other servers only.
    """
    if named := where.server or where.environment.get(SERVER_VARIABLE, ""):
        return named
    chosen = _table(where)
    if chosen is not None and (where.context or where.process in chosen[1]):
        return _said(where, *chosen, "http://HOST:PORT")
    running = [_address(facts) for facts in _announced(where)]
    return running[0] if running else DEFAULT_API


def find_tenants(home: Path, otherwise: str) -> str:
    """Which cluster tenants are to a shard: as who has the bridge here says, or otherwise."""
    told = (facts for process in BRIDGING for facts in _told(home, process))
    return next((str(facts["cluster"]) for facts in told if facts.get("cluster")), otherwise)


def _context(where: Where) -> tuple[Server, ...]:
    chosen = _table(where)
    return () if chosen is None else tuple(_context_servers(where, *chosen))


def _table(where: Where) -> tuple[str, Mapping[str, Any]] | None:
    """The context that was chosen, by its name; None: none was."""
    try:
        with where.contexts.open("rb") as stream:
            told = tomllib.load(stream)
    except FileNotFoundError:
        told = {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"cannot read {where.contexts}: {error}") from error
    name = where.context or told.get("current", "")
    if not name:
        return None
    contexts = told.get("contexts", {})
    if not isinstance(contexts, dict) or not isinstance(contexts.get(name), dict):
        raise Rejected(f"no context {name!r} in {where.contexts}: add [contexts.{name}]")
    return str(name), contexts[name]


def _said(where: Where, name: str, table: Mapping[str, Any], form: str) -> str:
    """What a context says of this kind of process; only shards go without being called so."""
    otherwise = table.get("server", "") if where.process == SHARD else ""
    named = table.get(where.process, otherwise)
    if not isinstance(named, str) or not named:
        what = f'write {where.process} = "{form}"'
        raise Rejected(f"context {name!r} in {where.contexts} names no {where.process}: {what}")
    return named


def _context_servers(where: Where, name: str, table: Mapping[str, Any]) -> Iterator[Server]:
    named = _said(where, name, table, "HOST:PORT")
    flags = where.flags
    if flags == NO_FLAGS:
        flags = TlsFlags(
            cert=str(table.get("tls_cert", "")),
            key=str(table.get("tls_key", "")),
            ca=str(table.get("tls_ca", "")),
            insecure=table.get("insecure") is True,
        )
    for address in _addresses(named):
        yield Server(name=address, address=address, over=transport(flags, address, tool=True))


def _running(where: Where) -> Iterator[Server]:
    for facts in _announced(where):
        yield _announced_server(where, facts)


def _announced(where: Where) -> Iterator[Mapping[str, Any]]:
    """Those of a kind that serve gRPC."""
    return (facts for facts in _told(where.home, where.process) if _address(facts))


def _told(home: Path, process: str) -> Iterator[Mapping[str, Any]]:
    """What processes of a kind wrote when they were ready; one that died left its file."""
    for path in sorted((home / "run").glob(f"{process}-*.json")):
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # removed or replaced just now
            continue
        if isinstance(facts, dict) and _is_alive(facts.get("pid")):
            yield facts


def _address(facts: Mapping[str, Any]) -> str:
    addresses = facts.get("addresses")
    if not isinstance(addresses, dict):
        return ""
    return str(addresses.get("grpc") or addresses.get(API) or "")


def _announced_server(where: Where, facts: Mapping[str, Any]) -> Server:
    address, name = _address(facts), str(facts.get("id") or _address(facts))
    if where.flags != NO_FLAGS:
        return Server(name=name, address=address, over=transport(where.flags, address))
    if facts.get("tls"):
        return Server(
            name=name, address=address, over=transport(_own(where, f"{name} at {address}"), address)
        )
    return Server(name=name, address=address, over=transport(TlsFlags(insecure=True), address))


def _own(where: Where, server: str) -> TlsFlags:
    """A certificate of this home that may ask everything, or at least read."""
    for file in ("admin", "readonly"):
        files = files_of(where.home / FOLDER, file)
        if all(os.access(path, os.R_OK) for path in files):
            return TlsFlags(cert=str(files.cert), key=str(files.key), ca=str(files.ca))
    ask = "give --tls-cert, --tls-key and --tls-ca of a certificate that may ask"
    raise Rejected(f"{where.process} {server} uses TLS: {ask}")


def _is_alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True

"""Who is at the other end: mutual TLS 1.3 from files, and the one name a certificate bears.

A process has one certificate for all its edges. Which identity may make which call is decided by
the server of that call, from `caller`.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id
from mainstay.wire.status import NotAllowed

SCHEME: Final = "bigfleet://"
LOOPBACK_NAMES: Final = frozenset({"localhost", "ip6-localhost"})


class Role(StrEnum):
    """What a certificate can be for."""

    CLUSTER = "cluster"
    SHARD = "shard"
    ADMIN = "admin"
    READONLY = "readonly"


_NAMED: Final = frozenset({Role.CLUSTER, Role.SHARD})


@dataclass(frozen=True, slots=True)
class Identity:
    """The one name of a certificate; `name` is empty for roles that have none."""

    role: Role
    name: str = ""

    @property
    def uri(self) -> str:
        """As it stands in the certificate."""
        return SCHEME + (f"{self.role}/{self.name}" if self.name else self.role)


def parse_identity(uri: str) -> Identity:
    """The identity a URI states."""
    word, slash, name = uri.removeprefix(SCHEME).partition("/")
    if uri.startswith(SCHEME) and word in list(Role):
        role = Role(word)
        if (role in _NAMED and is_id(name)) or (role not in _NAMED and not slash):
            return Identity(role, name)
    forms = ", ".join(SCHEME + (f"{role}/<id>" if role in _NAMED else role) for role in Role)
    raise Rejected(f"not an identity: {uri[:120]!a} (one of {forms})")


class Peer(Protocol):
    """What gRPC tells about a connection."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What was learned in the handshake; empty without TLS."""


def caller(peer: Peer) -> Identity | None:
    """Who calls; None on a plaintext connection, where nobody can know.

    A certificate with no name of ours, or with several, is refused, and so is TLS before 1.3.
    """
    learned = peer.auth_context()
    if _only(learned, "transport_security_type") not in {"ssl", "tls"}:
        return None
    if (version := _only(learned, "ssl_tls_version")) != "TLSv1.3":
        raise NotAllowed(f"TLS too old: {version or 'unknown'} (use TLS 1.3)")
    uris = [uri.decode(errors="replace") for uri in learned.get("peer_uri", ())]
    return _only_identity([uri for uri in uris if uri.startswith(SCHEME)])


def _only(learned: Mapping[str, Iterable[bytes]], key: str) -> str:
    values = [*learned.get(key, ())]
    return values[0].decode(errors="replace") if len(values) == 1 else ""


def _only_identity(uris: Sequence[str]) -> Identity:
    if len(uris) != 1:
        raise NotAllowed(f"a certificate must have one {SCHEME} URI: this one has {len(uris)}")
    try:
        return parse_identity(uris[0])
    except Rejected as error:
        raise NotAllowed(error.message) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFlags:
    """The four flags of every server and client; empty means not given."""

    cert: str = ""
    key: str = ""
    ca: str = ""
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class Plaintext:
    """No TLS: for loopback."""

    announcement: str = ""
    """A line to print when nobody asked for it and it is used all the same."""


def transport(flags: TlsFlags, address: str, *, tool: bool = False) -> "Plaintext | MutualTls":
    """What the flags mean for an address. Wrong ones are refused before anything starts.

    A `tool` on a loopback address may go without flags, and says so.
    """
    files = {"--tls-cert": flags.cert, "--tls-key": flags.key, "--tls-ca": flags.ca}
    missing = [flag for flag, value in files.items() if not value]
    if flags.insecure and len(missing) < len(files):
        raise Rejected("--insecure contradicts the --tls flags: give one or the other")
    if not missing:
        return MutualTls(Path(flags.cert), Path(flags.key), Path(flags.ca))
    if len(missing) < len(files):
        raise Rejected(f"TLS needs all three files: {', '.join(missing)} missing")
    if not is_loopback(address):
        ask = "give --tls-cert, --tls-key and --tls-ca"
        raise Rejected(f"plaintext only on loopback, not at {address}: {ask}")
    if flags.insecure:
        return Plaintext()
    if tool:
        return Plaintext(f"Plaintext at {address}: loopback, and no --tls flags were given.")
    raise Rejected("no TLS: give --tls-cert, --tls-key and --tls-ca, or --insecure on loopback")


def is_loopback(address: str) -> bool:
    """Whether `host:port` can be reached from this machine only."""
    host = address.rpartition(":")[0].strip("[]")
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class MutualTls:
    """Certificate, key and CA by path. Bad material is refused here, at the start.

    A server reads certificate and key again when a file's time changes; a pair that does not fit
    together leaves the last good one in use. The CA is read once.
    """

    def __init__(self, cert: Path, key: Path, ca: Path) -> None:
        self._cert, self._key = cert, key
        self._ca = _read(ca)
        _certificates(ca, self._ca)
        self._pair = self._load()
        self._stamps = self._times()
        self._generation = 0

    @property
    def generation(self) -> int:
        """Grows with every newer pair; a channel that was opened before it has the old one."""
        self.refresh()
        return self._generation

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a client. They are fixed: open the channel anew to use newer files."""
        self.refresh()
        key, cert = self._pair
        return grpc.ssl_channel_credentials(self._ca, key, cert)

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server: every client must have a certificate of the same CA."""
        served = self._pair

        def newer() -> grpc.ServerCertificateConfiguration | None:
            """Called by gRPC on each handshake; None keeps what is there."""
            nonlocal served
            self.refresh()
            if served is self._pair:
                return None
            served = self._pair
            return self._configuration()

        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            newer,  # type: ignore[arg-type]  # gRPC takes None, its types do not say so
            require_client_authentication=True,
        )

    def refresh(self) -> bool:
        """Look at the files; whether there is a newer pair."""
        try:
            stamps = self._times()
            if stamps == self._stamps:
                return False
            self._pair = self._load()
        except (OSError, Rejected):
            return False
        self._stamps = stamps
        self._generation += 1
        return True

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([self._pair], self._ca)

    def _times(self) -> tuple[int, int]:
        return self._cert.stat().st_mtime_ns, self._key.stat().st_mtime_ns

    def _load(self) -> tuple[bytes, bytes]:
        cert, key = _read(self._cert), _read(self._key)
        leaf = _certificates(self._cert, cert)[0]
        try:
            private = load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise Rejected(f"not a private key in PEM: {self._key}") from error
        if private.public_key() != leaf.public_key():
            raise Rejected(f"certificate and key do not belong together: {self._cert}, {self._key}")
        return key, cert


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"cannot read {path}: {error.strerror}") from error


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise Rejected(f"not a certificate in PEM: {path}") from error

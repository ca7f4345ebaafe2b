"""A development authority and what it signs: who may call what, tried out on one machine.

One folder holds all of it. `ca.key` signs whatever the folder's owner asks for: for a fleet that
matters, certificates come from whoever keeps its real authority.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id
from mainstay.wire.tls import Identity, Role

FOLDER: Final = "pki"
"""Below the home directory."""

AUTHORITY: Final = "ca"
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
DAYS_MAX: Final = 36_500
_SKEW: Final = dt.timedelta(minutes=5)
"""Certificates count from a little earlier: clocks differ."""

_COMMON_NAME_MAX: Final = 64
_BOTH: Final = (Usage.SERVER_AUTH, Usage.CLIENT_AUTH)


class Span(NamedTuple):
    """From when until when a certificate counts."""

    start: dt.datetime
    end: dt.datetime


class Signed(NamedTuple):
    """A certificate and its key, in PEM."""

    cert: bytes
    key: bytes


class Files(NamedTuple):
    """Where they are, and the authority's certificate beside them."""

    cert: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class Holder:
    """Who a certificate is for."""

    file: str
    """The name of its files."""

    uri: str
    """What it says about its holder; empty: nothing, and so it may call nothing of ours."""


@dataclass(frozen=True, slots=True)
class _Kind:
    role: Role | None
    named: bool


KINDS: Final = {
    "shard": _Kind(Role.SHARD, named=True),
    "cluster": _Kind(Role.CLUSTER, named=True),
    "admin": _Kind(Role.ADMIN, named=False),
    "readonly": _Kind(Role.READONLY, named=False),
    "coordinator": _Kind(Role.ADMIN, named=True),
    "provider": _Kind(None, named=True),
}
"""What can be issued. A coordinator is an admin, as its peers are in BigFleet. A provider calls
nobody: its certificate proves its address and no more.
"""


def holder_of(kind: str, name: str) -> Holder:
    """Whoever `shard s-1` or `admin` means."""
    known = KINDS.get(kind)
    if known is None:
        raise Rejected(f"no such kind of certificate: {kind[:80]!a} (one of {', '.join(KINDS)})")
    if not known.named:
        if name:
            raise Rejected(f"{kind} has no name: {name[:80]!a} (leave it out)")
        return Holder(kind, Identity(Role(kind)).uri)
    if not is_id(name):
        raise Rejected(f"{kind} needs a name, printable ASCII without spaces: {name[:80]!a}")
    if known.role is None:
        uri = ""
    else:
        uri = Identity(known.role, name if known.role.value == kind else "").uri
    return Holder(f"{kind}-{quote(name, safe='')}", uri)


class Authority:
    """Signs certificates; its own is one that its key has signed."""

    def __init__(self, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._cert, self._key = cert, key

    @classmethod
    def made(cls, name: str, span: Span) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject, public = _named(name), key.public_key()
        built = (
            _builder(subject, subject, public, span)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        return cls(built.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, folder: Path, now: dt.datetime) -> "Authority":
        """The one in a folder, if it can still sign."""
        cert_path, key_path = folder / f"{AUTHORITY}.crt", folder / f"{AUTHORITY}.key"
        if not cert_path.exists():
            raise Rejected(f"no authority in {folder}: `mainstay certs init` makes one")
        cert = _certificate(cert_path)
        try:
            key = load_pem_private_key(_read(key_path), password=None)
        except (ValueError, TypeError) as error:
            raise Rejected(f"not a private key in PEM: {key_path}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != cert.public_key():
            raise Rejected(f"not the key of {cert_path}: {key_path}")
        if not _may_sign(cert):
            raise Rejected(f"not the certificate of an authority: {cert_path}")
        if cert.not_valid_after_utc <= now:
            ended = f"{cert.not_valid_after_utc:%Y-%m-%d}"
            again = "`mainstay certs init --force`, then issue all certificates again"
            raise Rejected(f"the authority {cert_path} has expired on {ended}: {again}")
        return cls(cert, key)

    @property
    def signed(self) -> Signed:
        """Its own certificate and key."""
        return Signed(self._cert.public_bytes(Encoding.PEM), _key_pem(self._key))

    def leaf(
        self,
        name: str,
        uris: Sequence[str],
        hosts: Sequence[str],
        span: Span,
        usages: Sequence[x509.ObjectIdentifier] = _BOTH,
    ) -> Signed:
        """A certificate with a new key; it counts no longer than the authority's own."""
        key = ec.generate_private_key(ec.SECP256R1())
        public, signer = key.public_key(), self._key.public_key()
        span = Span(span.start, min(span.end, self._cert.not_valid_after_utc))
        names = [*map(_host_name, hosts), *map(x509.UniformResourceIdentifier, uris)]
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
        built = (
            _builder(_named(name), self._cert.subject, public, span)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(identifier, critical=False)
        )
        cert = built.sign(self._key, hashes.SHA256())
        return Signed(cert.public_bytes(Encoding.PEM), _key_pem(key))

    def has_signed(self, cert: x509.Certificate) -> bool:
        """Whether a certificate is one of its own, or of one of its name before it."""
        return cert.issuer == self._cert.subject


def init(folder: Path, now: dt.datetime, *, days: int, force: bool = False) -> Files:
    """A new authority in a folder; never in the place of another one, unless forced."""
    files = files_of(folder, AUTHORITY)
    there = [path for path in (files.cert, files.key) if path.exists()]
    if there and not force:
        why = "what it has signed would no longer be trusted"
        raise Rejected(f"there is an authority already: {there[0]} (--force replaces it; {why})")
    made = Authority.made("Mainstay development authority", _span(now, days))
    _make_folder(folder)
    _write(files, made.signed)
    return files


def issue(
    folder: Path,
    holder: Holder,
    now: dt.datetime,
    *,
    days: int,
    hosts: Sequence[str] = (),
    force: bool = False,
) -> Files:
    """A certificate for a holder; once more, a newer one in its place."""
    authority = Authority.read(folder, now)
    span, files = _span(now, days), files_of(folder, holder.file)
    if not force:
        _check_renewable(files, holder, authority)
    usages = _BOTH if holder.uri else (Usage.SERVER_AUTH,)
    names = tuple(dict.fromkeys((*LOOPBACK, *hosts)))
    uris = [holder.uri] if holder.uri else []
    _write(files, authority.leaf(holder.file, uris, names, span, usages))
    return files


def days_left(folder: Path, holder: Holder, now: dt.datetime) -> float:
    """How long a holder's certificate still counts; 0 where there is none."""
    files = files_of(folder, holder.file)
    if not (files.cert.exists() and files.key.exists()):
        return 0.0
    return (_certificate(files.cert).not_valid_after_utc - now) / dt.timedelta(days=1)


def _check_renewable(files: Files, holder: Holder, authority: Authority) -> None:
    """What is replaced unasked is a certificate of ours for the same holder, and nothing else."""
    if not files.cert.exists():
        if files.key.exists():
            raise Rejected(f"a key without its certificate is there: {files.key} (--force)")
        return
    cert = _certificate(files.cert)
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    if not authority.has_signed(cert) or uris != ([holder.uri] if holder.uri else []):
        raise Rejected(f"another certificate is there: {files.cert} (--force replaces it)")


def files_of(folder: Path, name: str) -> Files:
    """Where the certificate with this file name is."""
    return Files(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{AUTHORITY}.crt")


def _span(now: dt.datetime, days: int) -> Span:
    if not 1 <= days <= DAYS_MAX:
        raise Rejected(f"days out of range: {days} (must be 1 to {DAYS_MAX})")
    return Span(now - _SKEW, now + dt.timedelta(days=days))


def _named(name: str) -> x509.Name:
    shown = name[:_COMMON_NAME_MAX]
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, shown)])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    labels = host.removeprefix("*.").split(".")
    fit = all(0 < len(each) < 64 and each.replace("-", "").isalnum() for each in labels)
    if not (host.isascii() and fit and len(host) <= 253):
        raise Rejected(f"not a host: {host[:80]!a} (a DNS name or an IP address, without a port)")
    return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, span: Span
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span.start)
        .not_valid_after(span.end)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _may_sign(cert: x509.Certificate) -> bool:
    try:
        return cert.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise Rejected(f"not a certificate in PEM: {path}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"cannot read {path}: {error.strerror}") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"cannot make {folder}: {error.strerror}") from error


def _write(files: Files, signed: Signed) -> None:
    """Key and certificate, each whole or not at all. Who reads in between keeps what it has: a pair
    that does not fit together is not taken.
    """
    for path, data, mode in ((files.key, signed.key, 0o600), (files.cert, signed.cert, 0o644)):
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            _write_new(unfinished, data, mode)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise Rejected(f"cannot write {path}: {error.strerror}") from error


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def flags(files: Iterable[Path]) -> str:
    """The three flags that a process takes, on one line."""
    given = zip(("--tls-cert", "--tls-key", "--tls-ca"), files, strict=True)
    return " ".join(f"{flag} {path}" for flag, path in given)

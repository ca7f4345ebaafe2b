"""A certificate authority for development: it names nodes and our servers, and nothing else.

One file holds its key and certificate. A site with an authority of its own gives certificates of
the same form: one URI `mainstay://node/<id>` in the subject alternative names.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id
from mainstay.runtime.clock import Clock
from mainstay.tenancy.private_files import private_folder, read_private, write_once

NODE_URI: Final = "mainstay://node/"
NODE_S: Final = 24 * 3600
RENEW_BEFORE_S: Final = 3600
"""An agent asks for the next certificate so long before the end of the one it has."""

SERVER_S: Final = 90 * 24 * 3600
AUTHORITY_S: Final = 10 * 365 * 24 * 3600
SKEW_S: Final = 60
"""Clocks may differ: a certificate begins so much before it is issued."""

FILE: Final = "authority.pem"

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class BadCertificate(Rejected):
    """A request or certificate we do not take."""

    code = "bad_certificate"
    what_to_do = "send a signing request in PEM for a key on P-256 or an Ed25519 key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A certificate."""

    pem: bytes
    fingerprint: str
    expires_at_s: float


class Authority:
    """Signs what it is asked to, with names of its own choosing."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Open the one in `folder`, a folder only we can read; make it if there is none."""
        self._clock = clock
        path = private_folder(folder) / FILE
        stored = read_private(path) if path.exists() else write_once(path, self._new())
        try:
            key = load_pem_private_key(stored, password=None)
            self._certificate = x509.load_pem_x509_certificate(stored)
        except ValueError as error:
            raise Rejected(f"not an authority: {path} (key and certificate in PEM)") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise Rejected(f"not an authority: {path} (its key must be on an elliptic curve)")
        self._key = key
        self.pem = self._certificate.public_bytes(Encoding.PEM)

    def issue(self, csr: bytes, node: str) -> Issued:
        """A client certificate for a node. What the request says of names is ignored."""
        uri = node_uri(node)
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        return self._issue(_asked(csr), names, ExtendedKeyUsageOID.CLIENT_AUTH, NODE_S)

    def issue_server(self, csr: bytes, names: Sequence[str]) -> Issued:
        """A server certificate for host names and addresses."""
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        return self._issue(_asked(csr), alternatives, ExtendedKeyUsageOID.SERVER_AUTH, SERVER_S)

    def _issue(
        self,
        key: PublicKey,
        names: x509.SubjectAlternativeName,
        usage: x509.ObjectIdentifier,
        valid_s: int,
    ) -> Issued:
        now_s = self._clock.now_s()
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = (
            _builder(now_s, valid_s)
            .subject_name(x509.Name([]))
            .issuer_name(self._certificate.subject)
            .public_key(key)
            .add_extension(names, critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(authority_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Issued(
            pem=signed.public_bytes(Encoding.PEM),
            fingerprint=fingerprint(signed),
            expires_at_s=signed.not_valid_after_utc.timestamp(),
        )

    def _new(self) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mainstay development CA")])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        signed = (
            _builder(self._clock.now_s(), AUTHORITY_S)
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return private + signed.public_bytes(Encoding.PEM)


def node_uri(node: str) -> str:
    """The one name in a node's certificate."""
    if not is_id(node) or "/" in node:
        raise Rejected(f"not a node id: {node[:80]!r}")
    return NODE_URI + node


def node_of(certificate: x509.Certificate) -> str:
    """Whose certificate it is; one that names no node, or several, is refused."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise BadCertificate("a certificate without a node's name") from error
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    nodes = [uri.removeprefix(NODE_URI) for uri in uris if uri.startswith(NODE_URI)]
    if len(nodes) != 1 or not is_id(nodes[0]):
        raise BadCertificate(f"a certificate must name one node: this one names {len(nodes)}")
    return nodes[0]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, in hex: what a node goes by."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def new_key() -> tuple[bytes, bytes]:
    """A key in PEM and a request for a certificate: what a node makes for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    csr = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), csr


def _asked(csr: bytes) -> PublicKey:
    """The key a request is for, if its sender has the private half and it is strong enough."""
    try:
        request = x509.load_pem_x509_csr(csr)
        valid, key = request.is_signature_valid, request.public_key()
    except (ValueError, InvalidSignature) as error:
        raise BadCertificate("not a certificate signing request in PEM") from error
    if not valid:
        raise BadCertificate("a signing request that is not signed by its own key")
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise BadCertificate("a signing request for a key of another kind")


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(now_s: float, valid_s: int) -> x509.CertificateBuilder:
    now = dt.datetime.fromtimestamp(int(now_s), tz=dt.UTC)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(seconds=SKEW_S))
        .not_valid_after(now + dt.timedelta(seconds=valid_s))
    )

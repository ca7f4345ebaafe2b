"""Certificates for tests: an authority, and what it signs, as PEM files."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from mainstay.wire.tls import TlsFlags

_FROM = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_TO = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


class Authority:
    """Signs certificates and writes them below `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        built = self._builder(self._subject, self._key).add_extension(basic, critical=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def flags(self, *uris: str, name: str = "leaf") -> TlsFlags:
        """The flags of a process with a certificate for these URIs and for loopback."""
        cert, key = self.write(uris, name=name)
        return TlsFlags(cert=str(cert), key=str(key), ca=str(self.path))

    def write(self, uris: Sequence[str], *, name: str = "leaf") -> tuple[Path, Path]:
        """Paths of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            *map(x509.UniformResourceIdentifier, uris),
        ]
        built = self._builder(_subject(name), key)
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert_path, key_path = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert_path.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cert_path, key_path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_FROM)
            .not_valid_after(_TO)
        )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

"""Certificates for tests: an authority, and what it signs, as PEM files."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from mainstay.processes import certs
from mainstay.wire.tls import TlsFlags

_SPAN = certs.Span(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2120, 1, 1, tzinfo=dt.UTC))


class Authority:
    """Signs certificates and writes them below `folder`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._authority = certs.Authority.made(name, _SPAN)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._authority.signed.cert)

    def flags(self, *uris: str, name: str = "leaf") -> TlsFlags:
        """The flags of a process with a certificate for these URIs and for loopback."""
        cert, key = self.write(uris, name=name)
        return TlsFlags(cert=str(cert), key=str(key), ca=str(self.path))

    def write(self, uris: Sequence[str], *, name: str = "leaf") -> tuple[Path, Path]:
        """Paths of a certificate and its key."""
        signed = self._authority.leaf(name, uris, certs.LOOPBACK, _SPAN)
        cert_path, key_path = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert_path.write_bytes(signed.cert)
        key_path.write_bytes(signed.key)
        return cert_path, key_path

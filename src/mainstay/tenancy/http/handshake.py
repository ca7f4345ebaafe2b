"""The client's certificate, handed to the app: no ASGI server does so by itself.

The protocol of uvicorn is given the connection, which knows the handshake. It puts the certificate
where the ASGI extension for TLS has it.
"""

import asyncio
import ssl
from typing import Any, Final

from cryptography import x509
from starlette.requests import Request
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstay.tenancy.authority import fingerprint

EXTENSION: Final = "tls"
CERTIFICATE: Final = "client_certificate"


class CertificateProtocol(HttpToolsProtocol):
    """HTTP/1.1 that knows who is at the other end."""

    _certificate: bytes | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look at the handshake once; the certificate is that of the whole connection."""
        super().connection_made(transport)
        handshake = transport.get_extra_info("ssl_object")
        if isinstance(handshake, ssl.SSLObject):
            self._certificate = handshake.getpeercert(binary_form=True)

    @override
    def on_headers_complete(self) -> None:
        """Put it into the scope before the app sees it."""
        extensions: dict[str, Any] = self.scope.setdefault("extensions", {})
        extensions[EXTENSION] = {CERTIFICATE: self._certificate}
        super().on_headers_complete()


def fingerprint_of(request: Request) -> str:
    """By which the caller's certificate is known; empty without one."""
    found = request.scope.get("extensions", {}).get(EXTENSION, {}).get(CERTIFICATE)
    return fingerprint(x509.load_der_x509_certificate(found)) if found else ""

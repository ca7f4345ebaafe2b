"""How the API of tenants is reached over HTTP: a key never goes over a network in plaintext."""

import ssl
from typing import Final
from urllib.parse import urlsplit

from mainstay.model.errors import Rejected
from mainstay.wire.tls import is_loopback

PORTS: Final = {"http": 80, "https": 443}


def api_trust(url: str, *, ca: str = "", insecure: bool = False) -> ssl.SSLContext | None:
    """Whom to trust at `url`; None: plaintext. Rejected: it may not be asked with a key.

    `ca`: whose certificates are trusted; empty: those that this machine trusts.
    """
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise Rejected(f"not an address of the API of tenants: {url[:120]}")
    if parts.scheme == "http":
        if not insecure and not is_loopback(f"{parts.hostname}:{PORTS['http']}"):
            what = f"a key is not sent to {url[:120]} in plaintext"
            raise Rejected(f"{what}: use https://, or say --insecure (MAINSTAY_INSECURE=1)")
        return None
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:  # ssl.SSLError is one
        raise Rejected(f"cannot read the CA {ca}: {error.strerror or error}") from error


def no_answer(url: str, error: object) -> str:
    """Why there was none, and what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted ({error.verify_message})"
        return f"no answer from {url}: {why}: name its CA with --tls-ca (MAINSTAY_TLS_CA)"
    if isinstance(error, ssl.SSLError):
        return f"no answer from {url}: no TLS there ({error.reason or error})"
    return f"no answer from {url}: {str(error) or 'too late'} (is `mainstay api` running?)"

"""What makes a machine join: a document for the agent on it. The same life gets the same one.

The token is made from the life and a key of ours, not drawn: whoever dies between writing its hash
and answering the shard says the same again, and an answer that was lost voids no other.
"""

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mainstay.model.errors import Rejected
from mainstay.tenancy.private_files import read_private, write_once

VERSION: Final = 1
KEY_FILE: Final = "bridge.key"
KEY_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """What an agent must know to begin."""

    node: str
    token: str
    url: str
    """Where agents are listened to."""

    authority: str
    """The certificate that the listener's own is signed by, in PEM."""

    def written(self) -> bytes:
        """As the machine gets it."""
        return json.dumps(
            {
                "mainstay_node": VERSION,
                "node": self.node,
                "token": self.token,
                "url": self.url,
                "authority": self.authority,
            },
            sort_keys=True,
        ).encode()


def read(written: bytes) -> Blob:
    """The document, on the machine; Rejected when it is none of ours."""
    try:
        said: Any = json.loads(written)
        if said["mainstay_node"] != VERSION:
            raise Rejected(f"a bootstrap of another version: {said['mainstay_node']!r}")
        return Blob(
            node=str(said["node"]),
            token=str(said["token"]),
            url=str(said["url"]),
            authority=str(said["authority"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Rejected("not a bootstrap of ours") from error


def key_in(folder: Path) -> bytes:
    """The key that tokens are made with; made when it is first asked for."""
    path = folder / KEY_FILE
    if path.exists():
        return read_private(path)
    return write_once(path, secrets.token_bytes(KEY_BYTES))


def token_for(key: bytes, cluster: str, node: str) -> str:
    """The one token of one life."""
    digest = hmac.digest(key, f"{cluster}\n{node}".encode(), hashlib.sha256)
    return f"enr_{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

"""The public keys of an identity provider: from a file, or from where it publishes them.

They are kept and read anew now and then. A token that names a key we do not know is the sign of a
new one: then they are read at once, but not for every token that anybody makes up. When they cannot
be read, the old ones are good for a while longer, and then nobody is believed until they can be.
"""

import asyncio
import base64
import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from typing_extensions import override

from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import Clock
from mainstay.runtime.log import logger

REREAD_S: Final = 60.0
UNKNOWN_S: Final = 5.0
"""Between two reads because of keys that we do not know, or because we know none."""

KEPT_S: Final = 3600.0
"""So long keys are good that could not be read again."""

PATIENCE_S: Final = 5.0
"""With one read, all in all."""

BYTES_MAX: Final = 1024 * 1024

Read = Callable[[str], bytes]


def is_url(where: str) -> bool:
    """Whether it is no path."""
    return urlsplit(where).scheme in {"http", "https"}


class Jwks:
    """The keys of one issuer."""

    def __init__(self, where: str, clock: Clock, read: Read | None = None) -> None:
        self._where, self._clock = where, clock
        self._read = read or (fetched if is_url(where) else _from_file)
        self._keys: KeySet | None = None
        self._good_at_s = -math.inf
        self._tried_at_s = -math.inf
        self._reading = asyncio.Lock()
        self._running: asyncio.Future[bytes] | None = None

    async def for_token(self, token: str) -> KeySet:
        """The keys, read anew if they are old or do not have the one that the token names."""
        if (keys := self._known(token)) is not None:
            return keys
        async with self._reading:
            if (keys := self._known(token)) is not None:
                return keys
            now_s = self._clock.elapsed_s()
            if not self._are_good(now_s) and now_s - self._tried_at_s < UNKNOWN_S:
                raise Unavailable(f"the keys of tokens could not be read: {self._where}")
            return await self._anew()

    def _are_good(self, now_s: float) -> bool:
        return self._keys is not None and now_s - self._good_at_s <= KEPT_S

    def _known(self, token: str) -> KeySet | None:
        """What we have, unless it is time to read."""
        now_s = self._clock.elapsed_s()
        if self._keys is None or not self._are_good(now_s):
            return None
        waited_s = now_s - self._tried_at_s
        named = _named(token)
        is_there = named is None or any(key.kid == named for key in self._keys.keys)
        return self._keys if waited_s < (REREAD_S if is_there else UNKNOWN_S) else None

    async def _anew(self) -> KeySet:
        now_s = self._tried_at_s = self._clock.elapsed_s()
        try:
            self._keys = KeySet.import_key_set(json.loads(await self._content()))
        except OSError as error:
            return self._old(f"cannot read the keys of tokens: {self._where}", error)
        except (ValueError, JoseError, KeyError, TypeError, RecursionError) as error:
            return self._old(f"not a set of keys: {self._where}", error)
        self._good_at_s = now_s
        return self._keys

    async def _content(self) -> bytes:
        """What is there. A read that takes too long goes on, and the next one waits for it, so that
        no more than one thread waits for an issuer."""
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(asyncio.to_thread(self._read, self._where))
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.shield(self._running)

    def _old(self, why: str, error: Exception) -> KeySet:
        now_s = self._tried_at_s = self._clock.elapsed_s()
        if self._keys is None or not self._are_good(now_s):
            raise Unavailable(why) from error
        logger().warning("keys_of_tokens_are_old", why=why, error=type(error).__name__)
        return self._keys


def _named(token: str) -> str | None:
    """The key that a token says it is signed with, if it says so."""
    head = token.partition(".")[0]
    try:
        said = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return None
    kid = said.get("kid") if isinstance(said, dict) else None
    return kid if isinstance(kid, str) else None


def _from_file(path: str) -> bytes:
    return Path(path).read_bytes()


def fetched(url: str) -> bytes:
    """What is there; every failure is an OSError."""
    opener = urllib.request.build_opener(_NoRedirect())
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            content: bytes = answer.read(BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"it answered {error.code}") from error
    except HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from where we were told, and from nowhere else."""

    @override
    def redirect_request(self, *_: object) -> None:
        """Not followed: it is an error."""

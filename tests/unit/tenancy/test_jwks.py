"""Keys of an identity provider: kept, read anew for a key that is not known, not for everybody."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from joserfc import jwt
from joserfc.jwk import OKPKey
from typing_extensions import override

from mainstay.model.errors import Unavailable
from mainstay.runtime.clock import StepClock
from mainstay.tenancy.http import jwks
from mainstay.tenancy.http.jwks import Jwks
from mainstay.tenancy.http.tokens import Issuer, TokenInvalid, Tokens

NOW_S = 1_800_000_000.0
ISSUER = "https://issuer.example"


def key(name: str) -> OKPKey:
    return OKPKey.generate_key("Ed25519", {"kid": name})


def token(signer: OKPKey) -> str:
    claims = {"iss": ISSUER, "aud": "mainstay", "exp": int(NOW_S) + 3600, "sub": "ada",
              "mainstay_role": "readonly"}  # fmt: skip
    return jwt.encode({"alg": "Ed25519", "kid": signer.kid}, claims, signer, algorithms=["Ed25519"])


class Provider:
    """What it publishes, and how often it was asked."""

    def __init__(self, *keys: OKPKey) -> None:
        self.asked = 0
        self.fails: Exception | None = None
        self.publish(*keys)

    def publish(self, *keys: OKPKey) -> None:
        self.content = json.dumps({"keys": [each.as_dict(private=False) for each in keys]}).encode()

    def read(self, _: str) -> bytes:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return self.content


def names(source: Jwks, said: str) -> set[str | None]:
    return {each.kid for each in asyncio.run(source.for_token(said)).keys}


def test_keys_are_read_once_for_many_tokens() -> None:
    one = key("one")
    provider = Provider(one)
    source = Jwks("https://issuer.example/keys", StepClock(NOW_S), provider.read)

    for _ in range(10):
        assert names(source, token(one)) == {"one"}
    assert provider.asked == 1


def test_a_token_of_a_new_key_has_the_keys_read_again() -> None:
    one, two = key("one"), key("two")
    provider, clock = Provider(one), StepClock(NOW_S)
    source = Jwks("https://issuer.example/keys", clock, provider.read)
    names(source, token(one))
    provider.publish(one, two)

    clock.advance(jwks.UNKNOWN_S)
    assert names(source, token(two)) == {"one", "two"}
    assert provider.asked == 2


def test_tokens_that_anybody_makes_up_do_not_have_the_keys_read_each_time() -> None:
    one, clock = key("one"), StepClock(NOW_S)
    provider = Provider(one)
    source = Jwks("https://issuer.example/keys", clock, provider.read)
    names(source, token(one))
    for number in range(100):
        names(source, token(key(f"made-up-{number}")))
    assert provider.asked == 1
    clock.advance(jwks.UNKNOWN_S)
    for number in range(100):
        names(source, token(key(f"made-up-{number}")))
    assert provider.asked == 2


def test_keys_that_cannot_be_read_again_are_good_for_a_while() -> None:
    one, clock = key("one"), StepClock(NOW_S)
    provider = Provider(one)
    source = Jwks("https://issuer.example/keys", clock, provider.read)
    names(source, token(one))
    for fails in (OSError("away"), ValueError("not JSON")):
        provider.fails = fails
        clock.advance(jwks.REREAD_S)
        assert names(source, token(one)) == {"one"}
    clock.advance(jwks.KEPT_S)
    with pytest.raises(Unavailable, match="not a set of keys"):
        names(source, token(one))


def test_keys_that_are_too_old_are_believed_by_nobody() -> None:
    """Not by who comes after the read that failed, either; and not for ever."""
    one, clock = key("one"), StepClock(NOW_S)
    provider = Provider(one)
    source = Jwks("https://issuer.example/keys", clock, provider.read)
    names(source, token(one))
    provider.fails = OSError("away")
    clock.advance(jwks.KEPT_S)
    assert names(source, token(one)) == {"one"}
    clock.advance(jwks.UNKNOWN_S)
    for _ in range(10):
        with pytest.raises(Unavailable):
            names(source, token(one))
    assert provider.asked == 3
    provider.fails = None
    clock.advance(jwks.UNKNOWN_S)
    assert names(source, token(one)) == {"one"}


def test_who_has_no_keys_does_not_ask_for_each_token() -> None:
    clock, provider = StepClock(), Provider(key("one"))
    provider.fails = OSError("away")
    source = Jwks("https://issuer.example/keys", clock, provider.read)
    for asked in (1, 2):
        for _ in range(10):
            with pytest.raises(Unavailable):
                names(source, token(key("one")))
        assert provider.asked == asked
        clock.advance(jwks.UNKNOWN_S)


def test_an_issuer_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "PATIENCE_S", 0.01)
    clock, provider, answers = StepClock(), Provider(key("one")), Event()

    def read(where: str) -> bytes:
        content = provider.read(where)
        answers.wait(30)
        return content

    async def scenario() -> None:
        source = Jwks("https://issuer.example/keys", clock, read)
        try:
            for _ in range(3):
                with pytest.raises(Unavailable, match="cannot read the keys"):
                    await source.for_token("a.b.c")
                clock.advance(jwks.UNKNOWN_S)
        finally:
            answers.set()
        assert provider.asked == 1, "one thread waits, not one for each read"
        monkeypatch.setattr(jwks, "PATIENCE_S", 30.0)
        assert {each.kid for each in (await source.for_token("a.b.c")).keys} == {"one"}

    asyncio.run(scenario())


def test_a_token_with_a_head_of_many_heads_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(Provider(key("one")).content)
    tokens = Tokens(Issuer(issuer=ISSUER, audience="mainstay", jwks=str(path)), StepClock(NOW_S))
    head = base64.urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=")
    for _ in range(2):  # with the keys still to be read, and with keys to look at
        with pytest.raises(TokenInvalid):
            holder(tokens, f"{head}.e30.AA")


def test_what_was_never_read_is_no_reason_to_believe() -> None:
    provider = Provider()
    provider.fails = OSError("away")
    with pytest.raises(Unavailable, match="cannot read the keys of tokens"):
        names(Jwks("https://issuer.example/keys", StepClock(NOW_S), provider.read), token(key("x")))


@contextmanager
def served(provider: Provider, *, moved: bool = False) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if moved and self.path == "/keys" else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(provider.read(self.path))

        @override
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def holder(tokens: Tokens, said: str) -> str:
    return asyncio.run(tokens.holder(said)).subject


def test_tokens_are_believed_by_the_keys_at_a_url_and_in_a_file(tmp_path: Path) -> None:
    one, other = key("one"), key("other")
    provider = Provider(one)
    path = tmp_path / "keys.json"
    path.write_bytes(provider.content)
    with served(provider) as url:
        for where in (url, str(path)):
            issuer = Issuer(issuer=ISSUER, audience="mainstay", jwks=where)
            tokens = Tokens(issuer, StepClock(NOW_S))
            assert holder(tokens, token(one)) == "ada"
            with pytest.raises(TokenInvalid):
                holder(tokens, token(other))


def test_keys_are_not_taken_from_where_somebody_points() -> None:
    with (
        served(Provider(key("one")), moved=True) as url,
        pytest.raises(Unavailable, match="cannot read the keys"),
    ):
        names(Jwks(url, StepClock(NOW_S)), "a.b.c")

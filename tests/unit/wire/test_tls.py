"""Who may be at the other end, and what the four flags mean."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from certificates import Authority
from mainstay.model.errors import Rejected
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import (
    Identity,
    MutualTls,
    Plaintext,
    Role,
    TlsFlags,
    caller,
    is_loopback,
    parse_identity,
    transport,
)

LOOPBACK = "127.0.0.1:9000"
ANYWHERE = "0.0.0.0:9000"

IDENTITIES = {
    "bigfleet://cluster/eu-1": Identity(Role.CLUSTER, "eu-1"),
    "bigfleet://shard/s/0": Identity(Role.SHARD, "s/0"),
    "bigfleet://admin": Identity(Role.ADMIN),
    "bigfleet://readonly": Identity(Role.READONLY),
}


class Connection:
    """What gRPC would tell of a connection."""

    def __init__(self, *uris: str, version: str = "TLSv1.3") -> None:
        self._learned: dict[str, list[bytes]] = {
            "transport_security_type": [b"ssl"],
            "ssl_tls_version": [version.encode()],
            "peer_uri": [uri.encode() for uri in uris],
        }

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return self._learned


class Bare:
    """A connection without TLS."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}


class TestIdentity:
    @pytest.mark.parametrize("uri", IDENTITIES)
    def test_each_form_is_read_and_written(self, uri: str) -> None:
        assert parse_identity(uri) == IDENTITIES[uri]
        assert IDENTITIES[uri].uri == uri

    @pytest.mark.parametrize(
        "uri",
        [
            "spiffe://shard/s", "bigfleet://", "bigfleet://shard", "bigfleet://shard/",
            "bigfleet://cluster/a b", "bigfleet://admin/", "bigfleet://admin/x", "bigfleet://root",
            "shard/s-0", "BIGFLEET://admin",
        ],
    )  # fmt: skip
    def test_anything_else_is_refused(self, uri: str) -> None:
        with pytest.raises(Rejected, match="not an identity"):
            parse_identity(uri)

    def test_a_caller_is_who_its_certificate_says(self) -> None:
        assert caller(Connection("bigfleet://shard/s-0")) == Identity(Role.SHARD, "s-0")
        assert caller(Connection("https://x", "bigfleet://admin")) == Identity(Role.ADMIN)

    def test_without_tls_nobody_knows(self) -> None:
        assert caller(Bare()) is None

    @pytest.mark.parametrize(
        "uris",
        [(), ("https://x",), ("bigfleet://admin", "bigfleet://readonly"), ("bigfleet://nobody",)],
    )
    def test_a_certificate_with_none_or_several_names_is_refused(self, uris: list[str]) -> None:
        with pytest.raises(NotAllowed):
            caller(Connection(*uris))

    @pytest.mark.parametrize("version", ["TLSv1.2", ""])
    def test_tls_before_1_3_is_refused(self, version: str) -> None:
        with pytest.raises(NotAllowed, match=r"use TLS 1\.3"):
            caller(Connection("bigfleet://admin", version=version))


class TestFlags:
    def test_three_files_are_mutual_tls(self, tmp_path: Path) -> None:
        flags = Authority(tmp_path).flags("bigfleet://admin")

        assert isinstance(transport(flags, ANYWHERE), MutualTls)

    @pytest.mark.parametrize("given", ["cert", "key", "ca"])
    def test_some_of_the_files_are_an_error_that_names_the_rest(self, given: str) -> None:
        flags = TlsFlags(**{given: "x.pem"})  # type: ignore[arg-type]

        with pytest.raises(Rejected, match="all three") as caught:
            transport(flags, LOOPBACK)
        assert f"--tls-{given}" not in caught.value.message

    def test_insecure_is_plaintext_on_loopback_only(self) -> None:
        asked = TlsFlags(insecure=True)

        assert transport(asked, LOOPBACK) == Plaintext()
        with pytest.raises(Rejected, match="only on loopback"):
            transport(asked, ANYWHERE)

    def test_insecure_and_files_contradict_each_other(self) -> None:
        with pytest.raises(Rejected, match="contradicts"):
            transport(TlsFlags(cert="x.pem", insecure=True), LOOPBACK)

    def test_nothing_is_refused(self) -> None:
        with pytest.raises(Rejected, match="no TLS"):
            transport(TlsFlags(), LOOPBACK)

    def test_a_tool_may_have_nothing_on_loopback_and_says_so(self) -> None:
        over = transport(TlsFlags(), LOOPBACK, tool=True)

        assert isinstance(over, Plaintext)
        assert LOOPBACK in over.announcement
        assert "\n" not in over.announcement
        with pytest.raises(Rejected, match="only on loopback"):
            transport(TlsFlags(), ANYWHERE, tool=True)

    @pytest.mark.parametrize(
        ("address", "loopback"),
        [
            ("127.0.0.1:1", True), ("127.9.9.9:1", True), ("localhost:1", True), ("[::1]:1", True),
            ("0.0.0.0:1", False), ("[::]:1", False), (":9000", False), ("10.0.0.1:1", False),
            ("localhost.example.org:1", False), ("127.0.0.1", False),
        ],
    )  # fmt: skip
    def test_loopback_is_what_only_this_machine_reaches(self, address: str, loopback: bool) -> None:
        assert is_loopback(address) is loopback


class TestFiles:
    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        flags = Authority(tmp_path).flags()
        (tmp_path / "leaf.key").unlink()

        with pytest.raises(Rejected, match=r"cannot read .*leaf\.key"):
            transport(flags, LOOPBACK)

    @pytest.mark.parametrize(
        ("name", "says"), [("leaf.crt", "certificate"), ("leaf.key", "key"), ("ca.pem", "cert")]
    )
    def test_a_file_that_is_something_else_is_named(
        self, tmp_path: Path, name: str, says: str
    ) -> None:
        flags = Authority(tmp_path).flags()
        (tmp_path / name).write_text("hello\n")

        with pytest.raises(Rejected, match=rf"not a .*{says}.*{name}"):
            transport(flags, LOOPBACK)

    def test_a_key_of_another_certificate_is_refused(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        cert, _ = authority.write([], name="one")
        _, key = authority.write([], name="two")

        with pytest.raises(Rejected, match="do not belong together"):
            MutualTls(cert, key, authority.path)

    def test_a_new_pair_is_taken_and_a_torn_one_is_not(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        cert, key = authority.write(["bigfleet://admin"])
        tls = MutualTls(cert, key, authority.path)
        assert tls.refresh() is False

        other, _ = authority.write(["bigfleet://admin"], name="other")
        cert.write_bytes(other.read_bytes())
        touch(cert, 1)
        assert tls.refresh() is False  # certificate and key do not fit yet

        authority.write(["bigfleet://admin"])
        touch(cert, 2)
        touch(key, 2)
        assert tls.refresh() is True
        assert tls.refresh() is False

    def test_a_vanished_file_leaves_the_last_pair_in_use(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        cert, key = authority.write([])
        tls = MutualTls(cert, key, authority.path)

        cert.unlink()

        assert tls.refresh() is False
        assert tls.channel_credentials() is not None


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))

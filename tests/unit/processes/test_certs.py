"""Certificates for development: made by the command, and good for a real handshake."""

import asyncio
import datetime as dt
import stat
import sys
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

import outside
from mainstay.cli import exits
from mainstay.cli.main import dispatch
from mainstay.model.errors import Rejected
from mainstay.processes import certs
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Identity, Role, TlsFlags, caller, transport
from mainstay.wire.transport import open_channel, serving

NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
ISSUED = {
    ("shard", "s-1"): ("shard-s-1", "bigfleet://shard/s-1"),
    ("cluster", "web"): ("cluster-web", "bigfleet://cluster/web"),
    ("admin",): ("admin", "bigfleet://admin"),
    ("readonly",): ("readonly", "bigfleet://readonly"),
    ("coordinator", "c-0"): ("coordinator-c-0", "bigfleet://admin"),
    ("provider", "metal"): ("provider-metal", ""),
}


def told(
    capsys: pytest.CaptureFixture[str], *words: str, code: int = exits.DONE
) -> tuple[str, str]:
    """What the command prints, on both streams."""
    assert dispatch(["certs", *words]) == code
    said = capsys.readouterr()
    return said.out, said.err


@pytest.fixture(name="pki")
def a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    told(capsys, "init", "--dir", str(tmp_path / "pki"))
    return tmp_path / "pki"


def flags_in(line: str) -> TlsFlags:
    words = line.split()
    assert words[::2] == ["--tls-cert", "--tls-key", "--tls-ca"]
    return TlsFlags(cert=words[1], key=words[3], ca=words[5])


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("words", ISSUED, ids=" ".join)
def test_a_certificate_says_who_its_holder_is_and_no_more(
    words: tuple[str, ...], pki: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, uri = ISSUED[words]
    line, _ = told(
        capsys, "issue", *words, "--host", "db.example", "--host", "10.0.0.7", "--dir", str(pki)
    )

    assert flags_in(line).cert == str(pki / f"{file}.crt")
    extensions = certificate(pki / f"{file}.crt").extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ([uri] if uri else [])
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "db.example"]
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "::1", "10.0.0.7"]
    usages = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert usages == ({Usage.SERVER_AUTH, Usage.CLIENT_AUTH} if uri else {Usage.SERVER_AUTH})


def test_keys_are_for_their_owner_alone(pki: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "issue", "admin", "--dir", str(pki))

    assert mode(pki) == 0o700
    assert {path.name: oct(mode(path)) for path in pki.glob("*.key")} == {
        "ca.key": "0o600",
        "admin.key": "0o600",
    }
    assert isinstance(certificate(pki / "ca.crt").public_key(), ec.EllipticCurvePublicKey)
    assert [path.name for path in pki.iterdir() if path.name.startswith(".")] == []


def test_without_a_folder_they_are_at_home(tmp_path: Path) -> None:
    env = outside.environment(MAINSTAY_HOME=str(tmp_path))
    script = "from mainstay.cli.main import main; main(['certs', 'init'])"

    ended = outside.run([sys.executable, "-c", script], env=env)

    assert (ended.returncode, ended.stdout) == (0, f"{tmp_path}/pki/ca.crt\n")


class TestHandshake:
    """Over mutual TLS on loopback, with the files that the command wrote."""

    @staticmethod
    async def seen(server: TlsFlags, client: TlsFlags, host: str = "127.0.0.1") -> Identity | None:
        """Who the server says has called."""

        async def handle(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            try:
                identity = caller(context)
            except NotAllowed as error:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, error.message)
            return b"" if identity is None else identity.uri.encode()

        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(handle)
        handler = grpc.method_handlers_generic_handler("t.T", {"Who": method})
        over = transport(server, "127.0.0.1:0")
        async with serving([handler], "127.0.0.1:0", over) as address:
            where = f"{host}:{address.rpartition(':')[2]}"
            async with open_channel(where, transport(client, where)) as channel:
                ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                    "/t.T/Who"
                )
                answer: bytes = await ask(b"", timeout=10)
        word, _, name = answer.decode().removeprefix("bigfleet://").partition("/")
        return Identity(Role(word), name)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_a_shard_calls_a_coordinator(
        self, host: str, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server = flags_in(told(capsys, "issue", "coordinator", "c-0", "--dir", str(pki))[0])
        client = flags_in(told(capsys, "issue", "shard", "s-1", "--dir", str(pki))[0])

        assert asyncio.run(self.seen(server, client, host)) == Identity(Role.SHARD, "s-1")

    def test_a_provider_serves_and_calls_nobody(
        self, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        provider = flags_in(told(capsys, "issue", "provider", "metal", "--dir", str(pki))[0])
        admin = flags_in(told(capsys, "issue", "admin", "--dir", str(pki))[0])

        assert asyncio.run(self.seen(provider, admin)) == Identity(Role.ADMIN)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            asyncio.run(self.seen(admin, provider))
        assert refused.value.code() in {
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.PERMISSION_DENIED,
        }

    def test_a_renewed_certificate_is_another_one_and_as_good(
        self, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server = flags_in(told(capsys, "issue", "admin", "--dir", str(pki))[0])
        flags_in(told(capsys, "issue", "shard", "s-1", "--dir", str(pki))[0])
        before = (pki / "shard-s-1.crt").read_bytes(), (pki / "shard-s-1.key").read_bytes()

        client = flags_in(told(capsys, "issue", "shard", "s-1", "--dir", str(pki))[0])

        after = (pki / "shard-s-1.crt").read_bytes(), (pki / "shard-s-1.key").read_bytes()
        assert before[0] != after[0]
        assert before[1] != after[1]
        assert asyncio.run(self.seen(server, client)) == Identity(Role.SHARD, "s-1")

    def test_another_authority_is_not_trusted(
        self, pki: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told(capsys, "init", "--dir", str(tmp_path / "other"))
        theirs = flags_in(told(capsys, "issue", "admin", "--dir", str(tmp_path / "other"))[0])
        ours = flags_in(told(capsys, "issue", "admin", "--dir", str(pki))[0])

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            asyncio.run(self.seen(ours, theirs))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


class TestRefusals:
    def test_an_authority_is_not_replaced_unasked(
        self, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = (pki / "ca.key").read_bytes()

        _, why = told(capsys, "init", "--dir", str(pki), code=exits.FAILED)

        assert why.startswith(f"mainstay: there is an authority already: {pki}/ca.crt (--force")
        assert why.count("\n") == 1
        assert (pki / "ca.key").read_bytes() == before
        told(capsys, "init", "--dir", str(pki), "--force")
        assert (pki / "ca.key").read_bytes() != before

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            (["emperor"], "no such kind of certificate: 'emperor' (one of shard, cluster, admin, "),
            (["shard"], "shard needs a name, printable ASCII without spaces: ''"),
            (["shard", "a b"], "shard needs a name, printable ASCII without spaces: 'a b'"),
            (["admin", "x"], "admin has no name: 'x' (leave it out)"),
            (["admin", "--host", "a:1"], "not a host: 'a:1' (a DNS name or an IP address, without"),
            (["admin", "--host", ""], "not a host: ''"),
            (["admin", "--days", "0"], "days out of range: 0 (must be 1 to 36500)"),
        ],
    )
    def test_what_cannot_be_issued_is_one_line(
        self, words: list[str], why: str, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        there = set(pki.iterdir())

        _, said = told(capsys, "issue", *words, "--dir", str(pki), code=exits.FAILED)

        assert said.startswith(f"mainstay: {why}")
        assert said.count("\n") == 1
        assert set(pki.iterdir()) == there

    def test_without_an_authority_nothing_is_signed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _, why = told(capsys, "issue", "admin", "--dir", str(tmp_path), code=exits.FAILED)

        assert why.startswith(f"mainstay: no authority in {tmp_path}: `mainstay certs init` makes")

    def test_a_folder_that_cannot_be_one(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")

        _, why = told(capsys, "init", "--dir", str(tmp_path / "file" / "pki"), code=exits.FAILED)

        assert why.startswith(f"mainstay: cannot make {tmp_path}/file/pki: Not a directory")
        assert why.count("\n") == 1

    def test_a_file_that_cannot_be_written(
        self, pki: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (pki / "admin.key").mkdir()
        (pki / "admin.key" / "x").write_text("")

        words = ("issue", "admin", "--force", "--dir", str(pki))
        _, why = told(capsys, *words, code=exits.FAILED)

        assert why.startswith(f"mainstay: cannot write {pki}/admin.key: Is a directory")
        assert [path.name for path in pki.iterdir() if path.name.startswith(".")] == []

    def test_an_authority_that_has_expired_signs_nothing(self, tmp_path: Path) -> None:
        certs.init(tmp_path, NOW, days=30)
        late = NOW + dt.timedelta(days=30)

        with pytest.raises(Rejected, match=r"has expired on 2026-07-31: `mainstay certs init --fo"):
            certs.issue(tmp_path, certs.holder_of("admin", ""), late, days=1)

    def test_a_certificate_counts_no_longer_than_its_authority(self, tmp_path: Path) -> None:
        certs.init(tmp_path, NOW, days=30)
        files = certs.issue(tmp_path, certs.holder_of("admin", ""), NOW, days=365)

        assert certificate(files.cert).not_valid_after_utc == NOW + dt.timedelta(days=30)

    def test_a_certificate_of_somebody_else_is_not_replaced_unasked(self, tmp_path: Path) -> None:
        certs.init(tmp_path, NOW, days=30)
        admin = certs.issue(tmp_path, certs.holder_of("admin", ""), NOW, days=1)
        shard = certs.holder_of("shard", "s-1")
        (tmp_path / "shard-s-1.crt").write_bytes(admin.cert.read_bytes())

        with pytest.raises(Rejected, match=r"another certificate is there: .*shard-s-1.crt"):
            certs.issue(tmp_path, shard, NOW, days=1)
        certs.issue(tmp_path, shard, NOW, days=1, force=True)

    @pytest.mark.parametrize(
        ("file", "content", "why"),
        [
            ("ca.crt", b"nothing", "not a certificate in PEM: "),
            ("ca.key", b"nothing", "not a private key in PEM: "),
            ("ca.key", None, "cannot read "),
        ],
    )
    def test_an_authority_that_is_broken_is_told_by_its_file(
        self, file: str, content: bytes | None, why: str, tmp_path: Path
    ) -> None:
        certs.init(tmp_path, NOW, days=30)
        if content is None:
            (tmp_path / file).unlink()
        else:
            (tmp_path / file).write_bytes(content)

        with pytest.raises(Rejected, match=why + str(tmp_path / file)):
            certs.issue(tmp_path, certs.holder_of("admin", ""), NOW, days=1)

    def test_the_key_of_another_authority_signs_nothing(self, tmp_path: Path) -> None:
        certs.init(tmp_path, NOW, days=30)
        certs.init(tmp_path / "other", NOW, days=30)
        (tmp_path / "ca.key").write_bytes((tmp_path / "other/ca.key").read_bytes())

        with pytest.raises(Rejected, match="not the key of "):
            certs.issue(tmp_path, certs.holder_of("admin", ""), NOW, days=1)

    def test_a_leaf_is_no_authority(self, tmp_path: Path) -> None:
        certs.init(tmp_path, NOW, days=30)
        admin = certs.issue(tmp_path, certs.holder_of("admin", ""), NOW, days=1)
        (tmp_path / "ca.crt").write_bytes(admin.cert.read_bytes())
        (tmp_path / "ca.key").write_bytes(admin.key.read_bytes())

        with pytest.raises(Rejected, match="not the certificate of an authority"):
            certs.issue(tmp_path, certs.holder_of("readonly", ""), NOW, days=1)

    def test_a_name_with_a_slash_stays_in_the_folder(self, tmp_path: Path) -> None:
        certs.init(tmp_path / "pki", NOW, days=30)
        files = certs.issue(tmp_path / "pki", certs.holder_of("shard", "../../x"), NOW, days=1)

        assert files.cert.parent == tmp_path / "pki"
        assert files.cert.name == "shard-..%2F..%2Fx.crt"

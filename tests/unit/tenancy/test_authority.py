"""The development authority: what it signs, what it ignores, and that TLS believes it."""

import datetime as dt
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from mainstay.model.errors import Rejected
from mainstay.runtime.clock import StepClock, SystemClock
from mainstay.tenancy.authority import (
    AUTHORITY_S,
    NODE_S,
    SKEW_S,
    Authority,
    BadCertificate,
    fingerprint,
    new_key,
    node_of,
)

NOW_S = 1_800_000_000.0
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority", StepClock(NOW_S))


def request(key: Key, *names: str) -> bytes:
    """A signing request that asks for names of its own."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "admin")])
    asked = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(name) for name in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    signed = builder.add_extension(asked, critical=False).sign(key, algorithm)
    return signed.public_bytes(Encoding.PEM)


def issued(authority: Authority, csr: bytes, node: str = "node-a") -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.issue(csr, node).pem)


class TestNodes:
    def test_a_certificate_names_the_node_and_lasts_a_day(self, authority: Authority) -> None:
        given = authority.issue(new_key()[1], "node-a")
        found = x509.load_pem_x509_certificate(given.pem)
        now = dt.datetime.fromtimestamp(NOW_S, tz=dt.UTC)

        assert node_of(found) == "node-a"
        assert given.fingerprint == fingerprint(found)
        assert given.expires_at_s == NOW_S + NODE_S
        assert found.not_valid_after_utc == now + dt.timedelta(hours=24)
        assert found.not_valid_before_utc == now - dt.timedelta(seconds=SKEW_S)

    def test_names_that_a_request_asks_for_are_ignored(self, authority: Authority) -> None:
        key = ec.generate_private_key(ec.SECP256R1())

        found = issued(authority, request(key, "mainstay://node/node-b"))

        assert node_of(found) == "node-a"
        assert list(found.subject) == []
        assert found.public_key() == key.public_key()

    def test_it_is_for_clients_and_signs_nothing(self, authority: Authority) -> None:
        extensions = issued(authority, new_key()[1]).extensions

        usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    @pytest.mark.parametrize(
        "key", [ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()]
    )
    def test_keys_on_p256_and_ed25519_are_taken(self, authority: Authority, key: Key) -> None:
        assert node_of(issued(authority, request(key))) == "node-a"

    @pytest.mark.parametrize(
        "key",
        [ec.generate_private_key(ec.SECP192R1()), rsa.generate_private_key(65537, 2048)],
        ids=["p192", "rsa"],
    )
    def test_keys_of_other_kinds_are_not(self, authority: Authority, key: Key) -> None:
        with pytest.raises(BadCertificate, match="another kind"):
            authority.issue(request(key), "node-a")

    def test_who_has_not_the_key_gets_no_certificate_for_it(self, authority: Authority) -> None:
        der = bytearray(x509.load_pem_x509_csr(new_key()[1]).public_bytes(Encoding.DER))
        der[-1] ^= 1
        stolen = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)

        with pytest.raises(BadCertificate, match="own key"):
            authority.issue(stolen, "node-a")

    @pytest.mark.parametrize("csr", [b"", b"no", b"-----BEGIN CERTIFICATE REQUEST-----\nAA=="])
    def test_what_is_no_request_is_one_line(self, authority: Authority, csr: bytes) -> None:
        with pytest.raises(BadCertificate):
            authority.issue(csr, "node-a")

    @pytest.mark.parametrize("node", ["", "a b", "a/b", "ä"])
    def test_a_name_that_could_be_read_as_another_is_refused(
        self, authority: Authority, node: str
    ) -> None:
        with pytest.raises(Rejected):
            authority.issue(new_key()[1], node)

    def test_a_servers_certificate_is_no_nodes(self, authority: Authority) -> None:
        server = authority.issue_server(new_key()[1], ["localhost"])

        with pytest.raises(BadCertificate):
            node_of(x509.load_pem_x509_certificate(server.pem))

    def test_the_authority_itself_is_no_node(self, authority: Authority) -> None:
        with pytest.raises(BadCertificate):
            node_of(x509.load_pem_x509_certificate(authority.pem))


class TestKeeping:
    def test_it_is_made_once_and_opened_again(self, tmp_path: Path) -> None:
        first = Authority(tmp_path / "authority", StepClock(NOW_S))
        later = Authority(tmp_path / "authority", StepClock(NOW_S + AUTHORITY_S))

        assert later.pem == first.pem

    def test_its_file_is_for_us_alone(self, authority: Authority, tmp_path: Path) -> None:
        (file,) = (tmp_path / "authority").iterdir()

        assert file.stat().st_mode & 0o777 == 0o600

    def test_a_file_that_is_not_one_of_ours_is_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "authority"
        folder.mkdir(mode=0o700)
        (folder / "authority.pem").touch(mode=0o600)

        with pytest.raises(Rejected, match="not an authority"):
            Authority(folder, StepClock(NOW_S))


def test_two_ends_with_its_certificates_believe_each_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority", SystemClock())
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    serving = context(tmp_path, authority, "server")
    calling = context(tmp_path, authority, "client")
    ours, theirs = socket.socketpair()
    seen: list[bytes | None] = []

    def serve() -> None:
        with serving.wrap_socket(theirs, server_side=True) as link:
            seen.append(link.getpeercert(binary_form=True))
            link.sendall(b"x")

    server = threading.Thread(target=serve)
    server.start()
    with calling.wrap_socket(ours, server_hostname="localhost") as link:
        assert link.recv(1) == b"x"
    server.join()

    (certificate,) = seen
    assert certificate is not None
    assert node_of(x509.load_der_x509_certificate(certificate)) == "node-a"


def context(folder: Path, authority: Authority, end: str) -> ssl.SSLContext:
    """TLS 1.3 in which both ends must have a certificate of the authority."""
    key, csr = new_key()
    serves = end == "server"
    given = authority.issue_server(csr, ["localhost"]) if serves else authority.issue(csr, "node-a")
    (folder / f"{end}.key").write_bytes(key)
    (folder / f"{end}.pem").write_bytes(given.pem)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    found.verify_mode = ssl.CERT_REQUIRED
    found.load_verify_locations(folder / "ca.pem")
    found.load_cert_chain(folder / f"{end}.pem", folder / f"{end}.key")
    return found

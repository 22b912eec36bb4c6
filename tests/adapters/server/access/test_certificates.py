"""The certificates of a folder: made once, trusted by earlier clients, renewed in time."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from cryptography import x509

from makeway.adapters.server.access.certificates import CA_DAYS, RENEW_DAYS, SERVER_DAYS, Certificate, certificate
from makeway.core.model import Millis
from tests.adapters.server.serving import Server, clock, running, until

DAY = 24 * 60 * 60 * 1000
NOON = Millis(1_767_268_800_000)


def files(certificate: Certificate) -> tuple[bytes, bytes, bytes]:
    return certificate.ca.read_bytes(), certificate.chain.read_bytes(), certificate.key.read_bytes()


def names(made: Certificate) -> set[str]:
    found = x509.load_pem_x509_certificate(made.chain.read_bytes())
    listed = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in listed}


def test_they_are_made_once_and_kept(tmp_path: Path) -> None:
    first = files(certificate(tmp_path, NOON))
    assert files(certificate(tmp_path, Millis(NOON + 10 * DAY))) == first
    assert names(certificate(tmp_path, NOON)) == {"localhost", "127.0.0.1", "::1"}
    for name, mode in (("ca.key", 0o600), ("server.key", 0o600), ("ca.crt", 0o644)):
        assert (tmp_path / name).stat().st_mode & 0o777 == mode


def test_a_certificate_is_renewed_before_its_end_and_the_ca_stays(tmp_path: Path) -> None:
    ca, chain, _ = files(certificate(tmp_path, NOON))
    later = Millis(NOON + (SERVER_DAYS - RENEW_DAYS + 1) * DAY)
    renewed = files(certificate(tmp_path, later))
    assert renewed[0] == ca
    assert renewed[1] != chain
    ends = x509.load_pem_x509_certificate(renewed[1]).not_valid_after_utc
    assert ends - datetime.fromtimestamp(later / 1000, UTC) == timedelta(days=SERVER_DAYS)
    much_later = files(certificate(tmp_path, Millis(NOON + CA_DAYS * DAY)))
    assert much_later[0] != ca


def test_another_name_makes_another_certificate(tmp_path: Path) -> None:
    ca, chain, _ = files(certificate(tmp_path, NOON))
    more = certificate(tmp_path, NOON, ["gpu-box.example.com", "10.0.0.7", "0.0.0.0"])
    assert files(more)[0] == ca
    assert files(more)[1] != chain
    assert names(more) == {"localhost", "127.0.0.1", "::1", "gpu-box.example.com", "10.0.0.7"}


@pytest.mark.parametrize("name", ["server.crt", "server.key"])
@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_what_is_broken_is_made_anew(tmp_path: Path, name: str, content: bytes | None) -> None:
    ca, _, _ = files(certificate(tmp_path, NOON))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    again = certificate(tmp_path, NOON)
    assert files(again)[0] == ca
    again.context()  # key and certificate fit each other


def test_a_server_that_runs_on_gets_the_new_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("makeway.adapters.server.http.serving.RENEWAL_SECONDS", 0.05)
    at = [clock()]
    monkeypatch.setattr("tests.adapters.server.serving.clock", lambda: at[0])
    with running(tmp_path) as server:
        first = served(server)
        at[0] = Millis(at[0] + (SERVER_DAYS - RENEW_DAYS + 1) * DAY)
        until(lambda: served(server) != first)


def served(server: Server) -> bytes | None:
    """The certificate that a client gets now; this client does not check its times."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    where = urlsplit(server.url)
    plain = socket.create_connection((where.hostname or "", where.port or 0), 10)
    with plain, trust.wrap_socket(plain, server_hostname=where.hostname) as secure:
        return secure.getpeercert(binary_form=True)


def test_nobody_is_served_without_tls_or_with_an_old_one(server: Server) -> None:
    plain = server.url.replace("https", "http")
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"{plain}/healthz", timeout=5)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.url}/healthz", verify=ssl.create_default_context())  # a client without our CA
    old = ssl.create_default_context(cafile=str(server.folder / "ca.crt"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert httpx2.get(f"{server.url}/healthz", verify=old).text == "ok"
    assert httpx2.get(server.url.replace("127.0.0.1", "localhost") + "/healthz", verify=server.trust).text == "ok"

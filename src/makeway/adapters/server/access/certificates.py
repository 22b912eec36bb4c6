"""TLS for one machine: a CA of our own and a certificate for the names by which the server is reached.

Both are made on the first start, beside the data file. The certificate is made anew when its end is near or its names
change; the CA stays, because clients keep a copy of it (``makeway kubeconfig``). Keys are readable by their owner alone
and never leave the folder.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from makeway.adapters.server.storage.own_folder import read_own, write_own
from makeway.core.model import Millis

CA_DAYS = 3650
SERVER_DAYS = 365
RENEW_DAYS = 30
SKEW = timedelta(hours=1)  # clocks of clients may be behind
NAMES = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files in the data folder, and the names they are for."""

    ca: Path
    chain: Path
    key: Path
    hosts: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.chain, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def renew(self, context: ssl.SSLContext, now: Millis) -> None:
        """Replace it if that is due; connections from then on get the new one."""
        before = self.chain.read_bytes()
        certificate(self.chain.parent, now, self.hosts)
        if self.chain.read_bytes() != before:
            context.load_cert_chain(self.chain, self.key)


def certificate(folder: Path, now: Millis, hosts: Sequence[str] = ()) -> Certificate:
    """Return the certificate of this folder, made or renewed if that is due."""
    at = datetime.fromtimestamp(now / 1000, UTC)
    files = Certificate(folder / "ca.crt", folder / "server.crt", folder / "server.key", tuple(hosts))
    names = _names(hosts)
    ca, ca_key, is_new = _authority(files.ca, folder / "ca.key", at)
    if is_new or not _is_good(files, ca, names, at):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _signed(key, "makeway", names, ca, ca_key, at)
        write_own(files.key, _key_bytes(key))
        write_own(files.chain, made.public_bytes(serialization.Encoding.PEM), 0o644)
    return files


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    named: list[x509.GeneralName] = []
    for name in dict.fromkeys((*NAMES, *(host for host in hosts if host not in EVERYWHERE))):
        try:
            named.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            named.append(x509.DNSName(name))
    return named


def _authority(path: Path, key_path: Path, at: datetime) -> tuple[x509.Certificate, Key, bool]:
    """Return the CA, and whether it is a new one."""
    try:
        ca = x509.load_pem_x509_certificate(read_own(path))
        key = serialization.load_pem_private_key(read_own(key_path), None)
        if isinstance(key, ec.EllipticCurvePrivateKey) and ca.not_valid_after_utc - at > timedelta(days=RENEW_DAYS):
            return ca, key, False
    except (OSError, ValueError):
        pass
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "makeway-ca")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    ca = (
        _builder(name, name, key, at, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_own(key_path, _key_bytes(key))
    write_own(path, ca.public_bytes(serialization.Encoding.PEM), 0o644)
    return ca, key, True


def _signed(
    key: Key, name: str, names: Sequence[x509.GeneralName], ca: x509.Certificate, ca_key: Key, at: datetime
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        _builder(subject, ca.subject, key, at, SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, at: datetime, days: int) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - SKEW)
        .not_valid_after(at + timedelta(days=days))
    )


def _is_good(files: Certificate, ca: x509.Certificate, names: Sequence[x509.GeneralName], at: datetime) -> bool:
    try:
        found = x509.load_pem_x509_certificate(read_own(files.chain))
        key = serialization.load_pem_private_key(read_own(files.key), None)
        present = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found.verify_directly_issued_by(ca)
    except Exception:  # a damaged certificate is replaced
        return False
    is_lasting = found.not_valid_before_utc <= at and found.not_valid_after_utc - at > timedelta(days=RENEW_DAYS)
    return is_lasting and set(names) == set(present) and key.public_key() == found.public_key()


def _key_bytes(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

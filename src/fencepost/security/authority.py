"""A certificate authority for one machine: what `fencepost up --secure` makes, and tests use.

Keys are elliptic (P-256), which every client of the last ten years takes. The authority's own key is needed only while
it issues; callers decide whether to keep it.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from fencepost.errors import ConfigError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise ConfigError(
        "making certificates needs the package `cryptography`: pip install 'fencepost[security]'"
    ) from None

YEAR = datetime.timedelta(days=365)
#: Certificates begin to be valid this long ago, for clients whose clocks are behind.
BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Certified:
    """A key and the certificate for it."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate
    issuer: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        encrypted = _encryption(password)
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted).decode()

    def certificate_pem(self) -> str:
        return _pem(self.certificate)

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"fencepost", self.key, self.certificate, [self.issuer], _encryption(password)
        )


class Authority:
    def __init__(self, name: str = "fencepost authority", lasts: datetime.timedelta = 10 * YEAR) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name)
        builder = _builder(subject, subject, self._key, lasts)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(for_authority=True), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256())

    def certificate_pem(self) -> str:
        return _pem(self.certificate)

    def truststore(self, password: str) -> bytes:
        """PKCS12 with the authority's certificate, as Java's trust managers want it."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"fencepost")
        return pkcs12.serialize_java_truststore([trusted], _encryption(password))

    def issue(self, name: str, hosts: Sequence[str] = (), lasts: datetime.timedelta = 2 * YEAR) -> Certified:
        """For a broker under these host names and addresses, or for a client if there are none."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), self.certificate.subject, key, lasts)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(for_authority=False), critical=True)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return Certified(key, builder.sign(self._key, hashes.SHA256()), self.certificate)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lasts) - BACKDATED)
        .not_valid_after(now + lasts)
    )


def _key_usage(*, for_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not for_authority, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=for_authority, crl_sign=for_authority, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

"""Certificates for a trial: an authority of one's own, and certificates of servers and clients that it signs.

The keys are P-256, which costs a server a third of the CPU time of RSA. A certificate's extensions are those that
OpenSSL and the WebPKI ask for today: names as alternative names, the use of the key, key identifiers.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(hours=1)
"""How long a certificate has been valid when it is made, for clients whose clock is behind."""
ORGANIZATION = "Headgate trial"


@dataclass(frozen=True, slots=True)
class SignedKey:
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        """The key in PEM, without a pass phrase."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def certificate_pem(self) -> bytes:
        """The certificate in PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def new_authority(*, days: float, now: datetime | None = None) -> SignedKey:
    """An authority that signs itself and may sign certificates, but no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"{ORGANIZATION} authority")
    builder = _builder(name, name, key.public_key(), days=days, now=now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return SignedKey(key, builder.sign(key, hashes.SHA256()))


def read_authority(certificate_pem: bytes, key_pem: bytes) -> SignedKey:
    """An authority that was made before. Raises ValueError for what is none, or for a key that is not that of the
    certificate."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the certificate")
    return SignedKey(key, certificate)


def new_server(authority: SignedKey, hosts: Sequence[str], *, days: float, now: datetime | None = None) -> SignedKey:
    """A server's certificate for these host names and IP addresses, of which the first is its common name."""
    names = [_host(host) for host in hosts]
    return _signed(authority, hosts[0], names, [ExtendedKeyUsageOID.SERVER_AUTH], days=days, now=now)


def new_node(
    authority: SignedKey, name: str, hosts: Sequence[str] = (), *, days: float, now: datetime | None = None
) -> SignedKey:
    """The certificate of a node of a cluster, which is a server and a client of the others. ``name`` is its common
    name."""
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _signed(authority, name, [_host(host) for host in hosts], uses, days=days, now=now)


def new_client(
    authority: SignedKey,
    name: str,
    *,
    alternatives: Sequence[x509.GeneralName] = (),
    days: float,
    now: datetime | None = None,
) -> SignedKey:
    """A client's certificate, whose common name is that of its user."""
    return _signed(authority, name, alternatives, [ExtendedKeyUsageOID.CLIENT_AUTH], days=days, now=now)


def _signed(
    authority: SignedKey,
    common_name: str,
    names: Sequence[x509.GeneralName],
    uses: Sequence[x509.ObjectIdentifier],
    *,
    days: float,
    now: datetime | None,
) -> SignedKey:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(common_name), authority.certificate.subject, key.public_key(), days=days, now=now)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return SignedKey(key, builder.sign(authority.key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: float, now: datetime | None
) -> x509.CertificateBuilder:
    start = (now or datetime.now(UTC)) - BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + BACKDATED + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    attributes = [(NameOID.ORGANIZATION_NAME, ORGANIZATION), (NameOID.COMMON_NAME, common_name)]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )

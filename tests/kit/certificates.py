"""Certificates for a test: an authority in a temporary folder, and files that it has signed."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from amqp10.cli.trial_certificates import SignedKey, new_authority, new_client, new_node, new_server
from core.config.access import ScramKeys
from core.config.tls import TlsSettings


@dataclass(frozen=True)
class Trial:
    """A folder with an authority. ``write_server`` and ``write_client`` add files, or replace them."""

    folder: Path
    authority: SignedKey

    @classmethod
    def make(cls, folder: Path) -> "Trial":
        """An authority with a server's certificate for localhost and 127.0.0.1, valid for 90 days."""
        trial = cls(folder, new_authority(days=365))
        (folder / "ca.pem").write_bytes(trial.authority.certificate_pem)
        trial.write_server()
        return trial

    def write_server(
        self,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        *,
        name: str = "server",
        days: float = 90,
        now: datetime | None = None,
    ) -> SignedKey:
        return self._write(name, new_server(self.authority, hosts, days=days, now=now))

    def write_client(
        self, user: str, *, alternatives: Sequence[x509.GeneralName] = (), days: float = 90, now: datetime | None = None
    ) -> SignedKey:
        return self._write(user, new_client(self.authority, user, alternatives=alternatives, days=days, now=now))

    def write_node(self, node: str, *, days: float = 90, now: datetime | None = None) -> SignedKey:
        return self._write(node, new_node(self.authority, node, days=days, now=now))

    def _write(self, name: str, signed: SignedKey) -> SignedKey:
        (self.folder / f"{name}.pem").write_bytes(signed.certificate_pem)
        (self.folder / f"{name}.key").write_bytes(signed.key_pem)
        return signed

    def write_crl(self, *revoked: SignedKey, days: float = 30, now: datetime | None = None) -> str:
        """Write the authority's list of revoked certificates; returns its path."""
        now = now or datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.authority.certificate.subject)
        builder = builder.last_update(now - timedelta(hours=1)).next_update(now + timedelta(days=days))
        for one in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.certificate.serial_number).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        signed = builder.sign(self.authority.key, hashes.SHA256())
        (self.folder / "crl.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return self.path("crl.pem")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def settings(self, **changed: object) -> TlsSettings:
        """The settings of a broker with the server's certificate."""
        values = {"certificate": self.path("server.pem"), "key": self.path("server.key"), **changed}
        return TlsSettings.model_validate(values)

    def asking(self, how: str = "required", **changed: object) -> TlsSettings:
        """The settings of a broker that asks its clients for certificates."""
        return self.settings(client_ca=self.path("ca.pem"), client_certificate=how, **changed)

    def write_broker_config(self, keys: ScramKeys, *, more: str = "") -> str:
        """Write the configuration of a broker that asks for certificates and knows the user alice; returns its path.
        ``more`` are further lines of its section on TLS."""
        path = self.folder / "broker.toml"
        path.write_text(f"""
[server]
tls_listen = ["127.0.0.1:0"]
[tls]
certificate = "{self.path("server.pem")}"
key = "{self.path("server.key")}"
client_ca = "{self.path("ca.pem")}"
client_certificate = "optional"
{more}
[access]
password_iterations = 4096
[admin]
enabled = false
[[users]]
name = "alice"
scram = "{keys.render()}"
""")
        return str(path)

    def context(self, user: str | None = None, *, trust: bool = True) -> ssl.SSLContext:
        """A client's context, which trusts the authority, with the certificate of this user."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if trust:
            context.load_verify_locations(self.path("ca.pem"))
        if user is not None:
            context.load_cert_chain(self.path(f"{user}.pem"), self.path(f"{user}.key"))
        return context

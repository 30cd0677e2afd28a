"""Settings of TLS: certificates, what is asked of clients, and when a certificate is about to expire."""

from typing import Literal, Self

from pydantic import Field, model_validator

from core.config.section import Section
from core.config.units import Bytes, FilePath, Seconds

LoginFrom = Literal[
    "common_name",
    "distinguished_name",
    "subject_alternative_name:dns",
    "subject_alternative_name:uri",
    "subject_alternative_name:email",
]
"""The field of a client's certificate that is the name of its user."""


class NamedCertificate(Section):
    """A certificate for clients that ask for this host name (SNI)."""

    name: str = Field(min_length=1, max_length=253)
    """The host name, as clients give it; *.example.org stands for all names with one more label."""

    certificate: FilePath
    """A PEM file with the certificate, followed by the intermediate ones."""

    key: FilePath
    """A PEM file with the key of the certificate, without a pass phrase."""


class TlsSettings(Section):
    """TLS, for the addresses of server.tls_listen and of admin.tls."""

    certificate: FilePath | None = None
    """A PEM file with the server's certificate, followed by the intermediate ones. headgate tls init makes one for a
    trial."""

    key: FilePath | None = None
    """A PEM file with the key of the certificate, without a pass phrase. P-256 keys need a third of the CPU time of RSA
    keys."""

    minimum: Literal["1.2", "1.3"] = "1.2"
    """The oldest version of TLS that clients may use."""

    client_certificate: Literal["none", "optional", "required"] = "none"
    """Whether clients are asked for a certificate. With one, a client may log in with the mechanism EXTERNAL."""

    client_ca: FilePath | None = None
    """A PEM file with the certificates of the authorities that sign the certificates of clients."""

    crl: FilePath | None = None
    """A PEM file with a list of revoked certificates (CRL) of each authority in client_ca that signs certificates of
    clients. A client with a revoked certificate is refused; so are all, once the list itself has expired."""

    login_from: LoginFrom = "common_name"
    """The field of a client's certificate that is the name of its user with EXTERNAL. The user must be one of
    [[users]]."""

    expiry_warning: Seconds = Field(default=30 * 86_400.0, ge=0.0, le=3650 * 86_400.0)
    """How long before a certificate expires a notice is shown, the readiness of the broker apart."""

    check_interval: Seconds = Field(default=10.0, ge=0.1, le=86_400.0)
    """How often the broker looks whether the files have changed. A changed certificate is used for new connections."""

    handshake_bytes_max: Bytes = Field(default=65_536, ge=16_384, le=2**20)
    """The most bytes that a client may send in a handshake. A chain of certificates of clients has some thousand."""

    sni: tuple[NamedCertificate, ...] = Field(default=(), strict=False)
    """Further certificates, by the host name for which a client asks. A client that asks for no name, or for another,
    gets the certificate above."""

    sni_required: bool = False
    """Whether a client that asks for no host name is refused: a scanner of addresses does not learn the names in the
    certificate. Then also clients that connect to an IP address are refused, since such a name is not sent."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("must have both certificate and key, or neither")
        if self.client_certificate != "none" and self.client_ca is None:
            raise ValueError(f'with client_certificate = "{self.client_certificate}" must have client_ca')
        if self.crl is not None and self.client_certificate == "none":
            raise ValueError('with crl must have client_certificate = "required" or "optional"')
        if self.sni and self.certificate is None:
            raise ValueError("must have certificate and key beside sni, for clients that ask for no name")
        return self

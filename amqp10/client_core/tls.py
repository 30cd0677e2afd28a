"""TLS of a client: which authorities it trusts, and with which certificate it proves its own name.

The name of the host is always checked. There is no way to turn that off: a connection whose other end is not known is
no better than one without TLS.
"""

import ssl
from dataclasses import dataclass

from amqp10.client_core.errors import BadUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The PEM files of a client's TLS. They are read for each connection, so that a new certificate is used after the
    next reconnect."""

    ca: str | None = None
    """The authorities that the client trusts; None: those of the operating system."""
    certificate: str | None = None
    """The client's own certificate, followed by the intermediate ones; None: it has none."""
    key: str | None = None
    """The key of the certificate; None: it is in the same file."""

    def context(self) -> ssl.SSLContext:
        """The context for one connection. Raises BadUrl for files that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["amqp"])
        try:
            if self.ca is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise BadUrl(f"cannot read the authorities in {self.ca}: {_why(error)}") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                which = f"{self.certificate} with the key {self.key or self.certificate}"
                raise BadUrl(f"cannot use the certificate {which}: {_why(error)}") from None
        return context


def failure(error: OSError) -> str:
    """Why a handshake has failed, in words that name the remedy where there is one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {error.verify_message}; see ca in the URL"
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "the port speaks no TLS; use amqp:// for a port without TLS"
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake has failed: {_why(error)}"
    return f"the connection ended in the TLS handshake: {_why(error)}"


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return error.strerror or str(error)

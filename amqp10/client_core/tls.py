"""TLS of a client: which authorities it trusts, and with which certificate it proves its own name.

The name of the host is always checked. There is no way to turn that off: a connection whose other end is not known is
no better than one without TLS.

Importing Python's TLS takes a tenth of a command's time, so a client without TLS does not import this module.
"""

import ssl

from amqp10.client_core.errors import BadUrl
from amqp10.client_core.url import TlsFiles

NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""What a socket raises that has nothing to read, or no room for more output. A read of TLS returns one record of 16 KiB
at most, and no part of a record stays behind, so that polling the socket tells whether there is more."""


def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Return the context for one connection. Raises BadUrl for files that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["amqp"])
    try:
        if files.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(files.ca)
    except (OSError, ssl.SSLError) as error:
        raise BadUrl(f"cannot read the authorities in {files.ca}: {_why(error)}") from None
    if files.certificate is not None:
        try:
            context.load_cert_chain(files.certificate, files.key)
        except (OSError, ssl.SSLError) as error:
            which = f"{files.certificate} with the key {files.key or files.certificate}"
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

"""The URL of a broker with the credentials for it: ``amqp://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST``.

User, password and virtual host are percent-encoded. Without a user, the client connects as ANONYMOUS. The default port
is 5672. A virtual host is sent in the open as the hostname ``vhost:NAME``, which is RabbitMQ's form.

``amqps://HOST`` is a broker with TLS, by default on port 5671. Its query names PEM files:
``amqps://HOST/?ca=ca.pem&certificate=client.pem&key=client.key``. Without ``ca`` the client trusts the authorities of
the operating system. A client with a certificate and without a user logs in with EXTERNAL.
"""

from dataclasses import asdict, dataclass, field
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from amqp10.client_core.errors import BadUrl

PORT = 5672
"""The port that IANA has assigned to AMQP without TLS."""
TLS_PORT = 5671
"""The port that IANA has assigned to AMQP with TLS."""
TLS_FILES = ("ca", "certificate", "key")
"""What the query of an amqps URL may have, once each."""
FORM = "amqp://USER:PASSWORD@HOST:PORT"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A broker's address and the credentials for it."""

    host: str
    port: int = PORT
    user: str | None = None
    password: str = field(default="", repr=False)
    virtual_host: str | None = None
    tls: TlsFiles | None = None
    """The files for TLS; None for a connection without TLS."""

    @classmethod
    def parse(cls, text: str, *, name: str = "a broker's URL", form: str = FORM) -> Self:
        """Read a URL. Raises BadUrl, whose text begins with ``name`` and never repeats a password."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:  # its text quotes what may be a piece of a password
            raise BadUrl(f"{name} is no URL of the form {form}, with a port from 0 to 65535") from None
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise BadUrl(f"{name} must be of the form {form}")
        encrypted = parts.scheme == "amqps"
        if (parts.query and not encrypted) or parts.fragment:
            raise BadUrl(f"{name} has no query and no fragment; its form is {form}")
        tls = _tls_files(parts.query, name) if encrypted else None
        virtual_host = unquote(parts.path.removeprefix("/"))
        return cls(
            host=parts.hostname,
            port=port if port is not None else TLS_PORT if encrypted else PORT,
            user=None if parts.username is None else unquote(parts.username),
            password=unquote(parts.password or ""),
            virtual_host=virtual_host or None,
            tls=tls,
        )

    @property
    def hostname(self) -> str:
        """The hostname for the open [2.7.1]."""
        return self.host if self.virtual_host is None else f"vhost:{self.virtual_host}"

    @property
    def place(self) -> str:
        """Host and port, in the form for error texts."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """The URL without its password."""
        user = "" if self.user is None else f"{quote(self.user, safe='')}@"
        path = "" if self.virtual_host is None else f"/{quote(self.virtual_host, safe='')}"
        if self.tls is None:
            return f"amqp://{user}{self.place}{path}"
        query = urlencode({key: value for key, value in asdict(self.tls).items() if value is not None}, safe="/")
        return f"amqps://{user}{self.place}{path or '/'}?{query}" if query else f"amqps://{user}{self.place}{path}"


def _tls_files(query: str, name: str) -> TlsFiles:
    """The files that a query names. Raises BadUrl."""
    pairs = parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    if len(given) != len(pairs) or not set(given) <= set(TLS_FILES) or "" in given.values():
        raise BadUrl(f"{name}: the query of an amqps URL has files only, each once: ?ca=FILE&certificate=FILE&key=FILE")
    if "key" in given and "certificate" not in given:
        raise BadUrl(f"{name}: a key needs its certificate beside it: ?certificate=FILE&key=FILE")
    return TlsFiles(**given)

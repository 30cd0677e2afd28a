"""The URL of a broker with the credentials for it: ``amqp://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST``.

User, password and virtual host are percent-encoded. Without a user, the client connects as ANONYMOUS. The default port
is 5672. A virtual host is sent in the open as the hostname ``vhost:NAME``, which is RabbitMQ's form.
"""

from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from amqp10.client_core.errors import BadUrl

PORT = 5672
"""The port that IANA has assigned to AMQP without TLS."""
FORM = "amqp://USER:PASSWORD@HOST:PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """A broker's address and the credentials for it."""

    host: str
    port: int = PORT
    user: str | None = None
    password: str = field(default="", repr=False)
    virtual_host: str | None = None

    @classmethod
    def parse(cls, text: str, *, name: str = "a broker's URL", form: str = FORM) -> Self:
        """Read a URL. Raises BadUrl, whose text begins with ``name`` and never repeats a password."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:  # its text quotes what may be a piece of a password
            raise BadUrl(f"{name} is no URL of the form {form}, with a port from 0 to 65535") from None
        if parts.scheme == "amqps":
            raise BadUrl(f"{name}: amqps (TLS) is not supported; use amqp, on a network that you trust")
        if parts.scheme != "amqp" or not parts.hostname:
            raise BadUrl(f"{name} must be of the form {form}")
        if parts.query or parts.fragment:
            raise BadUrl(f"{name} has no query and no fragment; its form is {form}")
        virtual_host = unquote(parts.path.removeprefix("/"))
        return cls(
            host=parts.hostname,
            port=PORT if port is None else port,
            user=None if parts.username is None else unquote(parts.username),
            password=unquote(parts.password or ""),
            virtual_host=virtual_host or None,
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
        return f"amqp://{user}{self.place}{path}"

"""A broker's address and the user. A password is never part of them: it is read where a connection is made.

Spark shows the options of a source in plans, in its web page and in logs. So a URL with a password in it is refused,
and the password comes from a file or from the environment of the process that connects: the driver's, and those of the
executors.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from pyspark_amqp10.errors import BadOption

PORT = 5672
"""IANA's number for AMQP without TLS."""
FORM = "amqp://HOST:PORT"
PASSWORD_VARIABLE = "AMQP10_PASSWORD"
PASSWORD_BYTES_MAX = 4096
"""A larger file is no password file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A broker's address, the user, and where the password is stored."""

    host: str
    port: int = PORT
    virtual_host: str | None = None
    user: str | None = None
    """None: connect as ANONYMOUS."""
    password_file: str | None = None

    @classmethod
    def parse(cls, url: str, *, user: str | None = None, password_file: str | None = None) -> Self:
        """Read a URL. Raises BadOption, whose text never repeats a password."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise BadOption(f"option url is no URL of the form {FORM}") from None
        if parts.password is not None:
            raise BadOption(
                "option url has a password in it, which Spark would show in plans and logs: take it out, and name a "
                f"file in option passwordFile, or set the environment variable {PASSWORD_VARIABLE}"
            )
        if parts.scheme == "amqps":
            raise BadOption("option url: amqps (TLS) is not supported; use amqp, on a network that you trust")
        if parts.scheme != "amqp" or not parts.hostname or parts.query or parts.fragment:
            raise BadOption(f"option url is {url!r}; its form is {FORM}, or {FORM}/VIRTUAL-HOST")
        in_url = None if parts.username is None else unquote(parts.username)
        if in_url is not None and user is not None and in_url != user:
            raise BadOption(f"option url names the user {in_url!r}, and option user {user!r}: keep one of them")
        return cls(
            host=parts.hostname,
            port=PORT if port is None else port,
            virtual_host=unquote(parts.path.removeprefix("/")) or None,
            user=in_url if user is None else user,
            password_file=password_file,
        )

    @property
    def place(self) -> str:
        """Host and port, as an error text shows them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def hostname(self) -> str:
        """The hostname in our open [2.7.1]; a virtual host is written as RabbitMQ expects it."""
        return self.host if self.virtual_host is None else f"vhost:{self.virtual_host}"

    def password(self, environment: Mapping[str, str] | None = None) -> str:
        """The user's password, from the file or the environment. Raises BadOption when there is none."""
        if self.password_file is not None:
            return _password_in(Path(self.password_file))
        password = (os.environ if environment is None else environment).get(PASSWORD_VARIABLE)
        if password is None:
            raise BadOption(
                f"there is no password for user {self.user!r}: name a file in option passwordFile, or set the "
                f"environment variable {PASSWORD_VARIABLE} (on a cluster also spark.executorEnv.{PASSWORD_VARIABLE})"
            )
        return password


def _password_in(path: Path) -> str:
    """The first line of a file; it must be readable on every machine that connects."""
    try:
        with path.open("rb") as file:
            content = file.read(PASSWORD_BYTES_MAX + 1)
        if len(content) > PASSWORD_BYTES_MAX:
            raise BadOption(f"option passwordFile: {path} has more than {PASSWORD_BYTES_MAX} bytes; it is no password")
        return content.decode().splitlines()[0]
    except OSError as error:
        raise BadOption(f"option passwordFile: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, IndexError):
        raise BadOption(f"option passwordFile: {path} has no line of UTF-8 text in it") from None

"""A broker's address, TLS, and who connects. A password or token is never part of them: it is read where a connection
is made.

Spark shows the options of a source in plans, in its web page and in logs. So a URL with a password in it is refused,
and options name files: a password or a token, a certificate and its key. All of them are read again for each
connection, so that a token or a certificate that was renewed is used by the next task, and by the next connection of
the driver.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from amqp10.blocking.connection import BlockingConnection, BlockingSettings
from amqp10.client_core.errors import BadUrl
from amqp10.client_core.opening import MECHANISMS, MechanismName, random_name
from amqp10.client_core.url import TLS_FILES, TlsFiles, Url
from pyspark_amqp10.errors import BadOption

FORM = "amqp://HOST:PORT"
"""Or amqps."""
PASSWORD_VARIABLE = "AMQP10_PASSWORD"
PASSWORD_BYTES_MAX = 4096
"""A larger file is no password file."""
TOKEN_BYTES_MAX = 65_536
"""A larger file is no token: brokers take much smaller ones."""
TOKEN_USER = "token"
"""The user name beside a token, where the options name none: brokers take the user from the token."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts to which a token goes without TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A broker's URL, which names the user and the files of TLS, and where the password or the token is stored."""

    url: Url
    """Without a password. Without a user, the client logs in with its certificate (EXTERNAL), or as ANONYMOUS."""
    password_file: str | None = None
    token_file: str | None = None
    mechanisms: tuple[MechanismName, ...] = MECHANISMS
    """The SASL mechanisms that may be used with a password, the preferred first."""

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        user: str | None = None,
        password_file: str | None = None,
        token_file: str | None = None,
        tls: TlsFiles | None = None,
        mechanisms: tuple[MechanismName, ...] | None = None,
    ) -> Self:
        """Read the options. Raises BadOption, whose text never repeats a password."""
        try:
            read = Url.parse(url, name="option url", form=FORM)
        except BadUrl as error:
            raise BadOption(error.text) from None
        if read.password:
            raise BadOption(
                "option url has a password in it, which Spark would show in plans and logs: take it out, and name a "
                f"file in option passwordFile, or set the environment variable {PASSWORD_VARIABLE}"
            )
        if None not in (read.user, user) and read.user != user:
            raise BadOption(f"option url names the user {read.user!r}, and option user {user!r}: keep one of them")
        if user is not None:
            read = replace(read, user=user)
        if tls is not None:
            read = replace(read, tls=_joined(read, tls))
        if token_file is not None:
            read = _for_token(read, password_file, mechanisms)
            mechanisms = ("PLAIN",)
        return cls(url=read, password_file=password_file, token_file=token_file, mechanisms=mechanisms or MECHANISMS)

    def password(self, environment: Mapping[str, str] | None = None) -> str:
        """The user's password, from the file or the environment, or the token. Raises BadOption when there is none."""
        if self.token_file is not None:
            return _first_line(Path(self.token_file), "tokenFile", TOKEN_BYTES_MAX)
        if self.password_file is not None:
            return _first_line(Path(self.password_file), "passwordFile", PASSWORD_BYTES_MAX)
        password = (os.environ if environment is None else environment).get(PASSWORD_VARIABLE)
        if password is None:
            raise BadOption(
                f"there is no password for user {self.url.user!r}: name a file in option passwordFile, or set the "
                f"environment variable {PASSWORD_VARIABLE} (on a cluster also spark.executorEnv.{PASSWORD_VARIABLE})"
            )
        return password

    def connect(self, container_id: str | None = None, settings: BlockingSettings | None = None) -> BlockingConnection:
        """Open a connection. Raises BadOption without a password, and as :meth:`BlockingConnection.open` does."""
        url = self.url if self.url.user is None else replace(self.url, password=self.password())
        introduced = replace(
            settings or BlockingSettings(),
            container_id=container_id or random_name("headgate-spark"),
            product="Headgate Spark connector",
            mechanisms=self.mechanisms,
        )
        return BlockingConnection.open(url, introduced)


def _joined(url: Url, tls: TlsFiles) -> TlsFiles:
    """The files of TLS that the URL and options name. Raises BadOption."""
    if url.tls is None:
        raise BadOption(f"options {', '.join(TLS_FILES)} are for TLS: write amqps:// in option url, not amqp://")
    for name in TLS_FILES:
        if None not in (getattr(url.tls, name), getattr(tls, name)):
            raise BadOption(f"option url names {name}, and so does option {name}: keep one of them")
    joined = {name: getattr(tls, name) or getattr(url.tls, name) for name in TLS_FILES}
    if joined["key"] is not None and joined["certificate"] is None:
        raise BadOption("option key needs option certificate beside it")
    return TlsFiles(**joined)


def _for_token(url: Url, password_file: str | None, mechanisms: tuple[MechanismName, ...] | None) -> Url:
    """The URL for a login with a token: any user name goes with it. Raises BadOption."""
    if password_file is not None:
        raise BadOption("options tokenFile and passwordFile exclude each other: keep one of them")
    if mechanisms not in (None, ("PLAIN",)):
        raise BadOption("option tokenFile needs the SASL mechanism PLAIN: take option mechanisms away")
    if url.tls is None and url.host not in LOOPBACK:
        raise BadOption(
            "option tokenFile needs TLS, since the token goes to the broker as it is: write amqps:// in option url"
        )
    return url if url.user is not None else replace(url, user=TOKEN_USER)


def _first_line(path: Path, option: str, bytes_max: int) -> str:
    """The first line of a file; it must be readable on every machine that connects."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            raise BadOption(f"option {option}: {path} has more than {bytes_max} bytes; it is not what the option means")
        return content.decode().splitlines()[0]
    except OSError as error:
        raise BadOption(f"option {option}: {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, IndexError):
        raise BadOption(f"option {option}: {path} has no line of UTF-8 text in it") from None

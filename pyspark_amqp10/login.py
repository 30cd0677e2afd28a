"""A broker's address and the user. A password is never part of them: it is read where a connection is made.

Spark shows the options of a source in plans, in its web page and in logs. So a URL with a password in it is refused,
and the password comes from a file or from the environment of the process that connects: the driver's, and those of the
executors.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from amqp10.blocking.connection import BlockingConnection, BlockingSettings
from amqp10.client_core.errors import BadUrl
from amqp10.client_core.opening import random_name
from amqp10.client_core.url import Url
from pyspark_amqp10.errors import BadOption

FORM = "amqp://HOST:PORT"
PASSWORD_VARIABLE = "AMQP10_PASSWORD"
PASSWORD_BYTES_MAX = 4096
"""A larger file is no password file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A broker's URL, which names the user, and where the password is stored."""

    url: Url
    """Without a password; without a user, the client connects as ANONYMOUS."""
    password_file: str | None = None

    @classmethod
    def parse(cls, url: str, *, user: str | None = None, password_file: str | None = None) -> Self:
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
        return cls(url=read if user is None else replace(read, user=user), password_file=password_file)

    def password(self, environment: Mapping[str, str] | None = None) -> str:
        """The user's password, from the file or the environment. Raises BadOption when there is none."""
        if self.password_file is not None:
            return _password_in(Path(self.password_file))
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
        )
        return BlockingConnection.open(url, introduced)


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

"""Reads the key set of an OAuth 2 provider by HTTPS, in a thread: no redirects, no proxy, limits of size and time.

The standard library's client will do for one request of a known address. Its time-outs are those of single reads, so
the one for the whole download is the caller's: it calls :meth:`KeyDownload.stop`.
"""

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from core.config.oauth2 import OAuth2Settings

if TYPE_CHECKING:
    from http.client import HTTPConnection

REDIRECTS = range(300, 400)
WORDS_MAX = 200
"""The most characters of what a server says that a text repeats."""


class DownloadFailed(Exception):
    """The keys could not be read. The text says why, and what to do about it."""


class KeyDownload:
    """One download."""

    def __init__(self, settings: OAuth2Settings) -> None:
        assert settings.jwks_url is not None
        self._url = settings.jwks_url
        self._settings = settings
        self._socket: socket.socket | None = None
        self._stopped = False

    def read(self) -> bytes:
        """Read all, in a thread of its own. Raises DownloadFailed."""
        from http.client import HTTPException  # here and not above: most brokers have no provider of OAuth 2

        most = self._settings.jwks_bytes_max
        try:
            connection = self._connection()
        except OSError as error:
            raise DownloadFailed(f"oauth2.ca_file {self._settings.ca_file} cannot be used: {error}") from None
        try:
            connection.connect()
            self._socket = connection.sock
            if self._stopped:
                raise DownloadFailed("it took too long")
            parts = urlsplit(self._url)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"Accept": "application/json", "User-Agent": "headgate", "Connection": "close"}
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            if response.status in REDIRECTS:
                place = f"{response.getheader('Location')!r:.{WORDS_MAX}}"
                raise DownloadFailed(f"it redirects to {place}; set oauth2.jwks_url to the address of the keys itself")
            if response.status != 200:
                raise DownloadFailed(f"it answers {response.status} {response.reason[:WORDS_MAX]}")
            data = response.read(most + 1)
        except (OSError, HTTPException, ValueError) as error:
            raise DownloadFailed(f"{type(error).__name__}: {str(error)[:WORDS_MAX]}") from None
        finally:
            connection.close()
        if len(data) > most:
            raise DownloadFailed(f"it has more than {most} bytes; oauth2.jwks_bytes_max is the limit")
        return data

    def stop(self) -> None:
        """End a read now, from another thread."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):  # it has just ended
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connection(self) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection

        parts = urlsplit(self._url)
        assert parts.hostname is not None
        seconds = self._settings.jwks_time_out
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=seconds)
        context = ssl.create_default_context(cafile=self._settings.ca_file)
        return HTTPSConnection(parts.hostname, parts.port, timeout=seconds, context=context)

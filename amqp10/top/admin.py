"""Requests to the admin server: JSON over HTTP, one request on each connection. They block, so a thread makes them.

An answer has a limit in bytes, and a list a limit in rows.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlencode, urlsplit

Row = Mapping[str, object]

ROOT = "/api/headgate/"
TIME_OUT_S = 5.0
NO_ADMIN_SERVER = "does not answer as an admin server does"
ANSWER_BYTES_MAX = 16 * 2**20
"""The largest answer that is read. A page of a list has about 0.5 MiB."""
ROWS_MAX = 5000
"""The most rows of one kind: more than a user reads, and few enough to be fetched each second."""


class AdminError(Exception):
    """The admin server did not answer, or answered with an error. ``status`` is 0 if there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Admin:
    """An admin server, and the token for its requests."""

    url: str
    """The URL of the server, without a path."""
    token: str | None = None
    vhost: str | None = None
    """The virtual host whose rows are asked for; None: those of all."""

    def get(self, path: str) -> Row:
        """The answer to one request. Raises AdminError."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token is not None else {}
        try:
            with closing(self._connection()) as connection:
                connection.request("GET", ROOT + path, headers=headers)
                with connection.getresponse() as response:
                    status, body = response.status, response.read(ANSWER_BYTES_MAX)
        except OSError as error:
            raise AdminError(f"{self.url} does not answer: {error}") from error
        except (HTTPException, ValueError) as error:
            raise AdminError(f"{self.url} {NO_ADMIN_SERVER}: {error}") from error
        if status != 200:
            raise AdminError(_reason(status, body), status)
        answer = _decoded(body)
        if answer is None:
            raise AdminError(f"{self.url} {NO_ADMIN_SERVER}")
        return answer

    def _connection(self) -> HTTPConnection:
        """A connection without proxies and redirects: only this server gets the token."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError("the URL must be http://HOST:PORT")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname, parts.port, timeout=TIME_OUT_S)

    def rows(self, kind: str) -> list[Row]:
        """All rows of a kind, requested page by page. Raises AdminError."""
        rows: list[Row] = []
        after: dict[str, str] = {}
        while len(rows) < ROWS_MAX:
            page = self.get(self._on_host(kind, **after))
            rows += list_of_rows(page, "items")
            if page.get("next") is None:
                break
            after = {"after": str(page["next"])}
        return rows

    def flow_map(self) -> Row:
        """The flow map: of ``/`` where no virtual host is named. Raises AdminError."""
        return self.get(self._on_host("flow-map"))

    def _on_host(self, path: str, **fields: str) -> str:
        """The path with a query of these fields and the virtual host."""
        query = urlencode(fields if self.vhost is None else {**fields, "vhost": self.vhost})
        return f"{path}?{query}" if query else path

    def why(self, kind: str, identity: str) -> Row:
        """The answer of why for a connection or a link. Raises AdminError."""
        return self.get(f"why/{kind}/{quote(identity, safe='')}")


def list_of_rows(answer: Row, key: str) -> list[Row]:
    """The rows under a key of an answer; [] if there are none."""
    items = answer.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _reason(status: int, body: bytes) -> str:
    if status == 401:
        return "the admin server wants a token, or another one: see --token-file"
    told = _decoded(body)
    return str(told["reason"]) if told is not None and "reason" in told else f"the admin server answered {status}"


def _decoded(body: bytes) -> Row | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

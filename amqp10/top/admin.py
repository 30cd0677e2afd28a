"""Asks the admin server: JSON over HTTP, one request on a connection, blocking. Call it in a thread.

Every answer is bounded in bytes and every list in rows, whatever the broker has.
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
"""Of one answer: a page of a list has about 0.5 MiB."""
ROWS_MAX = 5000
"""The most rows of one kind: more than a user reads, and few enough to be fetched each second."""


class AdminError(Exception):
    """The admin server did not answer, or not with what was asked for. ``status`` is 0 where there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Admin:
    """One admin server."""

    url: str
    """Of the server, without a path."""
    token: str | None = None

    def get(self, path: str) -> Row:
        """One answer. Raises AdminError."""
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
        """Neither proxies nor redirects: the token goes to this server alone."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError("the URL must be http://HOST:PORT")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname, parts.port, timeout=TIME_OUT_S)

    def rows(self, kind: str) -> list[Row]:
        """All rows of a kind, page by page."""
        rows: list[Row] = []
        query = ""
        while len(rows) < ROWS_MAX:
            page = self.get(kind + query)
            rows += list_of_rows(page, "items")
            if page.get("next") is None:
                break
            query = "?" + urlencode({"after": str(page["next"])})
        return rows

    def why(self, kind: str, identity: str) -> Row:
        """What holds something up."""
        return self.get(f"why/{kind}/{quote(identity, safe='')}")


def list_of_rows(answer: Row, key: str) -> list[Row]:
    """The rows under a key; [] where there are none."""
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

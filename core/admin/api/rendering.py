"""Renders rows as JSON in slices: a list of ten thousand queues must not delay messages.

Rows are plain values, with two exceptions: message bodies and arguments may have bytes in them, and counters may be
infinite. Bytes are rendered as text if they are UTF-8, otherwise as ``{"base64": ...}``.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import cast

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from core.admin.answers import HEADERS, PiecesOfText
from core.admin.slices import conclusion
from core.operations.operation import Reply
from core.slices import Walk


def rendered(answer: Reply) -> ASGIApp:
    """Return an operation's answer. Its value may be large: lists in it are rendered entry by entry. An operation of
    HTTP may also answer with rows that are made one by one, or with an application."""
    value = answer.value
    if value is None:
        return done(answer.status)
    if answer.status == 200:
        if isinstance(value, list | Iterator):
            return ListOfRows(value)
        if isinstance(value, dict):
            return Walked(_by_keys(value))
        if callable(value):
            return cast("ASGIApp", value)
    return answered(value, answer.status)


def answered(facts: object, status: int = 200) -> Response:
    """Return an answer with one JSON value."""
    return Response(render(facts), status, {**HEADERS, "content-type": "application/json"})


def done(status: int = 204) -> Response:
    """Return an answer without a body."""
    return Response(status_code=status, headers=HEADERS)


def render(value: object) -> bytes:
    """Return a value as JSON."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_shown).encode("ascii")
    except (TypeError, ValueError):  # a key that is no text, or a number that JSON does not have
        return json.dumps(_plain(value), separators=(",", ":")).encode("ascii")


class ListOfRows:
    """An answer with a list of rows, which are rendered in slices when the answer is sent."""

    def __init__(self, rows: Iterable[object]) -> None:
        """None among the rows stands for a row that was left out."""
        self._rows = rows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        pieces = [b"["]
        await conclusion(self._rendered(pieces))
        pieces.append(b"]")
        await PiecesOfText(pieces, content_type="application/json")(scope, receive, send)

    def _rendered(self, pieces: list[bytes]) -> Walk[None]:
        for row in self._rows:
            if row is not None:
                pieces += (b",", render(row)) if len(pieces) > 1 else (render(row),)
            yield None


class Walked:
    """An answer that a walk returns. The walk runs when the answer is sent."""

    def __init__(self, walk: Walk[ASGIApp]) -> None:
        self._walk = walk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        answer = await conclusion(self._walk)
        await answer(scope, receive, send)


def _by_keys(facts: Mapping[str, object]) -> Walk[ASGIApp]:
    pieces = [b"{"]
    for key, value in facts.items():
        pieces.append(b"%s%s:" % (b"," if len(pieces) > 1 else b"", render(key)))
        if isinstance(value, list):
            for index, entry in enumerate(value):
                pieces += (b"," if index else b"[", render(entry))
                yield None
            pieces.append(b"]" if value else b"[]")
        else:
            pieces.append(render(value))
        yield None
    return PiecesOfText([*pieces, b"}"], content_type="application/json")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(_shown(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _plain(_shown(value))


def _shown(value: object) -> object:
    """Return a value that JSON can encode, for one that it cannot."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode("ascii")}
    return str(value)

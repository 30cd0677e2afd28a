"""Rows as JSON, made in slices: whoever lists ten thousand queues must not hold up those who send messages.

Rows are plain values, with two exceptions: message bodies and arguments may have bytes in them, and counters may be
infinite. Bytes are shown as the text that they are, or else as ``{"base64": ...}``.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from itertools import islice
from math import isfinite
from typing import TypeVar

import trio
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from core.admin.answers import HEADERS, PiecesOfText
from core.interface import Snapshot

Conclusion = TypeVar("Conclusion")

SLICE_ROWS = 100
"""Rows made and rendered at a stretch: 2 ms."""


def answered(facts: object, status: int = 200) -> Response:
    """One thing."""
    return Response(render(facts), status, {**HEADERS, "content-type": "application/json"})


def done(status: int = 204) -> Response:
    """Nothing more to say."""
    return Response(status_code=status, headers=HEADERS)


def render(value: object) -> bytes:
    """JSON."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_shown).encode("ascii")
    except (TypeError, ValueError):  # a key that is no text, or a number that JSON lacks
        return json.dumps(_plain(value), separators=(",", ":")).encode("ascii")


class ListOfRows:
    """An answer that is made while it is asked for, a slice at a time."""

    def __init__(self, rows: Iterable[object], *, before: bytes = b"[", after: bytes = b"]") -> None:
        self._rows = rows
        self._before = before
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        pieces = [self._before]
        rows = iter(self._rows)
        while some := [render(row) for row in islice(rows, SLICE_ROWS)]:
            if len(pieces) > 1:
                pieces.append(b",")
            pieces.append(b",".join(some))
            await trio.lowlevel.checkpoint()
        pieces.append(self._after)
        await PiecesOfText(pieces, content_type="application/json")(scope, receive, send)


async def conclusion(walk: Iterable[Conclusion | None]) -> Conclusion | None:
    """What a walk in slices ends with; None from it is a pause."""
    found: Conclusion | None = None
    for item in walk:
        if item is None:
            await trio.lowlevel.checkpoint()
        else:
            found = item
    return found


class Walked:
    """An answer that a walk ends with: see :func:`conclusion`."""

    def __init__(self, walk: Iterable[ASGIApp | None]) -> None:
        self._walk = walk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        answer = await conclusion(self._walk)
        assert answer is not None
        await answer(scope, receive, send)


def walked(walk: Iterable[Snapshot | None]) -> Walked:
    """The answer is what a walk finds."""
    return Walked(None if facts is None else answered(facts) for facts in walk)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(_shown(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _plain(_shown(value))


def _shown(value: object) -> object:
    """What json does not know."""
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode("ascii")}
    return str(value)

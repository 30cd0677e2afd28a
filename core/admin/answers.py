"""The forms of HTTP answers: JSON, JSON that describes a problem, and text in pieces."""

from collections.abc import Iterator, Mapping, Sequence

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

SENT_BYTES = 64 * 1024
"""Bytes sent at once. Small pieces are joined, because each send takes a turn of the event loop."""
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Header fields of every answer. A client must not cache an answer, and must not guess another content type."""


def success(facts: Mapping[str, object]) -> JSONResponse:
    """Return a JSON answer with status 200."""
    return JSONResponse(facts, headers=HEADERS)


def problem(status: int, error: str, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a JSON answer about an error: ``error`` is an id for programs, ``reason`` a text for people."""
    return JSONResponse({"error": error, "reason": reason}, status, {**HEADERS, **(headers or {})})


class PiecesOfText:
    """A text answer that is sent in pieces: no large text is made of them, and other tasks run between two pieces."""

    def __init__(self, pieces: Sequence[bytes], *, content_type: str) -> None:
        self._pieces = pieces
        self._headers = HEADERS | {"content-type": content_type, "content-length": str(sum(map(len, pieces)))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, as an ASGI application."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in _joined(self._pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _joined(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the pieces, with small ones joined."""
    some: list[bytes] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += len(piece)
        if size >= SENT_BYTES:
            yield b"".join(some)
            some, size = [], 0
    if some:
        yield b"".join(some)

"""The forms that answers have: JSON that names the problem, and text in pieces."""

from collections.abc import Iterator, Mapping, Sequence

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

SENT_BYTES = 64 * 1024
"""Sent at once: small pieces are joined, because each send is a turn of the event loop."""
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Of every answer: what was true a moment ago is not kept, and nothing is taken for what it does not say it is."""


def success(facts: Mapping[str, object]) -> JSONResponse:
    """What was asked for."""
    return JSONResponse(facts, headers=HEADERS)


def problem(status: int, error: str, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error: an id that programs may know, and words for people."""
    return JSONResponse({"error": error, "reason": reason}, status, {**HEADERS, **(headers or {})})


class PiecesOfText:
    """An answer in pieces, so that none is copied into one large text, and other tasks run in between."""

    def __init__(self, pieces: Sequence[bytes], *, content_type: str) -> None:
        self._pieces = pieces
        self._headers = HEADERS | {"content-type": content_type, "content-length": str(sum(map(len, pieces)))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self._headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in _joined(self._pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _joined(pieces: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces, small ones together."""
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

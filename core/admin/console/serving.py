"""Serves the files of the console (the folder ``page``) unchanged.

All files are read once, at the start, and a route is made for each: the path of a request is never used as the path of
a file. The files are the same for every client and contain no facts about the broker, so they need no token. The page
asks its user for a token and sends it with its requests to the HTTP API.

The page shows names that clients chose. So its content security policy allows only the scripts and styles in these
files, allows no request to another server, and forbids turning text into HTML (trusted types).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PREFIX = "/console/"
START = "index.html"

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Media types by file name extension; other files, such as licences, are plain text."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

HEADERS = {
    "cache-control": "no-cache",  # a browser must check its copy: an update of the broker replaces the page
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file with the header fields of its answer."""

    content: bytes
    headers: Mapping[str, str]

    async def answer(self, request: Request) -> Response:
        """Answer with the file, or with 304 if the client has this version already."""
        if self.headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        return Response(self.content, headers=self.headers)


def console_routes() -> Sequence[Route]:
    """Return a route for each file, and ``/`` for the page itself. Every client that reaches the port may use them."""
    page = {path: _page_file(path, content) for path, content in _files(files(__package__) / "page")}
    routes = [_route(PREFIX + path, file.answer) for path, file in sorted(page.items()) if path != START]
    return [_route("/", page[START].answer), _route(PREFIX, page[START].answer), *routes]


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _page_file(path: str, content: bytes) -> PageFile:
    media_type = MEDIA_TYPES.get(path.rpartition(".")[2], "text/plain; charset=utf-8")
    etag = f'"{sha256(content).hexdigest()[:32]}"'
    return PageFile(content, {**HEADERS, "content-type": media_type, "etag": etag})


def _route(path: str, answer: Callable[[Request], object]) -> Route:
    return Route(path, answer, methods=["GET"])

"""What a request gives an operation: the segments of its path, its query, and its body, JSON of limited size."""

import json
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers
from starlette.types import Receive

from core.admin.api.documents import reading_document
from core.admin.api.json_values import checking, no_constant
from core.admin.api.refusals import HttpRefusal, bad_request
from core.operations.operation import Operation, quoted
from core.slices import Walk

PARAMETERS_MAX = 32
REASON_CHARACTERS_MAX = 400
"""The most characters of a text that says what is wrong with a body."""
AT_ONCE_BYTES_MAX = 64 * 1024
"""The most bytes of a body that is parsed in one piece, which takes a millisecond or two. It is the default of
``admin.body_max``; only definitions may be larger."""


def path_segments(raw_path: bytes) -> Iterator[str]:
    """Yield the segments of a path, decoded. Raises HttpRefusal."""
    try:
        for segment in raw_path.decode("ascii").removesuffix("/").split("/")[1:]:  # RabbitMQ's clients end paths with /
            yield unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise bad_request("the path must be ASCII, with other characters as percent-encoded UTF-8") from None


def query_fields(query_string: bytes) -> Sequence[tuple[str, object]]:
    """Return the names and values of a query. Raises HttpRefusal."""
    try:
        return [
            *parse_qsl(
                query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX
            )
        ]
    except ValueError:  # UnicodeDecodeError is a ValueError too
        raise bad_request(f"the query must be at most {PARAMETERS_MAX} parameters in percent-encoded UTF-8") from None


async def read_body(receive: Receive, headers: Headers, *, operation: Operation, size_max: int) -> bytes:
    """Read the body of a request for an operation; b"" if there is none. Raises HttpRefusal."""
    bound, named = size_max, "admin.body_max"
    if operation.document is None and size_max > AT_ONCE_BYTES_MAX:
        bound, named = AT_ONCE_BYTES_MAX, "only definitions may be larger"
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("the client has gone before the end of its request")
        content += message.get("body", b"")
        if len(content) > bound:
            raise HttpRefusal(413, "body-too-large", f"a body may have at most {bound} bytes: {named}")
        if not message.get("more_body", False):
            break
    if not has_body(operation):
        if bytes(content) not in (b"", b"{}"):
            raise HttpRefusal(413, "body-too-large", "this request has no body")
        return b""
    if content and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HttpRefusal(415, "not-json", "the Content-Type of a body must be application/json")
    return bytes(content)


def has_body(operation: Operation) -> bool:
    """Whether parameters of this operation may come in a body."""
    return operation.method in ("PUT", "POST")


def body_fields(content: bytes, operation: Operation) -> Walk[Sequence[tuple[str, object]]]:
    """Return the names and values of a body. Raises HttpRefusal."""
    try:
        if operation.document is not None:
            return [*operation.in_body((yield from reading_document(content or b"{}")))]
        value = json.loads(content or b"{}", parse_constant=no_constant)
        yield from checking(value)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON that can be used: {error}"[:REASON_CHARACTERS_MAX]) from None
    if not isinstance(value, dict):
        raise bad_request(f"the body must be a map, not {quoted(value)}")
    return [*operation.in_body(value)]

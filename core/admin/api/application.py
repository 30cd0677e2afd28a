"""The ASGI application behind ``/api``: it finds the operation, checks parameters and body, answers, and logs writes.

The guard has already checked host, token and origin of a request. Refusals of an operation are answered as JSON. Any
other exception of an operation is a bug, which the guard logs and answers.
"""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from core.admin.answers import problem
from core.admin.api.bodies import read_body
from core.admin.api.live import MEDIA_TYPE
from core.admin.api.openapi import description
from core.admin.api.operations import Call, Operation, Table
from core.admin.api.refusals import HttpRefusal, refusal_of
from core.admin.api.rendering import answered, done
from core.admin.guard import MAY_WRITE, is_write
from core.errors import EngineError

OPENAPI_PATH = "/api/openapi.json"


class Api:
    """Answers everything under ``/api``."""

    def __init__(
        self, operations: Sequence[Operation], *, version: str, body_max: int, log: FilteringBoundLogger
    ) -> None:
        own = Operation(method="GET", path=OPENAPI_PATH, summary="This description.", answer=self._description)
        self.table = Table([*operations, own])
        self._version = version
        self._body_max = body_max
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status = 500

        async def notice(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            try:
                answer = await self._answer(scope, receive)
                await answer(scope, receive, notice)
            except (EngineError, HttpRefusal) as error:  # an answer that is made while it is sent may raise too
                await _refused(error)(scope, receive, notice)
        finally:
            if is_write(scope["method"]):
                self._log.info(
                    "admin-write", method=scope["method"], path=_path(scope), status=status, peer=_peer(scope)
                )

    async def _answer(self, scope: Scope, receive: Receive) -> ASGIApp:
        headers = Headers(scope=scope)
        operation, path = self.table.find(scope["method"], _raw_path(scope))
        query = operation.parameters(scope["query_string"])
        body = None
        if is_write(scope["method"]):
            body = await read_body(receive, headers, kind=operation.body, size_max=self._body_max)
        if operation.media_type == MEDIA_TYPE and scope["method"] == "HEAD":
            return done(operation.status)  # a GET would be answered without end
        may_write = bool(scope.get(MAY_WRITE, False))
        return operation.answer(Call(path=path, query=query, body=body, headers=headers, may_write=may_write))

    def _description(self, call: Call) -> ASGIApp:
        return answered(description(self.table.operations, version=self._version))


def _refused(error: EngineError | HttpRefusal) -> ASGIApp:
    refusal = refusal_of(error) if isinstance(error, EngineError) else error
    return problem(refusal.status, refusal.error, str(refusal), refusal.headers)


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope["raw_path"]
    return raw.partition(b"?")[0]


def _path(scope: Scope) -> str:
    return _raw_path(scope).decode("latin-1")[:256]


def _peer(scope: Scope) -> str:
    host, port = scope.get("client") or ("", 0)
    return f"{host}:{port}"

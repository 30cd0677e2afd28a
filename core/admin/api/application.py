"""The ASGI application behind ``/api``: it finds the operation of a request, has it carried out, answers, logs writes.

The guard has already checked host, token and origin of a request. Refusals of an operation are answered as JSON. Any
other exception of an operation is a bug, which the guard logs and answers.
"""

from collections.abc import Iterator, Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from core.access.audit import AuditedPeer
from core.access.rights import Rights, no_rights
from core.admin.answers import problem
from core.admin.api.forms import form_of
from core.admin.api.openapi import description
from core.admin.api.refusals import HttpRefusal, refusal_of
from core.admin.api.rendering import done, rendered
from core.admin.api.requests import body_fields, path_segments, query_fields, read_body
from core.admin.callers import peer_of
from core.admin.guard import RIGHTS, is_write
from core.admin.slices import conclusion
from core.control_plane import BrokerControl
from core.errors import EngineError
from core.operations.all_operations import OPERATIONS
from core.operations.no_such import NoSuchMethod, NoSuchPath
from core.operations.operation import Arguments, Operation, Reply, Right, Shape, permits
from core.operations.table import Call, OperationTable, PathEntry, where_welcome
from core.slices import Walk


class Api:
    """Answers everything under ``/api``."""

    def __init__(
        self,
        control: BrokerControl,
        own: Sequence[Operation],
        *,
        operations: Sequence[Operation] = OPERATIONS,
        body_max: int,
        log: FilteringBoundLogger,
    ) -> None:
        """``own``: operations that only HTTP has, with their paths below ``/api``."""
        described = Operation(
            name="openapi",
            method="GET",
            path="/openapi.json",
            summary="This description.",
            handler=self._description,
            right=Right.MONITOR,
            answer=Shape("map"),
        )
        allowed = Operation(
            name="operations",
            method="GET",
            path="/operations",
            summary="The operations that the caller's tags allow, with their parameters.",
            handler=self._allowed,
            right=Right.MANAGE,
            answer=Shape("rows"),
        )
        self.table = OperationTable({"/api/headgate": operations, "/api": [*own, described, allowed]})
        self._control = control
        self._body_max = body_max
        self._log = log

    def permitted(self, rights: Rights) -> list[str]:
        """Return the names of the operations that a user's rights permit, on some virtual host at least."""
        return sorted({entry.operation.name for entry in self._entries(rights)})

    def _entries(self, rights: Rights) -> Iterator[PathEntry]:
        there = where_welcome(rights, self._control.hosts.names)
        return (one for one in self.table.entries if permits(there, one.operation.right))

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
                    "admin-write",
                    method=scope["method"],
                    path=_path(scope),
                    status=status,
                    peer=peer_of(scope),
                    user=scope.get(RIGHTS, no_rights("")).user,
                )

    async def _answer(self, scope: Scope, receive: Receive) -> ASGIApp:
        call = self._find(scope)
        headers, given = Headers(scope=scope), [*query_fields(scope["query_string"])]
        if "x-reason" in headers and any(parameter.name == "reason" for parameter in call.operation.parameters):
            given.append(("reason", headers["x-reason"]))  # where RabbitMQ's clients put it
        if is_write(scope["method"]):
            content = await read_body(receive, headers, operation=call.operation, size_max=self._body_max)
            given += await conclusion(body_fields(content, call.operation))
        if call.operation.answer.form == "events" and scope["method"] == "HEAD":
            return done(200)  # a GET would be answered without end
        rights = scope.get(RIGHTS, no_rights(""))
        try:
            audit = self._audited(scope)
            return rendered(await conclusion(call.carry_out(self._control, given, rights, audit)))
        finally:
            self._control.turn()  # work that was left before a refusal has to be done too

    def _audited(self, scope: Scope) -> AuditedPeer | None:
        access, (host, port) = self._control.access, scope.get("client") or ("", 0)
        return None if access is None else access.audited("http", host, port)

    def _find(self, scope: Scope) -> Call:
        method = scope["method"]
        try:
            return self.table.find("GET" if method == "HEAD" else method, [*path_segments(_raw_path(scope))])
        except NoSuchPath as error:
            raise HttpRefusal(404, "not-found", str(error)) from None
        except NoSuchMethod as error:
            allowed = ", ".join(sorted(error.allowed))
            raise HttpRefusal(
                405, "method-not-allowed", f"{method} is not possible here", headers={"allow": allowed}
            ) from None

    def _description(self, control: BrokerControl, arguments: Arguments) -> Reply | Walk[Reply]:
        return Reply(200, description(self.table.entries, version=control.version))

    def _allowed(self, control: BrokerControl, arguments: Arguments) -> Reply | Walk[Reply]:
        entries = [one for one in self._entries(arguments.rights) if one.operation.answer.form != "events"]
        return Reply(200, (form_of(one) for one in entries if one.spelling == one.operation.spellings[0]))


def _refused(error: EngineError | HttpRefusal) -> ASGIApp:
    refusal = refusal_of(error) if isinstance(error, EngineError) else error
    return problem(refusal.status, refusal.error, str(refusal), refusal.headers)


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope["raw_path"]
    return raw.partition(b"?")[0]


def _path(scope: Scope) -> str:
    return _raw_path(scope).decode("latin-1")[:256]

"""The management node: the engine's control plane behind ``/management``, as RabbitMQ 4's clients use it.

========================================  =================================================================
request                                   answer
========================================  =================================================================
``PUT /queues/:queue``                    201 made, 200 exists and is the same; the queue
``GET /queues/:queue``                    200 the queue
``DELETE /queues/:queue/messages``        200 ``message_count``: how many were purged
``PUT /queues/:queue/held``               see :mod:`amqp10.management.held`, and for POST
``DELETE /queues/:queue``                 200 ``message_count``: how many were deleted; 0 when there is no queue
``PUT /exchanges/:exchange``              204 made, or exists and is the same
``DELETE /exchanges/:exchange``           204; also when there is none
``/bindings``                             see :mod:`amqp10.management.bindings`
``PUT /auth/tokens``                      204 the token of the connection is replaced; 403 why it is not
``/headgate/…``                           the operations of :mod:`core.operations`, listed in docs/operating
========================================  =================================================================

A refused request is answered with a status and a text; see :data:`STATUSES`. Only a message that cannot be answered
ends its link.

Requests are served one by one, each as a walk (:mod:`core.slices`); no state is kept between them. Only a request that
declares or deletes a queue may begin while one before it is being recorded, so that many are recorded together. The
node is sans-IO and knows neither links nor sessions: it takes the bytes of a request and returns the bytes of its
response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amqp10.errors import quote
from amqp10.management.bindings import bind, listed, unbind
from amqp10.management.held import hold, settle
from amqp10.management.message import (
    BodyFields,
    ManagementRequest,
    RequestRefusal,
    Response,
    decode_request,
    encode_response,
    segment_text,
)
from amqp10.management.message import RequestError as RequestError
from amqp10.wire.codec import format_codes as code
from amqp10.wire.types import Array, UInt, ULong, plain
from core.access.checked_engine import CheckedEngine
from core.access.exchange import WAIT
from core.access.rights import Rights
from core.declaring import Recording, once_gone
from core.errors import (
    EngineError,
    Forbidden,
    HomeLost,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
    ResourceDeleted,
    StillGoing,
)
from core.interface import Engine, ExchangeDeclaration, ExchangeType, QueueDeclaration, QueueInfo
from core.operations.no_such import NoSuchMethod, NoSuchPath
from core.slices import Found, Walk

if TYPE_CHECKING:  # front ends must not load the server
    from core.control_plane import BrokerControl
    from core.engine.forwarding.nodes import Homes
    from core.operations.table import Call, OperationTable

STATUSES: Mapping[type[EngineError], int] = {
    NotFound: 404,
    Locked: 400,
    Inequivalent: 409,
    PreconditionFailed: 409,
    StillGoing: 409,
    Invalid: 400,
    Forbidden: 403,
    LimitReached: 403,
    ResourceDeleted: 404,
    HomeLost: 503,
}
"""The status that RabbitMQ's clients expect for each kind of engine error."""

NODE_NAME = "headgate"
"""Clients ask for the node that leads a queue and for its replicas. This is the answer where no leader changes."""
NO_LEADER = ""
"""The leader of a queue that no node leads now. RabbitMQ leaves the field out then, and some of its clients fail."""

_QUEUE_FIELDS = ("durable", "exclusive", "auto_delete", "arguments")
_EXCHANGE_FIELDS = ("type", "durable", "auto_delete", "internal", "arguments")
_METHODS_WITHOUT_BODY = ("GET", "DELETE")

Step = Callable[[], Response | Walk[Response]]
"""What answers a request, at once or as a walk. Raises RequestRefusal, EngineError."""


class RequestInProgress:
    """A request that is being served.

    changes_queue: whether it declares or deletes a queue, and so may begin while others of these are being recorded.
    walk: leads to the response; raises RequestError for a message that cannot be answered.
    """

    __slots__ = ("_for_other_nodes", "_recording", "_wake", "asleep", "changes_queue", "response", "walk")

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called when it can go on after it has waited."""
        self._wake = wake
        self.asleep = False
        """Whether the peer will be woken when there is more to do."""
        self.changes_queue = False
        self.walk: Walk[bytes]
        self.response: bytes | None = None
        """None before the end of the walk."""
        self._recording: Recording[Any] | None = None
        self._for_other_nodes = False
        """Whether its change waits for other nodes, which make :meth:`_go_on` be called."""

    @property
    def begun(self) -> bool:
        """Whether its change is staged or made, or it has its response."""
        return self.response is not None or self._recording is not None

    @property
    def waits(self) -> bool:
        """Whether it waits until its change is recorded."""
        return self._recording is not None and not self._recording.done

    def step(self) -> bool:
        """Do a step of the walk, unless it waits. Returns whether the response is there. Raises RequestError."""
        if self._for_other_nodes:
            return False
        try:
            when_over = next(self.walk)
        except StopIteration as end:
            self.response = end.value
        else:
            if when_over is not None:
                self.asleep = self._for_other_nodes = True
                when_over(self._go_on)
        return self.response is not None

    def _go_on(self) -> None:
        self.asleep = self._for_other_nodes = False
        self._wake()

    def recorded(self, begin: Callable[[], Recording[Found]]) -> Walk[Found]:
        """Begin a change as soon as no other one of its queue is being recorded, and wait until it is recorded."""
        recording = self._recording = yield from once_gone(begin)
        if not recording.done:
            recording.when_done(self._wake)
        while not recording.done:
            yield None  # :attr:`waits` says so, and the next request may begin meanwhile
        return recording.result()


class ManagementNode:
    """Answers requests by way of the control plane of one virtual host."""

    def __init__(
        self, control: "BrokerControl", operations: "Callable[[], Walk[OperationTable]]", homes: "Homes"
    ) -> None:
        """``operations`` returns those under ``/headgate``, which ``control`` carries out. Only requests to one of them
        call it. ``homes``: on which nodes queues are."""
        self._control = control
        self._operations = operations
        self._homes = homes

    def respond(self, request: bytes, engine: CheckedEngine, owner: object) -> Walk[bytes]:
        """The response to a request, both as whole messages. ``engine`` has the rights of the user; ``owner`` is the
        connection whose exclusive queues the request may use.

        Each request makes its changes in one step of the walk; what it lists may change between two steps. Raises only
        RequestError, for a message that cannot be answered.
        """
        return self.serve(request, engine, owner).walk

    def serve(
        self, request: bytes, engine: CheckedEngine, owner: object, wake: Callable[[], None] = lambda: None
    ) -> RequestInProgress:
        """The same, with what the caller must know to begin the next request. ``wake`` is called when
        the request can go on after it has waited. Raises RequestError in the walk only."""
        serving = RequestInProgress(wake)
        try:
            decoded = decode_request(request)
        except RequestError as error:
            serving.walk = _unanswerable(error)
            return serving
        serving.changes_queue = decoded.properties.subject in ("PUT", "DELETE") and _is_queue(decoded.properties.to)
        serving.walk = self._responded(decoded, engine, owner, serving)
        return serving

    def _responded(
        self, request: ManagementRequest, engine: CheckedEngine, owner: object, serving: RequestInProgress
    ) -> Walk[bytes]:
        message_id = request.properties.message_id
        try:
            response = yield from self._serve(request, engine, owner, serving)
            return (yield from encode_response(response, message_id))
        except RequestRefusal as refusal:
            refused = Response(refusal.status, refusal.text)
        except EngineError as error:
            refused = Response(STATUSES[type(error)], str(error))
        return (yield from encode_response(refused, message_id))

    def _serve(
        self, request: ManagementRequest, engine: CheckedEngine, owner: object, serving: RequestInProgress
    ) -> Walk[Response]:
        method = request.method
        segments, query = request.target()
        body = request.body()
        to = quote(request.properties.to)
        try:
            step = yield from self._step(method, segments, query, body, engine, owner, serving)
        except NoSuchPath:
            raise RequestRefusal(404, f"there is no resource {to}") from None
        except NoSuchMethod as there_are:
            allowed = ", ".join(there_are.allowed)
            raise RequestRefusal(405, f"{quote(method)} on {to}: only {allowed} can be done") from None
        if body is not None and method in _METHODS_WITHOUT_BODY:
            raise RequestRefusal(400, f"a {method} has no body; it must be null, not {quote(body)}")
        answer = step()
        return answer if isinstance(answer, Response) else (yield from answer)

    def _step(
        self,
        method: str,
        segments: list[str],
        query: Sequence[tuple[str, str]],
        body: object,
        engine: CheckedEngine,
        owner: object,
        serving: RequestInProgress,
    ) -> Walk[Step]:
        """What answers this request. Raises NoSuchPath, NoSuchMethod, RequestRefusal."""
        if segments[0] == "headgate":
            operations = yield from self._operations()
            call = operations.find(method, [segment_text(segment) for segment in segments])
            return lambda: self._operate(call, query, body, engine)
        steps = _steps(segments, query, body, engine, owner, serving, self._homes)
        if not steps:
            raise NoSuchPath("there is no such path")
        if method not in steps:
            raise NoSuchMethod([*steps])
        return steps[method]

    def _operate(
        self, call: "Call", query: Sequence[tuple[str, str]], body: object, engine: CheckedEngine
    ) -> Walk[Response]:
        """Carry out an operation, whose parameters come in the query or in the body, a map."""
        fields = {} if body is None else plain(body)
        if not isinstance(fields, dict):
            raise RequestRefusal(400, f"the body must be a map, not {quote(fields)}")
        given = [*query, *call.operation.in_body(fields)]
        answer = yield from call.carry_out(self._control, given, engine.rights, engine.audit)
        return Response(answer.status, answer.value)


def _steps(
    segments: list[str],
    query: Sequence[tuple[str, str]],
    body: object,
    engine: CheckedEngine,
    owner: object,
    serving: RequestInProgress,
    homes: "Homes",
) -> Mapping[str, Step]:
    """What can be done to the resource at this path, by method; empty for a resource that does not exist."""
    match segments:
        case ["queues", segment]:
            queue = segment_text(segment)
            return {
                "PUT": lambda: _declare_queue(engine, queue, body, owner, serving, homes),
                "GET": lambda: Response(200, _show_queue(engine, engine.show_queue(queue, owner), homes)),
                "DELETE": lambda: _delete_queue(engine, queue, owner, serving),
            }
        case ["queues", segment, "messages"]:
            queue = segment_text(segment)
            return {"DELETE": lambda: _purge_queue(engine, queue, owner)}
        case ["queues", segment, "held"]:
            queue = segment_text(segment)
            return {
                "PUT": lambda: hold(engine, queue, body, owner),
                "POST": lambda: settle(engine, queue, body, owner),
            }
        case ["exchanges", segment]:
            exchange = segment_text(segment)
            return {
                "PUT": lambda: _declare_exchange(engine, exchange, body),
                "DELETE": lambda: _delete_exchange(engine, exchange),
            }
        case ["bindings"]:
            return {
                "POST": lambda: bind(engine, body, owner),
                "GET": lambda: listed(engine, query),
            }
        case ["bindings", segment]:
            return {"DELETE": lambda: unbind(engine, segment, owner)}
        case ["auth", "tokens"]:
            return {"PUT": lambda: _renew_token(engine.rights, body, serving)}
    return {}


def _unanswerable(error: RequestError) -> Walk[bytes]:
    yield from ()
    raise error


def _is_queue(to: object) -> bool:
    """Whether a path names a queue, and nothing within it."""
    return isinstance(to, str) and to.startswith("/queues/") and "/" not in to[len("/queues/") :]


def _declare_queue(
    engine: CheckedEngine, name: str, body: object, owner: object, serving: RequestInProgress, homes: "Homes"
) -> Walk[Response]:
    fields = BodyFields(body, what="queue", names=_QUEUE_FIELDS)
    declaration = QueueDeclaration(
        name=name,
        durable=fields.boolean("durable", default=True),
        exclusive=fields.boolean("exclusive", default=False),
        auto_delete=fields.boolean("auto_delete", default=False),
        arguments=fields.arguments(),
    )
    try:
        info, made = yield from serving.recorded(lambda: engine.begin_declaring(declaration, owner))
    except Inequivalent as error:
        if engine.queue_info(name, owner).declaration.exclusive != declaration.exclusive:
            # Clients of RabbitMQ expect the status of a lock here, as for another connection's exclusive queue.
            raise RequestRefusal(STATUSES[Locked], str(error)) from None
        raise
    return Response(201 if made else 200, _show_queue(engine, info, homes))


def _delete_queue(engine: Engine, name: str, owner: object, serving: RequestInProgress) -> Walk[Response]:
    return _message_count((yield from serving.recorded(lambda: engine.begin_deleting(name, owner))))


def _show_queue(engine: CheckedEngine, info: QueueInfo, homes: "Homes") -> dict[str, object]:
    """The map of a queue. Clients check these types, and some rely on the order."""
    declaration = info.declaration
    leader, replicas = (NODE_NAME, (NODE_NAME,)) if homes.nodes_of is None else homes.nodes_of(info)
    return {
        "leader": leader or NO_LEADER,
        "replicas": Array(code.STRING_8, (*replicas,)),
        "message_count": ULong(info.ready),
        "consumer_count": UInt(info.consumers),
        "name": declaration.name,
        "vhost": engine.rights.virtual_host,
        "durable": declaration.durable,
        "auto_delete": declaration.auto_delete,
        "exclusive": declaration.exclusive,
        "type": info.type,
        "arguments": declaration.arguments,
    }


def _purge_queue(engine: Engine, name: str, owner: object) -> Walk[Response]:
    return _message_count((yield from engine.purge_queue(name, owner)))


def _message_count(count: int) -> Response:
    return Response(200, {"message_count": ULong(count)})


def _declare_exchange(engine: Engine, name: str, body: object) -> Walk[Response]:
    fields = BodyFields(body, what="exchange", names=_EXCHANGE_FIELDS)
    kind = fields.text("type", default=ExchangeType.DIRECT.value)
    try:
        exchange_type = ExchangeType(kind)
    except ValueError:
        types = ", ".join(known.value for known in ExchangeType)
        raise RequestRefusal(400, f"unknown exchange type {quote(kind)}; there are {types}") from None
    declaration = ExchangeDeclaration(
        name=name,
        type=exchange_type,
        durable=fields.boolean("durable", default=True),
        auto_delete=fields.boolean("auto_delete", default=False),
        internal=fields.boolean("internal", default=False),
        arguments=fields.arguments(),
    )
    yield from once_gone(lambda: engine.declare_exchange(declaration))
    return Response(204)


def _delete_exchange(engine: Engine, name: str) -> Walk[Response]:
    yield from once_gone(lambda: engine.delete_exchange(name))
    return Response(204)


def _renew_token(rights: Rights, body: object, serving: RequestInProgress) -> Walk[Response]:
    """Replace the token with which the connection has logged in. A new one that is refused leaves the old one."""
    if not isinstance(body, bytes):
        raise RequestRefusal(400, f"a token must be binary, not {quote(body)}")
    answer = rights.renewed(body)
    if answer is None:
        raise RequestRefusal(403, "this connection has not logged in with a token, so there is none to replace")
    while answer.reply is WAIT:
        serving.asleep = True
        yield None
    serving.asleep = False
    if answer.reply[0] != "success":
        raise RequestRefusal(403, answer.why)
    return Response(204)

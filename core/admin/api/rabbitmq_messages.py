"""The two operations of RabbitMQ's management API on single messages: publish one, and get some from a queue.

They are for people who try something out. A program should use a client: each request here makes a publisher or a
consumer of its own. Sizes and numbers are bounded, because an answer is made in the event loop.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping

from core.admin.api.rabbitmq import EXCHANGE, QUEUE, operation
from core.admin.api.refusals import bad_request
from core.admin.api.requests import AT_ONCE_BYTES_MAX
from core.control_plane import BrokerControl, MessageForms
from core.engine.broker import OPERATOR
from core.errors import LimitReached, NotFound, PreconditionFailed
from core.interface import (
    Action,
    Cancelled,
    Confirmed,
    ConsumeOptions,
    Delivered,
    Disposal,
    ExchangeTarget,
    GrantReply,
    Mailbox,
    Outcome,
    QueueTarget,
    Target,
)
from core.message import Run, each_of
from core.operations.operation import Arguments, Parameter, Reply, Right, Shape
from core.server.run import read_clocks
from core.slices import Walk

DEFAULT_EXCHANGE_NAMES = ("", "amq.default")
GOT_MAX = 100
"""The most messages of one request: with the largest bodies they make an answer of 6 MiB."""
BODY_BYTES_MAX = AT_ONCE_BYTES_MAX
"""The most bytes of a body that is shown; base64 of it takes 0.1 ms."""
ANSWER_SECONDS = 10.0
"""How long a request waits for the engine: as long as clients of AMQP usually wait for a confirm."""
SETTLING: Mapping[str, Disposal | None] = {
    "ack_requeue_true": None,
    "reject_requeue_true": None,
    "ack_requeue_false": Disposal.ACCEPTED,
    "reject_requeue_false": Disposal.REJECTED,
}
"""What becomes of the messages that a request gets; None: they go back to their places in the queue."""


def _publish(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    forms, engine = _forms(control), arguments.engine(control)
    properties, key = arguments.map("properties"), arguments.text("routing_key")
    user = properties.get("user_id")
    if user is not None and user != arguments.rights.user and not arguments.rights.impersonates:
        raise PreconditionFailed(f"user_id must be '{arguments.rights.user}', the user who publishes")
    entry, attributes = forms.made(properties, _body_of(arguments))
    name = arguments.text("name")
    target: Target = QueueTarget(key) if name in DEFAULT_EXCHANGE_NAMES else ExchangeTarget(name, key)
    mailbox = Mailbox(lambda: None)
    publisher = engine.publisher(mailbox, OPERATOR, None, None)
    try:
        engine.publish(publisher, target, Run(0, [entry], attributes), read_clocks())
        for action in _answers(control, mailbox):
            if isinstance(action, Confirmed):
                if action.outcome is Outcome.REJECTED:
                    raise PreconditionFailed(f"the message was rejected: {action.error or 'the queue is full'}")
                if action.outcome is Outcome.UNCERTAIN:
                    raise PreconditionFailed(f"the message may have been published: {action.error}")
                return Reply(200, {"routed": action.outcome is Outcome.ACCEPTED})
            yield None
    except NotFound:
        if isinstance(target, ExchangeTarget):
            raise
        return Reply(200, {"routed": False})
    finally:
        engine.retire(publisher)
    raise LimitReached(f"the message was not confirmed in {ANSWER_SECONDS:g} s; it may have been published")


def _get(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    forms, engine, mailbox = _forms(control), arguments.engine(control), Mailbox(lambda: None)
    settling = SETTLING[arguments.text("ackmode")]
    cut_at = arguments.optional_number("truncate")
    consumer = engine.consume(arguments.text("name"), mailbox, OPERATOR, ConsumeOptions(getter=True), None)
    try:
        engine.grant(consumer, arguments.number("count"), True)
        got, left = yield from _got(control, mailbox)
        rows: list[object] = []
        left += sum(len(one.entries) for one in got)
        for one in got:
            for row, body in _rows(one, forms):
                left -= 1
                rows.append({**row, "message_count": left, **_shown(body, arguments, cut_at, settling)})
                yield None
        if settling is not None:
            for one in got:
                engine.settle(consumer, one.first, one.first + len(one.entries) - 1, settling)
            control.turn()
        return Reply(200, rows)
    finally:
        engine.cancel(consumer)


def _got(control: BrokerControl, mailbox: Mailbox) -> Walk[tuple[list[Delivered], int]]:
    """Return what a grant has brought, and how many messages are ready behind it."""
    got: list[Delivered] = []
    for action in _answers(control, mailbox):
        match action:
            case Delivered():
                got.append(action)
            case GrantReply():
                return got, action.available
            case Cancelled():
                raise action.error
        yield None
    raise LimitReached(f"the queue has not answered in {ANSWER_SECONDS:g} s")


def _answers(control: BrokerControl, mailbox: Mailbox) -> Iterator[Action | None]:
    """Yield what the engine says, and None while it says nothing, for :data:`ANSWER_SECONDS`."""
    until = read_clocks().monotonic + ANSWER_SECONDS
    while read_clocks().monotonic < until:
        control.turn()
        yield from mailbox.take() or (None,)


def _rows(delivered: Delivered, forms: MessageForms) -> Iterator[tuple[dict[str, object], bytes]]:
    count = len(delivered.entries)
    facts = zip(delivered.entries, each_of(delivered.attributes, count), each_of(delivered.routes, count), strict=True)
    for entry, attributes, route in facts:
        properties, body = forms.shown(entry, attributes)
        row = {
            "payload_bytes": len(body),
            "redelivered": not delivered.first_acquirer,
            "exchange": "" if route is None else route.exchange,
            "routing_key": delivered.consumer.queue_name if route is None else route.routing_keys[0],
            "properties": properties,
        }
        yield row, body


def _shown(body: bytes, arguments: Arguments, cut_at: int | None, settling: Disposal | None) -> dict[str, object]:
    """The body as an answer has it. A body that is too large for an answer is cut, if the message stays."""
    if len(body) > BODY_BYTES_MAX and cut_at is None and settling is not None:
        raise LimitReached(
            f"a message has a body of {len(body)} bytes, and {BODY_BYTES_MAX} are shown here; set truncate, or get it "
            "with a client. All messages are in the queue again"
        )
    shown = body[: BODY_BYTES_MAX if cut_at is None else min(cut_at, BODY_BYTES_MAX)]
    if arguments.text("encoding") == "auto":
        try:
            return {"payload": shown.decode(), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {"payload": b64encode(shown).decode("ascii"), "payload_encoding": "base64"}


def _body_of(arguments: Arguments) -> bytes:
    payload = arguments.text("payload")
    if arguments.text("payload_encoding") == "string":
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise bad_request("payload has half a character; send it with payload_encoding base64") from None
    try:
        return b64decode(payload, validate=True)
    except (NotBase64, ValueError):
        raise bad_request("payload must be in base64, as payload_encoding says") from None


def _forms(control: BrokerControl) -> MessageForms:
    if control.message_forms is None:
        raise PreconditionFailed("this broker has no protocol with properties of this kind")
    return control.message_forms


OPERATIONS = (
    operation(
        "POST",
        f"{EXCHANGE}/publish",
        "Publish a message.",
        _publish,
        parameters=(
            Parameter(name="routing_key", sentence="The routing key.", default=""),
            Parameter(name="properties", sentence="Its properties.", kind="map", secret=True),
            Parameter(
                name="payload", sentence="Its body.", required=True, characters_max=AT_ONCE_BYTES_MAX, secret=True
            ),
            Parameter(
                name="payload_encoding",
                sentence="How payload is written.",
                choices=("string", "base64"),
                default="string",
            ),
            Parameter(name="exchange", sentence="Ignored: the path has it.", ignored=True),
        ),
        answer=Shape("map"),
        right=Right.MANAGE,
    ),
    operation(
        "POST",
        f"{QUEUE}/get",
        "Get messages of a queue.",
        _get,
        parameters=(
            Parameter(
                name="count", sentence="The most messages to get.", kind="number", low=1, high=GOT_MAX, default=1
            ),
            Parameter(
                name="ackmode",
                sentence="What becomes of them: with ack_requeue_true they go back to their places, with "
                "ack_requeue_false they are taken out, with reject_requeue_false they become dead letters.",
                choices=tuple(SETTLING),
                default="ack_requeue_true",
            ),
            Parameter(name="encoding", sentence="How bodies are shown.", choices=("auto", "base64"), default="auto"),
            Parameter(name="truncate", sentence="The most bytes of a body.", kind="number"),
            Parameter(name="queue", sentence="Ignored: the path has it.", ignored=True),
            Parameter(
                name="payload_file", sentence="Ignored: rabbitmqadmin sends where it will write the body.", ignored=True
            ),
        ),
        answer=Shape("rows"),
        right=Right.MANAGE,
    ),
)

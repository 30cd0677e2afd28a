"""Operations on the messages of a queue: look at them, move them elsewhere, send dead letters back.

A move goes on after the answer. Its result is in the queue's row: ``last_move`` is a map of ``number``, ``moved``,
``done`` and ``failure``, which is empty for a move that went well.
"""

from typing import TYPE_CHECKING

from core.engine.queue.moving import PEEKED_MAX
from core.errors import Invalid
from core.interface import ExchangeTarget, QueueTarget, Target
from core.operations.operation import Answer, Arguments, Example, Field, Operation, Parameter, Right, Shape, Spelling

if TYPE_CHECKING:
    from core.control_plane import BrokerControl

PEEKED_DEFAULT = 10
QUEUE = Parameter(name="queue", sentence="The queue's name.", in_path=True)
COUNT = Parameter(
    name="count", sentence="The most messages to move; without it all that are ready now.", kind="number", low=1
)
MOVE = Shape("map", (Field("move", "number", "The number of the move, as in ``last_move`` of the queue's row."),))


def _peek(control: "BrokerControl", arguments: Arguments) -> Answer:
    return Answer(200, control.broker.peek_queue(arguments.text("queue"), arguments.number("count")))


def _move(control: "BrokerControl", arguments: Arguments) -> Answer:
    move = control.broker.move_messages(arguments.text("queue"), _target(arguments), arguments.optional_number("count"))
    return Answer(200, {"move": move})


def _target(arguments: Arguments) -> Target:
    queue, exchange = arguments.optional_text("to"), arguments.optional_text("exchange")
    key = arguments.text("key")
    if queue is not None and exchange is None and not key:
        return QueueTarget(queue)
    if queue is None and exchange is not None:
        return ExchangeTarget(exchange, key)
    raise Invalid("either to, or exchange and key, must say where the messages go")


def _replay(control: "BrokerControl", arguments: Arguments) -> Answer:
    return Answer(
        200, {"move": control.broker.replay_messages(arguments.text("queue"), arguments.optional_number("count"))}
    )


OPERATIONS = (
    Operation(
        name="queues.peek",
        method="GET",
        path="/queues/{queue}/messages",
        summary="Show the first ready messages of a queue, which stay in the queue unchanged.",
        handler=_peek,
        right=Right.MONITOR,
        parameters=(
            QUEUE,
            Parameter(
                name="count",
                sentence="The most messages to show.",
                kind="number",
                low=1,
                high=PEEKED_MAX,
                default=PEEKED_DEFAULT,
            ),
        ),
        answer=Shape(
            "rows",
            (
                Field("sequence", "number", "The message's number in its queue."),
                Field("bytes", "number", "Its size."),
                Field("priority", "number", "Its priority."),
                Field("durable", "flag", "Whether it survives a restart."),
                Field("delivery_count", "number", "Its failed deliveries so far."),
                Field("expires_at", "number", "When it expires, in seconds since 1970; null for never."),
                Field("message_id", "text", "Its message-id; null if it has none."),
                Field("deaths", "list", "Maps of ``queue``, ``reason`` and ``count``, the newest first."),
                Field("body", "text", "The first 256 bytes of its body."),
            ),
        ),
        example=Example(parameters={"queue": "orders", "count": 2}, answer=[{"sequence": 0, "delivery_count": 0}]),
        also=(Spelling(method="GET", path="/queues/{queue}/peek", within="messages"),),
    ),
    Operation(
        name="queues.move",
        method="PUT",
        path="/queues/{queue}/move",
        summary="Begin to move messages from a queue to another queue or to an exchange, the oldest first.",
        handler=_move,
        right=Right.OPERATE,
        parameters=(
            QUEUE,
            Parameter(name="to", sentence="The queue that the messages go to."),
            Parameter(name="exchange", sentence="Instead of ``to``: the exchange that the messages go to."),
            Parameter(name="key", sentence="The routing key with which they go to the exchange.", default=""),
            COUNT,
        ),
        answer=MOVE,
        example=Example(parameters={"queue": "orders", "to": "archive", "count": 2}, answer={"move": 1}),
        also=(Spelling(method="POST", path="/queues/{queue}/move", status=202),),
    ),
    Operation(
        name="queues.replay",
        method="PUT",
        path="/queues/{queue}/replay",
        summary="Begin to send dead letters back, each to the queue in which it first became a dead letter.",
        handler=_replay,
        right=Right.OPERATE,
        parameters=(QUEUE, COUNT),
        answer=MOVE,
        example=Example(parameters={"queue": "orders", "count": 1}, answer={"move": 1}),
        also=(Spelling(method="POST", path="/queues/{queue}/replay", status=202),),
    ),
)

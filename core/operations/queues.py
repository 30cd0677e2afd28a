"""Operations on the messages of a queue: look at them, move them elsewhere, send dead letters back.

A move goes on after the answer. Its result is in the queue's row: ``last_move`` is a map of ``number``, ``moved``,
``done`` and ``failure``, which is empty for a move that went well.
"""

from core.control_plane import BrokerControl
from core.engine.queue.moving import PEEKED_MAX
from core.engine.routing.shared_names import is_shared
from core.errors import Invalid
from core.interface import ExchangeTarget, QueueTarget, Snapshot, Target
from core.operations.operation import VHOST, AnswerField, Arguments, Parameter, Reply, Shape, Spelling, operation
from core.slices import Walk

QUEUE = Parameter("queue", "The queue's name.", in_path=True)
PEEKED = Parameter("count", "The most messages to show.", "number", low=1, high=PEEKED_MAX, default=10)
COUNT = Parameter("count", "The most messages to move; without it all that are ready now.", "number", low=1)
TO = Parameter("to", "The queue that the messages go to.")
EXCHANGE = Parameter("exchange", "Instead of ``to``: the exchange that the messages go to.")
KEY = Parameter("key", "The routing key with which they go to the exchange.", default="")
MOVE = Shape("map", (AnswerField("move", "number", "The number of the move, as in ``last_move`` of the queue's row."),))
MESSAGES = Shape(
    "rows",
    (
        AnswerField("sequence", "number", "The message's number in its queue."),
        AnswerField("bytes", "number", "Its size."),
        AnswerField("priority", "number", "Its priority."),
        AnswerField("durable", "flag", "Whether it survives a restart."),
        AnswerField("delivery_count", "number", "Its failed deliveries so far."),
        AnswerField("expires_at", "number", "When it expires, in seconds since 1970; null for never."),
        AnswerField("message_id", "text", "Its message-id; null if it has none."),
        AnswerField("deaths", "list", "Maps of ``queue``, ``reason`` and ``count``, the newest first."),
        AnswerField("body", "text", "The first 256 bytes of its body."),
    ),
)
LEADERS = Shape(
    "rows",
    (
        AnswerField("queue", "text", "The quorum queue, or stream."),
        AnswerField("vhost", "text", "Its virtual host."),
        AnswerField("group", "number", "The group that it belongs to."),
        AnswerField("leader", "text", "The node that leads the group; null if none does."),
        AnswerField("members", "list", "The nodes that keep the group."),
    ),
)


@operation("queues.leaders", "GET", "/cluster/queues", answer=LEADERS, gives=[])
def leaders(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """List the quorum queues and streams of a cluster with the nodes that lead them, and those that keep them."""
    rows: list[Snapshot] = []
    for host in control.hosts.all if control.cluster is not None else ():
        for name, one in sorted(host.shown.topology.queues.items()):
            if is_shared(one.declaration):
                group, leader, members = control.in_cluster.leader_of(one.identity)
                rows.append(
                    {"queue": name, "vhost": host.virtual_host, "group": group, "leader": leader, "members": [*members]}
                )
            yield None
    return Reply(200, rows)


@operation(
    "queues.peek",
    "GET",
    "/queues/{queue}/messages",
    *(QUEUE, PEEKED, VHOST),
    answer=MESSAGES,
    example={"queue": "orders", "count": 2},
    gives=[{"sequence": 0, "delivery_count": 0}],
    also=(Spelling("GET", "/queues/{queue}/peek", within="messages"),),
    is_audited=True,
)
def peek(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the first ready messages of a queue, which stay in the queue unchanged."""
    arguments.rights.check("read", "queue", arguments.text("queue"))
    return Reply(200, arguments.host(control).peek_queue(arguments.text("queue"), arguments.number("count")))


@operation(
    "queues.move",
    "PUT",
    "/queues/{queue}/move",
    *(QUEUE, TO, EXCHANGE, KEY, COUNT, VHOST),
    answer=MOVE,
    example={"queue": "orders", "to": "archive", "count": 2},
    gives={"move": 1},
    also=(Spelling("POST", "/queues/{queue}/move", status=202),),
)
def move(control: BrokerControl, arguments: Arguments) -> Reply:
    """Begin to move messages from a queue to another queue or to an exchange, the oldest first."""
    queue, target, count = arguments.text("queue"), _target(arguments), arguments.optional_number("count")
    arguments.rights.check("read", "queue", queue)
    arguments.engine(control).check_target(target)
    return Reply(200, {"move": arguments.host(control).move_messages(queue, target, count)})


def _target(arguments: Arguments) -> Target:
    queue, exchange, key = arguments.optional_text("to"), arguments.optional_text("exchange"), arguments.text("key")
    if queue is not None and exchange is None and not key:
        return QueueTarget(queue)
    if queue is None and exchange is not None:
        return ExchangeTarget(exchange, key)
    raise Invalid("either to, or exchange and key, must say where the messages go")


@operation(
    "queues.replay",
    "PUT",
    "/queues/{queue}/replay",
    *(QUEUE, COUNT, VHOST),
    answer=MOVE,
    example={"queue": "orders", "count": 1},
    gives={"move": 1},
    also=(Spelling("POST", "/queues/{queue}/replay", status=202),),
)
def replay(control: BrokerControl, arguments: Arguments) -> Reply:
    """Begin to send dead letters back, each to the queue in which it first became a dead letter."""
    count = arguments.optional_number("count")
    arguments.rights.check("read", "queue", arguments.text("queue"))
    return Reply(200, {"move": arguments.host(control).replay_messages(arguments.text("queue"), count)})


OPERATIONS = (leaders, peek, move, replay)

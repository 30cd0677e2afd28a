"""Makes the tables of ``protocol/amqp091.md`` from the code: methods, reply codes with their levels, capabilities.

The level of a reply code is found in the broker's modules: a ``ChannelFault`` closes a channel, a
``Amqp091ConnectionFault`` the connection.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from core.amqp091.errors import ReplyCode
from core.amqp091.frontend.replies import REPLY_CODES
from core.amqp091.methods import METHODS, Method
from core.amqp091.negotiation import CAPABILITIES

CODE = Path(__file__).parents[1] / "core" / "amqp091"

LEVELS = {
    "ChannelFault": "channel",
    "Amqp091ConnectionFault": "connection",
    "ConnectionClose": "connection",
    "BasicReturn": "basic.return",
}
"""The classes that carry a reply code, and what each of them closes."""

SENT_BY_THE_BROKER = frozenset({"connection.start", "connection.secure", "connection.tune", "connection.blocked"})
SENT_BY_THE_BROKER |= {"connection.unblocked", "basic.return", "basic.deliver"}
SENT_BY_BOTH = frozenset({"connection.close", "channel.close", "basic.cancel", "basic.ack", "basic.nack"})

HERE: Mapping[str, str] = {
    "connection.secure": "no mechanism that is offered needs it",
    "connection.blocked": "an alarm is on, and the client has published; only to clients with this capability",
    "connection.unblocked": "the last alarm is off",
    "connection.update-secret": "replaces the token of the login; a password does not expire: answered without effect",
    "channel.flow": "`active` false: 540. The broker never sends it",
    "access.request": "answered, without effect",
    "exchange.declare": "types direct, fanout, topic, headers, x-local-random; another type: 406",
    "queue.declare": "without a name the broker makes one that begins with `amq.gen-`",
    "queue.purge": "not for a stream",
    "queue.delete": "a queue that does not exist: answered, 0 messages",
    "basic.qos": "`prefetch_size`: 540; `global` means the channel, otherwise each later consumer",
    "basic.consume": "`no_local`: 540; an unknown `x-` argument: 406; a stream needs a prefetch and acknowledgements",
    "basic.cancel": "from the broker, to clients with the capability: the queue or its leader is gone",
    "basic.publish": "`immediate`: 540",
    "basic.get": "from a stream: 540",
    "basic.ack": "an unknown tag: 406",
    "basic.reject": "`requeue` false: dead-lettered, or dropped",
    "basic.nack": "the same; the broker sends it for a message that a queue rejected",
    "basic.recover": "`requeue` false: 540",
    "basic.recover-async": "the same as basic.recover",
    "confirm.select": "not on a channel with transactions",
    "tx.select": "not on a channel with confirms",
    "tx.commit": "answered when all messages of the transaction are accepted",
}

WHEN_SENT: Mapping[str, str] = {
    "CONTENT_TOO_LARGE": "messages that are not complete take more than `amqp091.partial_content_bytes_max`",
    "NO_ROUTE": "a mandatory message that is routed to no queue",
    "CONNECTION_FORCED": "the broker stops or is in maintenance mode, or an operator closes the connection",
    "ACCESS_REFUSED": "a wrong password, answered with a delay (connection); a reserved name, or another consumer is"
    " exclusive (channel)",
    "NOT_FOUND": "the queue or exchange does not exist",
    "RESOURCE_LOCKED": "an exclusive queue of another connection",
    "PRECONDITION_FAILED": "a declaration that differs from the existing one, an invalid argument, an unknown delivery"
    " tag, transactions mixed with confirms, a message above `amqp091.max_message_size`, a limit that is reached, a"
    " delivery that was not acknowledged in time",
    "FRAME_ERROR": "a frame that is too large, of an unknown type or with a wrong end; a body longer than announced",
    "SYNTAX_ERROR": "fields or tables that cannot be decoded",
    "COMMAND_INVALID": "a method out of order or not for clients; an unknown mechanism",
    "CHANNEL_ERROR": "a frame on a channel that is not open, or channel.open on one that is open",
    "UNEXPECTED_FRAME": "a content header or body that is not expected, or another frame where one is expected",
    "RESOURCE_ERROR": "the broker cannot serve another connection",
    "NOT_ALLOWED": "a virtual host that does not exist, a limit above the offered one, a channel above `channel_max`, a"
    " consumer tag that is in use",
    "NOT_IMPLEMENTED": "a method that does not exist, or a flag that is not served: see the methods above",
    "INTERNAL_ERROR": "a bug of the broker; its log has the details",
}


def tables() -> Mapping[str, str]:
    """Return each table by the name of its marks in the page."""
    return {
        "methods": "".join(methods()),
        "reply codes": "".join(reply_codes()),
        "engine errors": "".join(engine_errors()),
        "capabilities": capabilities(),
    }


def spelled(method: type[Method]) -> str:
    """Return the name of a method as in the specification: ``basic.recover-async`` for BasicRecoverAsync."""
    class_name, *words = re.findall("[A-Z][a-z]*", method.__name__)
    return f"{class_name}.{'-'.join(words)}".lower()


def methods() -> Iterator[str]:
    """Yield the table of methods. The row of a method names its answers."""
    yield "| method | id | sent by | answer | what it does | in Headgate |\n|---|---|---|---|---|---|\n"
    names = {method.__name__: method for method in METHODS.values()}
    answers = {name + end for name in names for end in ("Ok", "Empty")} & names.keys()
    for (class_id, method_id), method in sorted(METHODS.items()):
        if method.__name__ in answers:
            continue
        name = spelled(method)
        sender = "broker" if name in SENT_BY_THE_BROKER else "both" if name in SENT_BY_BOTH else "client"
        answered = [found for end in ("Ok", "Empty") if (found := names.get(method.__name__ + end))]
        shown = ", ".join(spelled(answer).partition(".")[2] for answer in answered)
        what = " ".join((method.__doc__ or "").split()).replace("``", "`")
        yield f"| {name} | {class_id}.{method_id} | {sender} | {shown} | {what} | {HERE.get(name, '')} |\n"


def levels() -> Mapping[ReplyCode, frozenset[str]]:
    """Return the levels at which the code uses each reply code."""
    found: dict[ReplyCode, set[str]] = defaultdict(set)
    for code in REPLY_CODES.values():
        found[code].add("channel")
    for path in sorted(CODE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in LEVELS:
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                for code in filter(None, map(_reply_code, given)):
                    found[code].add(LEVELS[call.func.id])
    return {code: frozenset(names) for code, names in found.items()}


def _reply_code(node: ast.expr) -> ReplyCode | None:
    match node:
        case ast.Attribute(value=ast.Name(id="ReplyCode"), attr=name):
            return ReplyCode[name]
    return None


def reply_codes() -> Iterator[str]:
    """Yield the table of the codes that the broker sends, and a sentence with the other codes."""
    yield "| code | name | closes | when |\n|---|---|---|---|\n"
    used = levels()
    for code in ReplyCode:
        if code in used:
            level = ", ".join(sorted(used[code])).replace("basic.return", "nothing: it comes with basic.return")
            yield f"| {code.value} | `{code.name}` | {level} | {WHEN_SENT[code.name]} |\n"
    unused = ", ".join(f"{code.value} `{code.name}`" for code in ReplyCode if code not in used)
    yield f"\nNever sent: {unused}.\n"


def engine_errors() -> Iterator[str]:
    """Yield the table of the engine's errors."""
    yield "| error of the engine | closes the channel with | meaning |\n|---|---|---|\n"
    for error, code in REPLY_CODES.items():
        yield f"| `{error.__name__}` | {code.value} `{code.name}` | {' '.join((error.__doc__ or '').split())} |\n"


def capabilities() -> str:
    """Return the list of the capabilities in connection.start."""
    return "".join(f"- `{name}`\n" for name in CAPABILITIES)

"""Operations on the connections of clients, their sessions and their links: hold, bound and close them, see frames.

What was ordered about a link is gone with the link.
"""

from core.control_plane import BrokerControl
from core.errors import NotFound
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Shape, operation, quoted
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink

LINK_CREDIT_MAX = 2**32 - 1
"""Link credit is a uint [2.7.4]."""
CLOSED_BY_OPERATOR = "closed by the operator"
REASON_CHARACTERS_MAX = 100
"""With it a close frame fits into 512 bytes, whatever the characters [2.4.1]."""

LINK = Parameter("link", "The link's identity, for example c17/0/1.", in_path=True)
SESSION = Parameter("session", "The session's identity, for example c17/0.", in_path=True)
CONNECTION = Parameter("connection", "The connection's identity, for example c17.", in_path=True)
REASON = Parameter(
    "reason",
    "The reason that the broker sends to the client.",
    default=CLOSED_BY_OPERATOR,
    characters_max=REASON_CHARACTERS_MAX,
    cut=True,
)
MAX = Parameter(
    "max",
    "The most link credit that a publisher gets, or the most messages that a consumer holds unsettled.",
    "number",
    required=True,
    low=1,
    high=LINK_CREDIT_MAX,
    remedy="; to stop a link, pause it",
)
AFTER = Parameter("after", "The number of the first frame to show.", "number", default=0)
FRAMES = Shape(
    "map",
    (
        AnswerField("protocol", "text", "The protocol of the connection."),
        AnswerField(
            "frames", "list", "Lists of number, time, true for what the broker sent, size, and the frame's beginning."
        ),
        AnswerField("next", "number", "The value of ``after`` for the frames that follow."),
        AnswerField("more", "flag", "Whether some of those are there already."),
        AnswerField("missed", "number", "How many frames had to be dropped before these."),
        AnswerField("open", "flag", "Whether the connection is open."),
    ),
)


def _ordered(control: BrokerControl, order: Order) -> Reply:
    control.serving.order(order)
    return DONE


def reason(arguments: Arguments) -> str:
    """Return why a connection, session or link is closed: what the operator gave, otherwise that an operator did it."""
    return arguments.text("reason") or CLOSED_BY_OPERATOR


@operation("links.pause", "PUT", "/links/{link}/pause", LINK, example={"link": "c1/0/0"})
def pause(control: BrokerControl, arguments: Arguments) -> Reply:
    """Pause a link: its publisher loses its link credit, its consumer gets no messages."""
    return _ordered(control, PauseLink(arguments.text("link")))


@operation("links.resume", "DELETE", "/links/{link}/pause", LINK, example={"link": "c1/0/0"})
def resume(control: BrokerControl, arguments: Arguments) -> Reply:
    """End the pause of a link; it is no error when the link is not paused."""
    return _ordered(control, ResumeLink(arguments.text("link")))


@operation("links.set-credit", "PUT", "/links/{link}/credit", LINK, MAX, example={"link": "c1/0/0", "max": 10})
def set_credit(control: BrokerControl, arguments: Arguments) -> Reply:
    """Limit the link credit of a publisher, or the messages that a consumer may hold unsettled."""
    return _ordered(control, BoundLink(arguments.text("link"), arguments.number("max")))


@operation("links.reset-credit", "DELETE", "/links/{link}/credit", LINK, example={"link": "c1/0/0"})
def reset_credit(control: BrokerControl, arguments: Arguments) -> Reply:
    """Let the configuration and the policies alone limit a link again."""
    return _ordered(control, BoundLink(arguments.text("link"), None))


@operation("links.close", "DELETE", "/links/{link}", LINK, REASON, example={"link": "c1/0/0", "reason": "it is stuck"})
def close_link(control: BrokerControl, arguments: Arguments) -> Reply:
    """Detach a link."""
    return _ordered(control, CloseLink(arguments.text("link"), reason(arguments)))


@operation("sessions.close", "DELETE", "/sessions/{session}", SESSION, REASON, example={"session": "c1/0"})
def close_session(control: BrokerControl, arguments: Arguments) -> Reply:
    """End a session with all its links."""
    return _ordered(control, CloseSession(arguments.text("session"), reason(arguments)))


@operation(
    "connections.close",
    "DELETE",
    "/connections/{connection}",
    *(CONNECTION, REASON),
    example={"connection": "c1", "reason": "moving to another machine"},
)
def close_connection(control: BrokerControl, arguments: Arguments) -> Reply:
    """Close a connection."""
    connection = arguments.text("connection")
    if not control.serving.close_connection(connection, reason(arguments)):
        raise NotFound(f"there is no connection {quoted(connection)}")
    return DONE


@operation("frames.begin", "PUT", "/connections/{connection}/frames", CONNECTION, example={"connection": "c1"})
def begin_frames(control: BrokerControl, arguments: Arguments) -> Reply:
    """Begin to record the frames of a connection; that ends when no client has read them for ten seconds."""
    control.serving.trace_frames(arguments.text("connection"), wanted=True)
    return DONE


@operation(
    "frames.show",
    "GET",
    "/connections/{connection}/frames",
    *(CONNECTION, AFTER),
    answer=FRAMES,
    example={"connection": "c1"},
    gives={"missed": 0, "open": True},
)
def show_frames(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the recorded frames of a connection, without messages and without secrets."""
    return Reply(200, control.serving.traced_frames(arguments.text("connection"), arguments.number("after")))


@operation("frames.end", "DELETE", "/connections/{connection}/frames", CONNECTION, example={"connection": "c1"})
def end_frames(control: BrokerControl, arguments: Arguments) -> Reply:
    """End the record of a connection's frames."""
    control.serving.trace_frames(arguments.text("connection"), wanted=False)
    return DONE


OPERATIONS = (
    *(pause, resume, set_credit, reset_credit, close_link, close_session, close_connection),
    *(begin_frames, show_frames, end_frames),
)

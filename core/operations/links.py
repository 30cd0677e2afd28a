"""Operations on the connections of clients, their sessions and their links: hold, bound and close them, see frames.

What was ordered about a link is gone with the link.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import NotFound
from core.operations.operation import (
    DONE,
    Answer,
    Arguments,
    Example,
    Field,
    Handler,
    Operation,
    Parameter,
    Right,
    Shape,
    quoted,
)
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink

if TYPE_CHECKING:
    from core.control_plane import BrokerControl

LINK_CREDIT_MAX = 2**32 - 1
"""Link credit is a uint [2.7.4]."""
CLOSED_BY_OPERATOR = "closed by the operator"
REASON_CHARACTERS_MAX = 100
"""With it a close frame fits into 512 bytes, whatever the characters [2.4.1]."""

LINK = Parameter(name="link", sentence="The link's identity, for example c17/0/1.", in_path=True)
SESSION = Parameter(name="session", sentence="The session's identity, for example c17/0.", in_path=True)
CONNECTION = Parameter(name="connection", sentence="The connection's identity, for example c17.", in_path=True)
REASON = Parameter(
    name="reason",
    sentence="What its client is told.",
    default=CLOSED_BY_OPERATOR,
    characters_max=REASON_CHARACTERS_MAX,
    cut=True,
)


def _ordered(order: Callable[[Arguments], Order]) -> Handler:
    """Make a handler that has a link or a session carry out an order."""

    def handler(control: "BrokerControl", arguments: Arguments) -> Answer:
        control.serving.order(order(arguments))
        return DONE

    return handler


def _reason(arguments: Arguments) -> str:
    return arguments.text("reason") or CLOSED_BY_OPERATOR


def close_connection(control: "BrokerControl", arguments: Arguments) -> Answer:
    """Close a connection, and tell its client the reason. Raises NotFound."""
    if not control.serving.close_connection(arguments.text("connection"), _reason(arguments)):
        raise NotFound(f"there is no connection {quoted(arguments.text('connection'))}")
    return DONE


def _trace_frames(*, wanted: bool) -> Handler:
    def handler(control: "BrokerControl", arguments: Arguments) -> Answer:
        control.serving.trace_frames(arguments.text("connection"), wanted=wanted)
        return DONE

    return handler


def _traced_frames(control: "BrokerControl", arguments: Arguments) -> Answer:
    return Answer(200, control.serving.traced_frames(arguments.text("connection"), arguments.number("after")))


OPERATIONS = (
    Operation(
        name="links.pause",
        method="PUT",
        path="/links/{link}/pause",
        summary="Pause a link: its publisher loses its link credit, its consumer gets no messages.",
        handler=_ordered(lambda arguments: PauseLink(arguments.text("link"))),
        right=Right.OPERATE,
        parameters=(LINK,),
        example=Example(parameters={"link": "c1/0/0"}),
    ),
    Operation(
        name="links.resume",
        method="DELETE",
        path="/links/{link}/pause",
        summary="End the pause of a link; it is no error when the link is not paused.",
        handler=_ordered(lambda arguments: ResumeLink(arguments.text("link"))),
        right=Right.OPERATE,
        parameters=(LINK,),
        example=Example(parameters={"link": "c1/0/0"}),
    ),
    Operation(
        name="links.set-credit",
        method="PUT",
        path="/links/{link}/credit",
        summary="Limit the link credit of a publisher; link credit above the limit is taken back.",
        handler=_ordered(lambda arguments: BoundLink(arguments.text("link"), arguments.number("max"))),
        right=Right.OPERATE,
        parameters=(
            LINK,
            Parameter(
                name="max",
                sentence="The most link credit that the publisher gets.",
                kind="number",
                required=True,
                low=1,
                high=LINK_CREDIT_MAX,
                remedy="; to stop a link, pause it",
            ),
        ),
        example=Example(parameters={"link": "c1/0/0", "max": 10}),
    ),
    Operation(
        name="links.reset-credit",
        method="DELETE",
        path="/links/{link}/credit",
        summary="Give a publisher the link credit that the configuration and the policies say.",
        handler=_ordered(lambda arguments: BoundLink(arguments.text("link"), None)),
        right=Right.OPERATE,
        parameters=(LINK,),
        example=Example(parameters={"link": "c1/0/0"}),
    ),
    Operation(
        name="links.close",
        method="DELETE",
        path="/links/{link}",
        summary="Detach a link.",
        handler=_ordered(lambda arguments: CloseLink(arguments.text("link"), _reason(arguments))),
        right=Right.OPERATE,
        parameters=(LINK, REASON),
        example=Example(parameters={"link": "c1/0/0", "reason": "this consumer is stuck"}),
    ),
    Operation(
        name="sessions.close",
        method="DELETE",
        path="/sessions/{session}",
        summary="End a session with all its links.",
        handler=_ordered(lambda arguments: CloseSession(arguments.text("session"), _reason(arguments))),
        right=Right.OPERATE,
        parameters=(SESSION, REASON),
        example=Example(parameters={"session": "c1/0"}),
    ),
    Operation(
        name="connections.close",
        method="DELETE",
        path="/connections/{connection}",
        summary="Close a connection.",
        handler=close_connection,
        right=Right.OPERATE,
        parameters=(CONNECTION, REASON),
        example=Example(parameters={"connection": "c1", "reason": "moving to another machine"}),
    ),
    Operation(
        name="frames.begin",
        method="PUT",
        path="/connections/{connection}/frames",
        summary="Begin to record the frames of a connection; that ends when no client has read them for ten seconds.",
        handler=_trace_frames(wanted=True),
        right=Right.OPERATE,
        parameters=(CONNECTION,),
        example=Example(parameters={"connection": "c1"}),
    ),
    Operation(
        name="frames.show",
        method="GET",
        path="/connections/{connection}/frames",
        summary="Show the recorded frames of a connection, without messages and without secrets.",
        handler=_traced_frames,
        right=Right.MONITOR,
        parameters=(
            CONNECTION,
            Parameter(name="after", sentence="The number of the first frame to show.", kind="number", default=0),
        ),
        answer=Shape(
            "map",
            (
                Field("protocol", "text", "The protocol of the connection."),
                Field(
                    "frames",
                    "list",
                    "Lists of number, wall-clock time, true for what the broker sent, size, and the frame's beginning.",
                ),
                Field("next", "number", "The value of ``after`` for the frames that follow."),
                Field("more", "flag", "Whether some of those are there already."),
                Field("missed", "number", "How many frames had to be dropped before these."),
                Field("open", "flag", "Whether the connection is open."),
            ),
        ),
        example=Example(parameters={"connection": "c1"}, answer={"missed": 0, "open": True}),
    ),
    Operation(
        name="frames.end",
        method="DELETE",
        path="/connections/{connection}/frames",
        summary="End the record of a connection's frames.",
        handler=_trace_frames(wanted=False),
        right=Right.OPERATE,
        parameters=(CONNECTION,),
        example=Example(parameters={"connection": "c1"}),
    ),
)

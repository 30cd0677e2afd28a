"""The life cycles of connection, session and link, as tables: state and input give the next state.

Three state machines run in every connection, one inside the other. The inputs of each are its own two performatives, in
both directions, and a fault. A fault means that the peer broke a rule and that we have sent a closing performative with
an error. Frames that still arrive are then ignored until the peer has answered.

- Connection [2.4.6]. Protocol headers and SASL come before and are not in the table.
- Session [2.5.5]. DISCARDING is the state after a fault: transfers and flows that were in flight are ignored.
- Link [2.6.4]. The specification has no names for its states; these follow the session's. In DETACH_SENT, transfers
  that were in flight still count in the session window and are dropped.

A pair that is not in a table is the peer's mistake when it comes from the peer, and a bug when it comes from us. The
diagrams in docs/protocol/lifecycles.md are generated from these tables.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar


class ConnectionState(Enum):
    START = "START"
    OPEN_SENT = "OPEN_SENT"
    OPEN_RCVD = "OPEN_RCVD"
    OPENED = "OPENED"
    CLOSE_SENT = "CLOSE_SENT"
    CLOSE_RCVD = "CLOSE_RCVD"
    DISCARDING = "DISCARDING"
    END = "END"


class SessionState(Enum):
    UNMAPPED = "UNMAPPED"
    BEGIN_SENT = "BEGIN_SENT"
    BEGIN_RCVD = "BEGIN_RCVD"
    MAPPED = "MAPPED"
    END_SENT = "END_SENT"
    END_RCVD = "END_RCVD"
    DISCARDING = "DISCARDING"
    ENDED = "ENDED"


class LinkState(Enum):
    DETACHED = "DETACHED"
    ATTACH_SENT = "ATTACH_SENT"
    ATTACH_RCVD = "ATTACH_RCVD"
    ATTACHED = "ATTACHED"
    DETACH_SENT = "DETACH_SENT"
    DETACH_RCVD = "DETACH_RCVD"
    GONE = "GONE"


class Input(Enum):
    """The opening performative (open, begin, attach) and the closing one (close, end, detach), sent or received; a
    fault."""

    OPENING_SENT = "opening sent"
    OPENING_RECEIVED = "opening received"
    CLOSING_SENT = "closing sent"
    CLOSING_RECEIVED = "closing received"
    FAULT = "fault (closing with an error sent)"


State = TypeVar("State", ConnectionState, SessionState, LinkState)
Table = Mapping[State, Mapping[Input, State]]

CONNECTION: Table[ConnectionState] = {
    ConnectionState.START: {
        Input.OPENING_SENT: ConnectionState.OPEN_SENT,
        Input.OPENING_RECEIVED: ConnectionState.OPEN_RCVD,
    },
    ConnectionState.OPEN_SENT: {
        Input.OPENING_RECEIVED: ConnectionState.OPENED,
        Input.CLOSING_SENT: ConnectionState.CLOSE_SENT,
        Input.CLOSING_RECEIVED: ConnectionState.CLOSE_RCVD,
        Input.FAULT: ConnectionState.DISCARDING,
    },
    ConnectionState.OPEN_RCVD: {
        Input.OPENING_SENT: ConnectionState.OPENED,
        Input.CLOSING_RECEIVED: ConnectionState.CLOSE_RCVD,
    },
    ConnectionState.OPENED: {
        Input.CLOSING_SENT: ConnectionState.CLOSE_SENT,
        Input.CLOSING_RECEIVED: ConnectionState.CLOSE_RCVD,
        Input.FAULT: ConnectionState.DISCARDING,
    },
    ConnectionState.CLOSE_SENT: {
        Input.OPENING_RECEIVED: ConnectionState.CLOSE_SENT,
        Input.CLOSING_RECEIVED: ConnectionState.END,
    },
    ConnectionState.CLOSE_RCVD: {
        Input.OPENING_SENT: ConnectionState.CLOSE_RCVD,
        Input.CLOSING_SENT: ConnectionState.END,
        Input.FAULT: ConnectionState.END,
    },
    ConnectionState.DISCARDING: {
        Input.OPENING_RECEIVED: ConnectionState.DISCARDING,
        Input.CLOSING_RECEIVED: ConnectionState.END,
    },
    ConnectionState.END: {},
}

SESSION: Table[SessionState] = {
    SessionState.UNMAPPED: {
        Input.OPENING_SENT: SessionState.BEGIN_SENT,
        Input.OPENING_RECEIVED: SessionState.BEGIN_RCVD,
    },
    SessionState.BEGIN_SENT: {
        Input.OPENING_RECEIVED: SessionState.MAPPED,
        Input.CLOSING_SENT: SessionState.END_SENT,
        Input.CLOSING_RECEIVED: SessionState.END_RCVD,
        Input.FAULT: SessionState.DISCARDING,
    },
    SessionState.BEGIN_RCVD: {
        Input.OPENING_SENT: SessionState.MAPPED,
        Input.CLOSING_RECEIVED: SessionState.END_RCVD,
    },
    SessionState.MAPPED: {
        Input.CLOSING_SENT: SessionState.END_SENT,
        Input.CLOSING_RECEIVED: SessionState.END_RCVD,
        Input.FAULT: SessionState.DISCARDING,
    },
    SessionState.END_SENT: {
        Input.OPENING_RECEIVED: SessionState.END_SENT,
        Input.CLOSING_RECEIVED: SessionState.ENDED,
    },
    SessionState.END_RCVD: {
        Input.OPENING_SENT: SessionState.END_RCVD,
        Input.CLOSING_SENT: SessionState.ENDED,
        Input.FAULT: SessionState.ENDED,
    },
    SessionState.DISCARDING: {
        Input.OPENING_RECEIVED: SessionState.DISCARDING,
        Input.CLOSING_RECEIVED: SessionState.ENDED,
    },
    SessionState.ENDED: {},
}

LINK: Table[LinkState] = {
    LinkState.DETACHED: {
        Input.OPENING_SENT: LinkState.ATTACH_SENT,
        Input.OPENING_RECEIVED: LinkState.ATTACH_RCVD,
    },
    LinkState.ATTACH_SENT: {
        Input.OPENING_RECEIVED: LinkState.ATTACHED,
        Input.CLOSING_SENT: LinkState.DETACH_SENT,
        Input.FAULT: LinkState.DETACH_SENT,
    },
    LinkState.ATTACH_RCVD: {
        Input.OPENING_SENT: LinkState.ATTACHED,
        Input.CLOSING_RECEIVED: LinkState.DETACH_RCVD,
    },
    LinkState.ATTACHED: {
        Input.CLOSING_SENT: LinkState.DETACH_SENT,
        Input.CLOSING_RECEIVED: LinkState.DETACH_RCVD,
        Input.FAULT: LinkState.DETACH_SENT,
    },
    LinkState.DETACH_SENT: {
        Input.OPENING_RECEIVED: LinkState.DETACH_SENT,
        Input.CLOSING_RECEIVED: LinkState.GONE,
    },
    LinkState.DETACH_RCVD: {
        Input.OPENING_SENT: LinkState.DETACH_RCVD,
        Input.CLOSING_SENT: LinkState.GONE,
        Input.FAULT: LinkState.GONE,
    },
    LinkState.GONE: {},
}


class IllegalTransition(Exception):
    """An input that the table does not have for this state. The caller knows whether the peer or we made the
    mistake."""


def step(table: Table[State], state: State, happened: Input) -> State:
    """The state after an input. Raises IllegalTransition for a pair that is not in the table."""
    following = table[state].get(happened)
    if following is None:
        raise IllegalTransition(f"{happened.value} in state {state.value}")
    return following

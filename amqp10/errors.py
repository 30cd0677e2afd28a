"""Errors of AMQP 1.0: the conditions of the specification and the exceptions that carry them.

A fault is a mistake of the peer. Its class is its scope, and the scope decides the performative that reports it: close
for :class:`ConnectionFault`, end for :class:`SessionFault`, detach for :class:`LinkFault`. The codec does not know in
whose scope it works, so :class:`DecodeError` and :class:`EncodeError` have none; the caller of the codec turns them
into faults.

Descriptions go to the peer and into logs, so the bytes of a peer that they quote are cut: see :func:`quote`.
"""

from collections.abc import Mapping
from enum import StrEnum


class ErrorCondition(StrEnum):
    """Every error condition of the specification [2.8.15, 2.8.16, 2.8.17, 2.8.18]; each is the symbol on the wire."""

    INTERNAL_ERROR = "amqp:internal-error"
    NOT_FOUND = "amqp:not-found"
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
    DECODE_ERROR = "amqp:decode-error"
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
    NOT_ALLOWED = "amqp:not-allowed"
    INVALID_FIELD = "amqp:invalid-field"
    NOT_IMPLEMENTED = "amqp:not-implemented"
    RESOURCE_LOCKED = "amqp:resource-locked"
    PRECONDITION_FAILED = "amqp:precondition-failed"
    RESOURCE_DELETED = "amqp:resource-deleted"
    ILLEGAL_STATE = "amqp:illegal-state"
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"

    CONNECTION_FORCED = "amqp:connection:forced"
    FRAMING_ERROR = "amqp:connection:framing-error"
    CONNECTION_REDIRECT = "amqp:connection:redirect"

    WINDOW_VIOLATION = "amqp:session:window-violation"
    ERRANT_LINK = "amqp:session:errant-link"
    HANDLE_IN_USE = "amqp:session:handle-in-use"
    UNATTACHED_HANDLE = "amqp:session:unattached-handle"

    DETACH_FORCED = "amqp:link:detach-forced"
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
    LINK_REDIRECT = "amqp:link:redirect"
    STOLEN = "amqp:link:stolen"


class AmqpError(Exception):
    """A peer broke a rule or asked for something impossible. The subclass says what ends because of it.

    ``condition`` is a symbol, from :class:`ErrorCondition` unless an extension defines its own. ``info`` becomes the
    error's info map [2.8.14], its values as the codec encodes them.
    """

    def __init__(self, condition: str, description: str, info: Mapping[str, object] | None = None) -> None:
        super().__init__(condition, description, info)
        self.condition = condition
        self.description = description
        self.info = info

    def __str__(self) -> str:
        return f"{self.condition}: {self.description}"


class ConnectionFault(AmqpError):
    """Ends the connection: answered by a close [2.4.3]."""


class SessionFault(AmqpError):
    """Ends one session: answered by an end [2.5.5]."""


class LinkFault(AmqpError):
    """Ends one link: answered by a detach [2.6.5]."""


class DecodeError(Exception):
    """Bytes that do not decode to what is expected.

    ``condition`` is amqp:decode-error for bytes that are no valid encoding. It is amqp:invalid-field for a field that
    is encoded well but missing, of the wrong type, or of a value that the specification forbids.
    """

    def __init__(self, description: str, condition: str = ErrorCondition.DECODE_ERROR) -> None:
        super().__init__(description, condition)
        self.description = description
        self.condition = condition

    def __str__(self) -> str:
        return self.description


class EncodeError(Exception):
    """A value that has no encoding: a mistake of our own caller, never of a peer."""


DESCRIPTION_BYTES_MAX = 400
"""The longest description in bytes. Every peer takes frames of 512 bytes [2.4.1]; frame header, performative, handle,
condition and the constructors of all of them stay under 110."""


def cut(description: str) -> str:
    """An error's text, cut so that a frame with it fits every peer."""
    encoded = description.encode(errors="replace")
    if len(encoded) <= DESCRIPTION_BYTES_MAX:
        return description
    return encoded[: DESCRIPTION_BYTES_MAX - 3].decode(errors="ignore") + "…"


QUOTED_CHARACTERS_MAX = 48
"""Enough to recognise a name or an address in a log line, too little to flood it."""


def quote(value: object) -> str:
    """A value that a peer sent, ready for an error text: escaped, and cut to a bounded length."""
    if isinstance(value, (str, bytes)):
        shown = repr(value[:QUOTED_CHARACTERS_MAX])
        return f"{shown}… ({len(value)} long)" if len(value) > QUOTED_CHARACTERS_MAX else shown
    if isinstance(value, (bool, int, float)) or value is None:
        return repr(value)
    return f"a value of type {type(value).__name__}"

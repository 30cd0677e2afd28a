"""Errors of AMQP 0.9.1: the reply codes and the exceptions that carry them.

A fault is the peer's. Its class is its scope: a :class:`ChannelFault` is answered by channel.close, a
:class:`Amqp091ConnectionFault` by connection.close. The specification says which code has which scope [0-9-1 1.2].
While the connection is being opened, a soft code closes the whole connection; the caller sees to that.

Reply texts go to the peer and into logs, so peers' bytes in them are cut (:func:`quote`), and so are the texts.
"""

from enum import IntEnum


class ReplyCode(IntEnum):
    """Every reply code of the specification [0-9-1 1.2]."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    """Only in basic.return. An extension, as the specification has no code for mandatory."""
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


class ProtocolError(Exception):
    """A peer broke a rule or asked for something impossible; the subclass says whether the channel or the connection
    ends.

    ``class_id`` and ``method_id`` name the method at fault, 0 and 0 where there is none.
    """

    def __init__(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text, class_id, method_id)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    def __str__(self) -> str:
        return f"{self.code.name} - {self.text}"

    @property
    def reply_text(self) -> str:
        """The ``reply_text`` of the close method: the code's name and the text, as RabbitMQ writes them, cut to fit."""
        return cut(str(self))


class ChannelFault(ProtocolError):
    """Ends one channel: answered by channel.close."""


class Amqp091ConnectionFault(ProtocolError):
    """Ends the connection: answered by connection.close."""


class Amqp091EncodeError(Exception):
    """A value that has no encoding: a mistake of our own code, never a peer's."""


SHORT_STRING_BYTES_MAX = 255
"""The length of a short string is one octet [0-9-1 4.2.5.3]."""


def cut(text: str) -> str:
    """Cut a text so that it fits a short string."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= SHORT_STRING_BYTES_MAX:
        return encoded.decode()
    return encoded[: SHORT_STRING_BYTES_MAX - 3].decode(errors="ignore") + "…"


QUOTED_CHARACTERS_MAX = 48
"""Enough to recognise a name in a log line; four such quotes fit a reply text."""


def quote(value: str | bytes) -> str:
    """A peer's text or bytes for an error text: escaped, and cut to a bounded length."""
    shown = repr(value[:QUOTED_CHARACTERS_MAX])
    return f"{shown}… ({len(value)} long)" if len(value) > QUOTED_CHARACTERS_MAX else shown

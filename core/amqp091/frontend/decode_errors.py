"""Input of AMQP 0.9.1 that cannot be decoded, as metrics count it."""

from collections.abc import Mapping

from core.amqp091.connection import Amqp091Connection
from core.amqp091.errors import ReplyCode
from core.amqp091.events import Amqp091ConnectionClosed
from core.counters.flow_totals import FlowTotals

DECODE_ERRORS: Mapping[int, str] = {
    ReplyCode.FRAME_ERROR: "frame-error",
    ReplyCode.SYNTAX_ERROR: "syntax-error",
    ReplyCode.UNEXPECTED_FRAME: "unexpected-frame",
}
"""Reply codes for such input, and their names in metrics."""


def count_decode_error(event: Amqp091ConnectionClosed, connection: Amqp091Connection, totals: FlowTotals) -> None:
    """Count the end of a connection, if the broker has ended it because of such input."""
    condition = None if event.by_peer else DECODE_ERRORS.get(event.reply_code)
    if condition is not None:
        totals.decode_errors["open" if connection.identity else "pre_auth", condition] += 1

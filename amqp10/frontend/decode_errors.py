"""What peers send and nobody understands, counted: a client with a bug, a fuzzer, or another protocol on the port."""

from collections.abc import Mapping

from amqp10.connection import Connection
from amqp10.errors import ErrorCondition, LinkFault
from amqp10.events import ConnectionClosed
from core.server.flow_totals import FlowTotals

COUNTED: Mapping[str, str] = {
    ErrorCondition.DECODE_ERROR: "decode-error",
    ErrorCondition.FRAMING_ERROR: "framing-error",
    ErrorCondition.INVALID_FIELD: "invalid-field",
    ErrorCondition.NOT_IMPLEMENTED: "not-implemented",
}
"""The conditions that say so, and how metrics call them."""


def connection_closed(event: ConnectionClosed, connection: Connection, totals: FlowTotals) -> None:
    """A connection is over."""
    condition = None if event.by_peer or event.error is None else COUNTED.get(event.error.condition)
    if condition is None:
        return
    if not connection.handshake.complete:
        stage = "pre_auth"
    else:
        stage = "pre_open" if connection.remote is None else "open"
    totals.decode_errors[stage, condition] += 1


def message_refused(fault: LinkFault, totals: FlowTotals) -> None:
    """A message has ended its link."""
    if fault.condition == ErrorCondition.DECODE_ERROR:
        totals.decode_errors["message", COUNTED[ErrorCondition.DECODE_ERROR]] += 1

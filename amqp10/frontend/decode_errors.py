"""Counts input that cannot be understood: from a client with a bug, a fuzzer, or another protocol on the port."""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import ConnectionClosed
from core.counters.flow_totals import FlowTotals

COUNTED: Mapping[str, str] = {
    ErrorCondition.DECODE_ERROR: "decode-error",
    ErrorCondition.FRAMING_ERROR: "framing-error",
    ErrorCondition.INVALID_FIELD: "invalid-field",
    ErrorCondition.NOT_IMPLEMENTED: "not-implemented",
}
"""The conditions of such input, with their names in the metrics."""


def connection_closed(event: ConnectionClosed, connection: Connection, totals: FlowTotals) -> None:
    """Count the error of a connection that is over, if it is one of these."""
    condition = None if event.by_peer or event.error is None else COUNTED.get(event.error.condition)
    if condition is None:
        return
    if not connection.handshake.complete:
        stage = "pre_auth"
    else:
        stage = "pre_open" if connection.remote is None else "open"
    totals.decode_errors[stage, condition] += 1


def message_refused(fault: LinkFault, totals: FlowTotals) -> None:
    """Count a message that could not be decoded and ended its link."""
    if fault.condition == ErrorCondition.DECODE_ERROR:
        totals.decode_errors["message", COUNTED[ErrorCondition.DECODE_ERROR]] += 1

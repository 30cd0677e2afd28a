"""What links and connections that are over add to the totals of the protocol, and the same of a link that is in use.

Link credit: what became of it. Errors: input that cannot be understood, from a client with a bug, a fuzzer, or another
protocol on the port.
"""

from collections.abc import Mapping

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import ConnectionClosed
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link
from core.counters.flow_totals import FlowTotals
from core.interface import Snapshot

COUNTED: Mapping[str, str] = {
    ErrorCondition.DECODE_ERROR: "decode-error",
    ErrorCondition.FRAMING_ERROR: "framing-error",
    ErrorCondition.INVALID_FIELD: "invalid-field",
    ErrorCondition.NOT_IMPLEMENTED: "not-implemented",
}
"""The conditions of such input, with their names in the metrics."""


def balance_row(link: Link) -> Snapshot:
    """The balance of a link that is in use."""
    balance = link.credit.balance
    return {
        "granted": balance.granted,
        "consumed": balance.consumed,
        "drained": balance.drained,
        "withdrawn": balance.withdrawn,
        "unbalanced": int(balance.left != link.credit.room),
    }


def link_gone(link: Link, totals: FlowTotals) -> None:
    """Add the balance of a link that is over to the totals."""
    balance = link.credit.balance
    totals.transfers_over_credit += balance.exceeded
    totals.link_credit["out" if isinstance(link, SenderLink) else "in"].add(
        granted=balance.granted,
        consumed=balance.consumed,
        drained=balance.drained,
        withdrawn=balance.withdrawn,
        left=link.credit.room,
    )


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

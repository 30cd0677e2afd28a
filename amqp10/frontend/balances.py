"""What became of link credit, for each link: in its row while it exists, and in the totals of the protocol
afterwards."""

from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link
from core.counters.flow_totals import FlowTotals
from core.interface import Snapshot


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


def count_gone(link: Link, totals: FlowTotals) -> None:
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

"""What became of link credit, link by link: shown while the link is there, and in the totals of the protocol after."""

from amqp10.sender_link import SenderLink
from amqp10.session import Link
from core.interface import Snapshot
from core.server.flow_totals import FlowTotals


def balance_row(link: Link) -> Snapshot:
    """Of a link that is in use."""
    balance = link.credit.balance
    return {
        "granted": balance.granted,
        "consumed": balance.consumed,
        "drained": balance.drained,
        "withdrawn": balance.withdrawn,
        "unbalanced": int(balance.left != link.credit.room),
    }


def count_gone(link: Link, totals: FlowTotals) -> None:
    """The link is over, and will not be shown any more."""
    balance = link.credit.balance
    totals.transfers_over_credit += balance.exceeded
    totals.link_credit["out" if isinstance(link, SenderLink) else "in"].add(
        granted=balance.granted,
        consumed=balance.consumed,
        drained=balance.drained,
        withdrawn=balance.withdrawn,
        left=link.credit.room,
    )

"""Requests about running links and sessions under ``/headgate``: hold them, bound their link credit, close them.

=================================================  ========================================================
request                                            answer
=================================================  ========================================================
``PUT /headgate/links/:identity/pause``            204: nothing comes or goes on this link from now on
``DELETE /headgate/links/:identity/pause``         204: it goes on; also when it was not paused
``PUT /headgate/links/:identity/credit?max=``      204: this publisher gets so much link credit at most
``DELETE /headgate/links/:identity/credit``        204: it gets what the configuration and its policy say
``DELETE /headgate/links/:identity``               204: the link is being detached; ``?reason=`` is what its
                                                   client is told
``DELETE /headgate/sessions/:identity``            204: the session is being ended; the same
=================================================  ========================================================

All say 404 for what does not exist, and 400 for links that what is asked makes no sense for. What was ordered is
gone with the link.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp10.errors import quote
from amqp10.management.message import Operation, RequestRefusal, Response
from amqp10.wire.serial import MASK
from core.server.orders import BoundLink, CloseLink, CloseSession, Order, PauseLink, ResumeLink

if TYPE_CHECKING:  # front ends must not load the server
    from core.control_plane import BrokerControl


def close_operation(control: "BrokerControl", kind: str, identity: str, reason: str) -> Operation:
    """End one of the ``links`` or ``sessions``."""
    order = CloseLink(identity, reason) if kind == "links" else CloseSession(identity, reason)
    return lambda: _ordered(control, order)


def link_operations(
    control: "BrokerControl", identity: str, what: str, query: Mapping[str, str]
) -> Mapping[str, Operation]:
    """What can be done to a link that stays, by method; nothing where there is no such resource."""
    match what:
        case "pause":
            return {
                "PUT": lambda: _ordered(control, PauseLink(identity)),
                "DELETE": lambda: _ordered(control, ResumeLink(identity)),
            }
        case "credit":
            return {
                "PUT": lambda: _ordered(control, BoundLink(identity, _link_credit(query))),
                "DELETE": lambda: _ordered(control, BoundLink(identity, None)),
            }
    return {}


def _ordered(control: "BrokerControl", order: Order) -> Response:
    control.order(order)
    return Response(204)


def _link_credit(query: Mapping[str, str]) -> int:
    text = query.get("max", "")
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MASK)) and 1 <= int(text) <= MASK):
        raise RequestRefusal(400, f"max is {quote(text)}; it must be 1 to {MASK}. To stop a link, pause it")
    return int(text)

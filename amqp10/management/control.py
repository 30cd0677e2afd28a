"""Requests under ``/headgate`` on the management node: what the broker shows, and what an operator may do.

=================================================  ========================================================
request                                            answer
=================================================  ========================================================
``GET /headgate/status``                           200 and a map: the broker as a whole
``GET /headgate/:kind``                            200 and a page: a map of ``items``, a list of snapshots
                                                   in the order of their identities, and ``next``
``GET /headgate/:kind/:identity``                  200 and the snapshot of this one, 404 if there is none
``GET /headgate/:kind/:identity/why``              200 and a map: what holds it up, see :mod:`core.observe.why`;
                                                   kinds ``connections``, ``links`` and ``addresses``, the last a
                                                   queue's name or its address
``GET /headgate/memory``                           200 and the memory alarm's snapshot, with its figures
``PUT /headgate/memory?watermark=``                200 and the same: another watermark, until the next start
``GET /headgate/disk``                             200 and the disk alarm's snapshot, with its figures
``PUT /headgate/disk?free_limit=``                 200 and the same: another limit, until the next start
``GET /headgate/configuration``                    200 and a text: the settings in force, as a file, without secrets
``GET /headgate/drain``                            200 and a map: whether the broker is being drained, ``since``,
                                                   ``connections``, and ``unsettled`` messages of consumers
``PUT /headgate/drain``, ``DELETE …``              200 and the same: drain it, or serve as usual again
``/headgate/connections/:identity/frames``         see :mod:`amqp10.management.control_frames`
``/headgate/policies/…``                           see :mod:`amqp10.management.control_policies`
``/headgate/queues/:queue/…``                      see :mod:`amqp10.management.control_queues`
``/headgate/links/…``, ``/headgate/sessions/…``    see :mod:`amqp10.management.control_links`
``PUT /headgate/alarms/:identity``                 204: the alarm is raised by hand
``DELETE /headgate/alarms/:identity``              204: what was raised by hand is cleared, if it was
``DELETE /headgate/connections/:identity``         204: the connection is being closed, 404 if there is none;
                                                   ``?reason=`` is what its client is told
=================================================  ========================================================

Kinds: ``queues exchanges bindings consumers publishers connections sessions links channels stages stalls alarms
policies``. A page has ``?limit=`` snapshots (1 to 1000, 1000 by default), and more only to keep equal ones together.
While ``next`` is not null there are more: repeat it as ``?after=``. Every page shows the broker as it is then: what
comes or goes between two pages may be missed, what stays is not, and nothing is listed twice.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp10.addresses import AddressError, parse_source
from amqp10.errors import quote
from amqp10.management.control_frames import frame_operations
from amqp10.management.control_links import close_operation, link_operations
from amqp10.management.control_policies import policy_operations
from amqp10.management.control_queues import queue_operations
from amqp10.management.message import Operation, RequestRefusal, Response, segment_text
from core.row_walks import page_of, row_of
from core.rows import KINDS, PAGE_MAX, WHY_KINDS
from core.slices import Walk

if TYPE_CHECKING:  # front ends must not load the server
    from core.control_plane import BrokerControl

REASON_CHARACTERS_MAX = 100
"""With it a close frame fits into 512 bytes, whatever the characters [2.4.1]."""
CLOSED_BY_OPERATOR = "closed by the operator"


def control_operations(
    control: "BrokerControl", segments: list[str], query: Mapping[str, str], body: object
) -> Mapping[str, Operation]:
    """What can be done to the resource at these path segments, by method; nothing where there is no resource.

    Raises RequestRefusal for an identity that does not decode.
    """
    match segments:
        case ["status"]:
            return {"GET": lambda: Response(200, control.status())}
        case ["memory"]:
            return {
                "GET": lambda: Response(200, control.memory()),
                "PUT": lambda: _set_memory_watermark(control, _value(query, "watermark")),
            }
        case ["disk"]:
            return {
                "GET": lambda: Response(200, control.disk()),
                "PUT": lambda: _set_disk_free_limit(control, _value(query, "free_limit")),
            }
        case ["configuration"]:
            return {"GET": lambda: Response(200, control.configuration())}
        case ["drain"]:
            return {
                "GET": lambda: Response(200, control.draining()),
                "PUT": lambda: Response(200, control.drain(wanted=True)),
                "DELETE": lambda: Response(200, control.drain(wanted=False)),
            }
        case ["policies", _, *_]:
            return policy_operations(control, segments[1:], query, body)
        case ["queues", segment, what]:
            return queue_operations(control, segment_text(segment), what, query)
        case [kind, segment, "why"] if kind in WHY_KINDS:
            return {"GET": lambda: _why(control, kind, segment_text(segment))}
        case ["connections", segment, "frames"]:
            return frame_operations(control, segment_text(segment), query)
        case ["links", segment, what]:
            return link_operations(control, segment_text(segment), what, query)
        case [kind] if kind in KINDS:
            return {"GET": lambda: _page(control, kind, query)}
        case [kind, segment] if kind in KINDS:
            identity = segment_text(segment)
            operations: dict[str, Operation] = {"GET": lambda: _one(control, kind, identity)}
            if kind == "alarms":
                operations["PUT"] = lambda: _set_alarm(control, identity)
                operations["DELETE"] = lambda: _clear_alarm(control, identity)
            reason = query.get("reason", CLOSED_BY_OPERATOR)[:REASON_CHARACTERS_MAX]
            if kind in ("links", "sessions"):
                operations["DELETE"] = close_operation(control, kind, identity, reason)
            if kind == "connections":
                operations["DELETE"] = lambda: _close_connection(control, identity, reason)
            return operations
    return {}


def _one(control: "BrokerControl", kind: str, identity: str) -> Walk[Response]:
    found = yield from row_of(control, kind, identity)
    if found is None:
        raise RequestRefusal(404, f"there is no {quote(identity)} under /headgate/{kind}")
    return Response(200, found)


def _why(control: "BrokerControl", kind: str, identity: str) -> Walk[Response]:
    answer = yield from control.why(kind, _queue_name(identity) if kind == "addresses" else identity)
    if answer is None:
        raise RequestRefusal(404, f"there is no {quote(identity)} under /headgate/{kind}")
    return Response(200, answer)


def _queue_name(address: str) -> str:
    """The queue that an address names, or that is named without one."""
    try:
        return parse_source(address) if address.startswith("/") else address
    except AddressError as error:
        raise RequestRefusal(400, str(error)) from error


def _page(control: "BrokerControl", kind: str, query: Mapping[str, str]) -> Walk[Response]:
    items, following = yield from page_of(control.rows(kind), after=query.get("after"), limit=_limit(query))
    return Response(200, {"items": items, "next": following})


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(PAGE_MAX))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= PAGE_MAX):
        raise RequestRefusal(400, f"limit is {quote(text)}; it must be 1 to {PAGE_MAX}")
    return int(text)


def _value(query: Mapping[str, str], name: str) -> str:
    if name not in query:
        raise RequestRefusal(400, f"?{name}= is missing")
    return query[name]


def _set_memory_watermark(control: "BrokerControl", text: str) -> Response:
    control.set_memory_watermark(text)
    return Response(200, control.memory())


def _set_disk_free_limit(control: "BrokerControl", text: str) -> Response:
    control.set_disk_free_limit(text)
    return Response(200, control.disk())


def _set_alarm(control: "BrokerControl", name: str) -> Response:
    control.set_alarm(name)
    return Response(204)


def _clear_alarm(control: "BrokerControl", name: str) -> Response:
    control.clear_alarm(name)
    return Response(204)


def _close_connection(control: "BrokerControl", identity: str, reason: str) -> Response:
    if not control.close_connection(identity, reason):
        raise RequestRefusal(404, f"there is no connection {quote(identity)}")
    return Response(204)

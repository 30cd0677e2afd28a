"""Requests about policies under ``/headgate/policies``: what holds for which queues, by patterns of their names.

=================================================  ========================================================
request                                            answer
=================================================  ========================================================
``PUT /headgate/policies/:policy``                 204 made, or changed. The body is a map of ``pattern``,
                                                   ``definition`` (a map) and, unless their defaults 0 and
                                                   ``all`` are meant, ``priority`` and ``apply_to``
``GET /headgate/policies/:policy``                 200 and the policy, 404 if there is none
``DELETE /headgate/policies/:policy``              204, 404 if there is none
``GET /headgate/policies/explain/:queue``          200 and a map: ``policy`` that holds for this queue, what
                                                   each of its ``keys`` does, and ``losers``
=================================================  ========================================================

``?vhost=`` may name the virtual host; there is one, ``/``. Which keys a definition has and what they take, the engine
knows and checks.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp10.errors import quote
from amqp10.management.message import Operation, RequestRefusal, Response, segment_text
from amqp10.wire.types import plain

if TYPE_CHECKING:  # front ends must not load the server
    from core.control_plane import BrokerControl

VIRTUAL_HOST = "/"
_FIELDS = ("pattern", "definition", "priority", "apply_to")


def policy_operations(
    control: "BrokerControl", segments: list[str], query: Mapping[str, str], body: object
) -> Mapping[str, Operation]:
    """What can be done to the resource at these path segments below ``policies``, by method. Raises RequestRefusal."""
    host = query.get("vhost", VIRTUAL_HOST)
    if host != VIRTUAL_HOST:
        raise RequestRefusal(404, f"there is no virtual host {quote(host)}; there is {quote(VIRTUAL_HOST)}")
    match segments:
        case ["explain", segment]:
            queue = segment_text(segment)
            return {"GET": lambda: Response(200, control.explain_policies(queue))}
        case [segment]:
            name = segment_text(segment)
            return {
                "PUT": lambda: _set(control, name, body),
                "GET": lambda: _show(control, name),
                "DELETE": lambda: _clear(control, name),
            }
    return {}


def _set(control: "BrokerControl", name: str, body: object) -> Response:
    fields = plain(body)
    if not isinstance(fields, dict):
        raise RequestRefusal(400, f"the body of a policy must be a map, not {quote(fields)}")
    for field in fields:
        if field not in _FIELDS:
            raise RequestRefusal(400, f"bad policy field {quote(field)}; there are {', '.join(_FIELDS)}")
    control.set_policy(
        name=name,
        pattern=_text(fields, "pattern"),
        priority=_number(fields, "priority", default=0),
        apply_to=_text(fields, "apply_to", default="all"),
        definition=_map(fields, "definition"),
    )
    return Response(204)


def _text(fields: Mapping[object, object], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise RequestRefusal(400, f"policy field {name} must be a string, not {quote(value)}")
    return value


def _number(fields: Mapping[object, object], name: str, default: int) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RequestRefusal(400, f"policy field {name} must be an integer, not {quote(value)}")
    return value


def _map(fields: Mapping[object, object], name: str) -> dict[str, object]:
    value = fields.get(name)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise RequestRefusal(400, f"policy field {name} must be a map with strings as keys, not {quote(value)}")
    return value


def _show(control: "BrokerControl", name: str) -> Response:
    shown = control.policy(name)
    if shown is None:
        raise RequestRefusal(404, f"there is no policy {quote(name)}")
    return Response(200, shown)


def _clear(control: "BrokerControl", name: str) -> Response:
    control.clear_policy(name)
    return Response(204)

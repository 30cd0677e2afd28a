"""Requests about the frames of a connection under ``/headgate/connections/:identity/frames``.

=================================================  ========================================================
request                                            answer
=================================================  ========================================================
``PUT …/frames``                                   204: they are looked at from now on
``GET …/frames?after=``                            200 and a map: ``frames``, a list of lists of number,
                                                   wall-clock time, true for what the broker sent, size, and
                                                   the frame's beginning as binary; ``next`` is where to go on,
                                                   ``more`` that this can be done at once, ``missed`` how many
                                                   had to be dropped before, ``open`` that the connection lives
``DELETE …/frames``                                204: no client looks any more
=================================================  ========================================================

Of a transfer the message is not among its bytes, and of a SASL frame nothing but the header is. Who does not ask for
ten seconds does not look any more.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from amqp10.errors import quote
from amqp10.management.message import Operation, RequestRefusal, Response

if TYPE_CHECKING:  # front ends must not load the server
    from core.control_plane import BrokerControl

NUMBER_DIGITS_MAX = 18
"""What a long of the wire can carry."""


def frame_operations(control: "BrokerControl", identity: str, query: Mapping[str, str]) -> Mapping[str, Operation]:
    """What can be done, by method."""
    return {
        "PUT": lambda: _trace(control, identity, wanted=True),
        "DELETE": lambda: _trace(control, identity, wanted=False),
        "GET": lambda: Response(200, control.traced_frames(identity, _after(query))),
    }


def _trace(control: "BrokerControl", identity: str, *, wanted: bool) -> Response:
    control.trace_frames(identity, wanted=wanted)
    return Response(204)


def _after(query: Mapping[str, str]) -> int:
    text = query.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        raise RequestRefusal(400, f"after is {quote(text)}; it must be the number of a frame")
    return int(text)

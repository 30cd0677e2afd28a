"""Requests about the messages that a consumer holds without being sent them.

============================  ========================================================================================
request                       answer
============================  ========================================================================================
``PUT /queues/:queue/held``   200 what the holder was given: ``ranges``, a list of first and last sequence numbers,
                              ``message_count`` and ``bytes``. The body: ``holder``, and if wanted ``messages`` and
                              ``bytes``, the most of them, and ``through``, the highest sequence number
``POST /queues/:queue/held``  200 ``message_count``: how many were settled. The body: ``holder``, ``outcome``
                              (``accepted``, ``rejected``, ``released`` or ``failed``), ``last`` and, if wanted,
                              ``first``: sequence numbers, both inclusive
============================  ========================================================================================

A released message has been delivered, and a failed one has had one more failed delivery. Both requests need the
permission to read from the queue. There is no holder after its link has ended (404); what it held is ready again.
"""

from collections.abc import Mapping

from amqp10.errors import quote
from amqp10.management.message import BodyFields, RequestRefusal, Response
from amqp10.wire.types import ULong
from core.held import HOLD_BYTES_MAX, HOLD_MESSAGES_MAX, HOLDER_BYTES_MAX, HeldRange, Hold
from core.interface import Disposal, Engine
from core.message import Return
from core.slices import Walk

SEQUENCE_MAX = 2**63 - 1
"""Sequence numbers have 63 bits."""
_HOLD_FIELDS = ("holder", "messages", "bytes", "through")
_SETTLE_FIELDS = ("holder", "outcome", "first", "last")
_OUTCOMES: Mapping[str, Disposal | Return] = {
    "accepted": Disposal.ACCEPTED,
    "rejected": Disposal.REJECTED,
    "released": Return(),
    "failed": Return(delivery_failed=True),
}


def hold(engine: Engine, queue: str, body: object, owner: object) -> Walk[Response]:
    """Give ready messages to a holder. Raises RequestRefusal, EngineError."""
    fields = BodyFields(body, what="hold", names=_HOLD_FIELDS)
    messages = fields.number("messages", low=1, high=HOLD_MESSAGES_MAX, default=HOLD_MESSAGES_MAX)
    size = fields.number("bytes", low=1, high=HOLD_BYTES_MAX, default=HOLD_BYTES_MAX)
    through = fields.number("through", low=0, high=SEQUENCE_MAX)
    assert messages is not None
    assert size is not None
    given = yield from engine.hold(queue, owner, Hold(_holder(fields), messages, size, through))
    ranges = [[ULong(first), ULong(last)] for first, last in given.ranges]
    return Response(200, {"ranges": ranges, "message_count": ULong(given.messages), "bytes": ULong(given.size)})


def settle(engine: Engine, queue: str, body: object, owner: object) -> Walk[Response]:
    """Settle messages that a holder holds. Raises RequestRefusal, EngineError."""
    fields = BodyFields(body, what="settlement", names=_SETTLE_FIELDS)
    outcome = fields.text("outcome")
    if outcome not in _OUTCOMES:
        raise RequestRefusal(400, f"unknown outcome {quote(outcome)}; there are {', '.join(_OUTCOMES)}")
    first = fields.number("first", low=0, high=SEQUENCE_MAX, default=0)
    last = fields.number("last", low=0, high=SEQUENCE_MAX)
    if last is None or first is None:
        raise RequestRefusal(400, "settlement field last is missing")
    which = HeldRange(_holder(fields), first, last)
    settled = yield from engine.settle_held(queue, owner, which, _OUTCOMES[outcome])
    return Response(200, {"message_count": ULong(settled)})


def _holder(fields: BodyFields) -> str:
    holder = fields.text("holder")
    if not 0 < len(holder.encode()) <= HOLDER_BYTES_MAX:
        raise RequestRefusal(400, f"holder must have 1 to {HOLDER_BYTES_MAX} bytes, not {len(holder.encode())}")
    return holder

"""Requests about the messages of a queue under ``/headgate/queues/:queue``: look at them, move them, replay them.

=================================================  ========================================================
request                                            answer
=================================================  ========================================================
``GET …/messages?count=``                          200 and a list of maps: the first messages that are ready,
                                                   10 unless ``count`` says otherwise, 100 at most
``PUT …/move?to=&count=``                          200 and a map: ``move`` is the number of the move that has
                                                   begun. ``to`` is a queue; or ``exchange`` and ``key``.
                                                   Without ``count`` all that are ready now go
``PUT …/replay?count=``                            the same; each message goes to where it died first
=================================================  ========================================================

A move goes on after the answer. What became of it is in the queue's snapshot: ``last_move`` is a map of ``number``,
``moved``, ``done`` and ``failure``, which is empty for a move that went well.
"""

from collections.abc import Mapping

from amqp10.errors import quote
from amqp10.management.message import Operation, RequestRefusal, Response
from core.interface import Control, ExchangeTarget, QueueTarget, Target

PEEKED_DEFAULT = 10
COUNT_DIGITS_MAX = 18
"""What a long of the wire can carry."""


def queue_operations(control: Control, queue: str, what: str, query: Mapping[str, str]) -> Mapping[str, Operation]:
    """What can be done to the messages of a queue, by method; nothing where there is no such resource."""
    match what:
        case "messages":
            return {"GET": lambda: _peek(control, queue, query)}
        case "move":
            return {"PUT": lambda: _begun(control.move_messages(queue, _target(query), _count(query)))}
        case "replay":
            return {"PUT": lambda: _begun(control.replay_messages(queue, _count(query)))}
    return {}


def _peek(control: Control, queue: str, query: Mapping[str, str]) -> Response:
    count = _count(query)
    return Response(200, control.peek_queue(queue, PEEKED_DEFAULT if count is None else count))


def _begun(number: int) -> Response:
    return Response(200, {"move": number})


def _target(query: Mapping[str, str]) -> Target:
    match query.get("to"), query.get("exchange"):
        case str(queue), None:
            return QueueTarget(queue)
        case None, str(exchange):
            return ExchangeTarget(exchange, query.get("key", ""))
    raise RequestRefusal(400, "either ?to= or ?exchange= must say where the messages go")


def _count(query: Mapping[str, str]) -> int | None:
    text = query.get("count")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX):
        raise RequestRefusal(400, f"count is {quote(text)}; it must be a number of messages")
    return int(text)

"""What four operations cost in calls and in files: publishing a message, a delivery, a flow frame, an alarm.

A broker and a client's connection run in this process, with no socket and no storage (:mod:`tests.kit.wire`). While an
operation runs, a profile function sees each call of a Python function. What is counted:

- A call is the beginning of a Python function, or the next step of a generator, whose code is in ``amqp10/`` or
  ``core/`` (:func:`tests.kit.call_trace.traced_calls`). Functions in C, in libraries and in the tests are not counted.
- Files are the different files of these calls. A move is a call whose file differs from that of the call before it.
- The client uses the product's codec to encode its frame and to decode the answer. These calls are counted.

The operations, each on connections of its own:

- publish: the third message that a client sends over one link, to a queue without consumers, up to the disposition
  that accepts it. The first two messages fill what is made once for each link and each shape of message.
- delivery: a consuming link's first flow frame grants link credit 1 at a queue in which one message is ready. It ends
  when the client has the transfer frame.
- flow: such a flow frame that also asks for an echo. The client has encoded the frame beforehand. It ends when the
  client has the transfer and the echoed flow.
- alarm: the memory alarm begins while one connection has a publishing link. It ends when the client has the flow frame
  with incoming-window 0.

Each operation runs twice and the second run counts, because the first one fills caches of the process. List
comprehensions are functions up to Python 3.11 and are not from 3.12 on, so figures compare within one version of
Python only.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.kit.call_trace import traced_calls
from tests.kit.wire import InProcessBroker, WirePeer

ADDRESS = "/queues/q"


class Calls(NamedTuple):
    """The counts of one operation."""

    calls: int
    files: int
    moves: int


def count_operations(root: Path) -> dict[str, Calls]:
    """Count all four operations of the product in this tree."""
    operations = {"publish": _publish, "delivery": _delivery, "flow": _flow, "alarm": _alarm}
    return {name: [_count(root, prepare()) for _ in range(2)][-1] for name, prepare in operations.items()}


def _publish() -> Callable[[], object]:
    _, peer = _connected()
    peer.attach_sender(ADDRESS)
    peer.transfer(b"hello")
    peer.transfer(b"hello")
    return lambda: peer.transfer(b"hello")


def _delivery() -> Callable[[], object]:
    broker, peer = _connected()
    peer.attach_receiver(ADDRESS)
    broker.fill([b"hello"])
    return lambda: peer.grant(1)


def _flow() -> Callable[[], object]:
    broker, peer = _connected()
    peer.attach_receiver(ADDRESS)
    broker.fill([b"hello"])
    frame = _encoded(peer, lambda: peer.grant(1, echo=True))
    return lambda: peer.send_bytes(frame)


def _alarm() -> Callable[[], object]:
    broker, peer = _connected()
    peer.attach_sender(ADDRESS)
    return broker.raise_alarm


def _connected() -> tuple[InProcessBroker, WirePeer]:
    broker = InProcessBroker()
    broker.queue()
    peer = broker.connect()
    peer.begin()
    return broker, peer


def _encoded(peer: WirePeer, send: Callable[[], object]) -> bytes:
    """The bytes that a client would send. They are not sent."""
    made: list[bytes] = []
    peer.send_bytes = made.append  # type: ignore[method-assign]
    try:
        send()
    finally:
        del peer.send_bytes
    return b"".join(made)


def _count(root: Path, operation: Callable[[], object]) -> Calls:
    with traced_calls(root) as calls:
        operation()
    files = [code.co_filename for code in calls]
    moves = sum(one != following for one, following in pairwise(files))
    return Calls(len(files), len(set(files)), moves)

"""What an operator can do with the messages of a queue: peek at them, move them elsewhere, or replay them to the queue
in which they died first.

Peeking takes messages off the sub-queues and puts them back unchanged, so consumers see no difference. A courier moves
messages: the queue keeps each message until the target has confirmed it, and the number under way is limited. Messages
are moved in order. The first message that no queue accepts ends the move; it stays in its queue, like all messages that
are not under way. A moved message keeps the annotations that consumers have added, and whether it was delivered before.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from core.clock import Now
from core.engine.queue.courier import Courier, CourierContext
from core.engine.queue.expiry import has_expired, one_end
from core.engine.queue.kinds import AnyQueue, Peeked
from core.engine.ready.batch import Batch
from core.engine.ready.sub_queue import SubQueue
from core.errors import Invalid
from core.interface import Converter, ExchangeTarget, Outcome, QueueTarget, Snapshot, Target
from core.message import Origin, Route, Run, as_redelivered, each_of

PEEKED_MAX = 100
"""The most messages in one peek. They are in memory afterwards."""

UNDER_WAY_MAX = 256
"""The most messages under way at a time: as many as the front ends ask for with one queue grant."""

FIRST_DEATH_QUEUE = "x-first-death-queue"
"""The field of a dead-lettered message that names the queue in which it died first, in every protocol."""


_WHY_NOT = {
    Outcome.RELEASED: "no queue is there for a message where it is to go",
    Outcome.REJECTED: "a message was rejected by the queue where it is to go",
    Outcome.UNCERTAIN: "whether the queue where it is to go has a message is not known",
}


def check_may_peek(n: int) -> None:
    """Raises Invalid unless ``n`` is from 1 to ``PEEKED_MAX``."""
    if not 0 < n <= PEEKED_MAX:
        raise Invalid(f"{n} messages cannot be looked at in one go; from 1 to {PEEKED_MAX} can")


def shown(peeked: Peeked, converter: Converter | None) -> Snapshot:
    """Return one message's row for :meth:`core.engine.operator_moves.OperatorMoves.peek`."""
    attributes = peeked.attributes
    described = {} if converter is None else converter.describe(peeked.entry, attributes.origin)
    return {
        "sequence": peeked.sequence,
        "bytes": len(peeked.entry),
        "priority": attributes.priority,
        "durable": attributes.durable,
        "delivery_count": peeked.delivery_count,
        "expires_at": peeked.expires_at,
        **described,
    }


def peek(sub_queues: Sequence[SubQueue], n: int) -> list[Peeked]:
    """Return the first ``n`` ready messages, which stay unchanged. Raises Invalid as ``check_may_peek``."""
    check_may_peek(n)
    peeked: list[Peeked] = []
    for sub_queue in sub_queues:
        taken: list[Batch] = []
        while len(peeked) < n and (batch := sub_queue.fetch_head(n - len(peeked))) is not None:
            taken.append(batch)
            count = len(batch)
            facts = zip(
                batch.sequences, batch.entries, each_of(batch.attributes, count), each_of(batch.expires_at, count),
                strict=True,
            )  # fmt: skip
            peeked += (
                Peeked(sequence, entry, attributes, batch.delivery_count, expiry)
                for sequence, entry, attributes, expiry in facts
            )
        for batch in taken:
            sub_queue.put_back(batch)
    return peeked


def counts_of_move(move: "Move | None") -> dict[str, object]:
    """What the snapshot of a queue shows of its latest move."""
    return {
        "messages_moving": 0 if move is None else move.under_way,
        "last_move": None if move is None else move.shown(),
    }


class Move:
    """A move of ready messages from one queue to a target, or of each message to the queue in which it died first."""

    __slots__ = ("_context", "_courier", "_left", "_target", "done", "failure", "moved", "number")

    def __init__(
        self, context: CourierContext, source: AnyQueue, target: Target | None, n: int | None, *, number: int
    ) -> None:
        """``target``: None replays each message to the queue in which it died first. ``n``: how many, None for all, but
        never more than are ready now."""
        self.number = number
        """The number of this move; the moves out of a queue count from 1."""
        self._context = context
        self._courier = Courier(context, source)
        self._target = target
        self._left = source.ready if n is None else min(n, source.ready)
        self.moved = 0
        """How many messages the target has accepted."""
        self.failure = ""
        """Why the move ended early; empty otherwise."""
        self.done = False

    def step(self, sub_queues: Sequence[SubQueue], now: Now) -> int:
        """Process the answers and send more messages. ``sub_queues`` are those of the source queue, highest level
        first.

        Returns how many messages have left the source queue for good.
        """
        moved_before = self.moved
        for outcome, batches in self._courier.answers():
            for batch in batches:
                sub_queue = sub_queues[-1 - batch.level]
                if outcome is Outcome.ACCEPTED:
                    self.moved += len(batch)
                    sub_queue.backing.settle(batch)
                else:
                    self.failure = self.failure or _WHY_NOT[outcome]
                    sub_queue.put_back(batch)
        for sub_queue in sub_queues:
            while (free := min(self._left, UNDER_WAY_MAX - self._courier.under_way)) > 0 and not self.failure:
                head = sub_queue.fetch_head(free)
                if head is None:
                    break
                if has_expired(head, now):  # the queue removes it in its next turn
                    sub_queue.put_back(head)
                    break
                self._send(sub_queue, one_end(sub_queue, head, now))
        self.done = not self._courier.under_way and bool(self.failure or self._left <= 0 or not _ready(sub_queues))
        return self.moved - moved_before

    def end(self, why: str) -> None:
        """End the move: send nothing more. Messages that are under way still arrive."""
        self._left = 0
        self.failure = self.failure or why
        self._courier.retire()
        self.done = True

    @property
    def under_way(self) -> int:
        """How many messages are not answered yet."""
        return self._courier.under_way

    def batches(self) -> Sequence[Batch]:
        """The messages under way. The caller must not change them."""
        return self._courier.batches()

    def shown(self) -> Snapshot:
        """Return the state of the move as plain values, for the snapshot."""
        return {"number": self.number, "moved": self.moved, "done": self.done, "failure": self.failure}

    def _send(self, sub_queue: SubQueue, batch: Batch) -> None:
        for route, piece in self._routed(batch):
            if route is None or self.failure:
                self.failure = self.failure or "a message does not tell in which queue it died"
                sub_queue.put_back(piece)
                continue
            self._left -= len(piece)
            attributes = piece.attributes
            if not piece.first_acquirer:
                attributes = as_redelivered(attributes)
            run = Run(self._courier.load(piece), self._context.entries(piece), attributes, route.routing_keys[1:])
            for part, queues in self._context.route(route.exchange, route.routing_keys, run):
                self._courier.submit(part, tuple(queues))

    def _routed(self, batch: Batch) -> Iterator[tuple[Route | None, Batch]]:
        match self._target:
            case QueueTarget(queue):
                yield Route("", (queue,)), batch
            case ExchangeTarget(exchange, routing_key):
                yield Route(exchange, (routing_key,)), batch
            case None:
                start = 0
                for died_in, alike in groupby(batch.entries, lambda entry: self._died_in(entry, batch.origin)):
                    stop = start + len(list(alike))
                    yield (None if died_in is None else Route("", (died_in,))), batch.part(start, stop)
                    start = stop

    def _died_in(self, entry: bytes, origin: Origin) -> str | None:
        converter = self._context.converter
        queue = converter.routing_headers(entry, origin).get(FIRST_DEATH_QUEUE) if converter else None
        return queue if isinstance(queue, str) else None


def _ready(sub_queues: Sequence[SubQueue]) -> int:
    return sum(sub_queue.ready for sub_queue in sub_queues)

"""Drops the messages that a queue has taken on before: the argument ``x-deduplicate``, or the policy key.

A publisher names each message with its own name and a publishing id. The queue remembers both, for each priority level,
as long and as safely as it keeps messages: see :mod:`core.taken_numbers` and docs/design/repeats.md. A message that was
taken on before is accepted and dropped. One whose id is too low for what is remembered of its publisher is rejected,
because it may be either. Messages without a name are taken on as they are, and so are those that the engine publishes
itself: dead letters and messages that are moved have the names that they had before.

Invariants: a message is remembered if it was taken on, and only then; a repeat is answered after what it repeats.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from core.credit_flow.stage import Stage
from core.engine.confirms import Confirms, Submission
from core.engine.queue.admissions import Admissions
from core.engine.queue.courier import CourierContext
from core.engine.queue.queue_counters import QueueCounters
from core.engine.ready.sub_queue import SubQueue
from core.errors import EngineError, Invalid, PreconditionFailed
from core.interface import Converter
from core.message import RunPart
from core.taken_numbers import KnownId, PublishingId, TakenNumbers

MESSAGES_PER_TURN_MAX = 100
"""The most messages of one turn: to look up the publishing id of one takes some 15 µs, and 0.4 ms at most."""

TOO_LOW = PreconditionFailed(
    "the publishing id is lower than what the queue remembers of its publisher, so the message may have been taken on "
    "before (engine.publishing_id_ranges_max)"
)

Name: TypeAlias = PublishingId | EngineError | None
"""What a publisher calls a message; an error if it says nonsense."""


class Repeats:
    """Tells repeats from new messages, for one queue."""

    __slots__ = ("_admissions", "_converter", "_counters", "_inbox", "_messages_per_turn", "_ranges_max", "_sub_queues")

    def __init__(
        self,
        context: CourierContext,
        converter: Converter,
        inbox: Stage[Submission],
        sub_queues: Sequence[SubQueue],
        admissions: Admissions,
        counters: QueueCounters,
    ) -> None:
        """From now on the inbox lets fewer messages through in a turn, until ``end`` is called."""
        self._converter = converter
        self._ranges_max = context.publishing_id_ranges_max
        self._inbox, self._sub_queues, self._admissions, self._counters = inbox, sub_queues, admissions, counters
        self._messages_per_turn = inbox.messages_per_turn
        if self._messages_per_turn is None or self._messages_per_turn > MESSAGES_PER_TURN_MAX:
            inbox.messages_per_turn = MESSAGES_PER_TURN_MAX

    def end(self) -> None:
        """The queue drops repeats no more."""
        self._inbox.messages_per_turn = self._messages_per_turn

    def without(
        self, cut: Iterable[tuple[int, RunPart]], submission: Submission, confirms: Confirms
    ) -> Iterator[tuple[int, RunPart]]:
        """Yield the new messages of these parts of a run, with their levels; answer the others.

        The caller takes on, or rejects at the length limit, what it was given before it asks for more. What it rejects
        is the rear of a part.
        """
        if confirms.is_own(submission.publisher):
            yield from cut
            return
        for level, part in cut:
            backing = self._sub_queues[-1 - level].backing
            taken = backing.taken_names(self._ranges_max)
            names = [self._name(entry, part) for entry in part.entries]
            start = 0
            while start < len(names):
                new = _new(names, start, taken)
                if not new:
                    start = self._answer(names, start, taken, part, submission, confirms)
                    continue
                piece = part.part(start, start + len(new))
                piece.names = new
                refused = self._counters.refused
                yield level, piece
                backing.took(new[: len(new) - (self._counters.refused - refused)])
                start += len(new)

    def _name(self, entry: bytes, part: RunPart) -> Name:
        try:
            return self._converter.publishing_id(entry, part.run.origin)
        except Invalid as error:
            return error

    def _answer(
        self,
        names: Sequence[Name],
        start: int,
        taken: TakenNumbers,
        part: RunPart,
        submission: Submission,
        confirms: Confirms,
    ) -> int:
        """Answer the messages from ``start`` on that are not new, as far as their answer is the same. Returns where
        they end."""
        error = _why_not(names[start], taken)
        stop = start + 1
        while error is None and stop < len(names) and _is_repeat(names[stop], taken):
            stop += 1
        if error is None:
            self._counters.repeated += stop - start
            confirms.repeated += stop - start
            self._admissions.repeated(confirms, submission, part.start + start, part.start + stop)
        else:
            self._admissions.reject(confirms, submission, part.start + start, part.start + stop, error)
        return stop


def fitting(
    now: Repeats | None,
    context: CourierContext | None,
    inbox: Stage[Submission],
    sub_queues: Sequence[SubQueue],
    admissions: Admissions,
    counters: QueueCounters,
) -> Repeats | None:
    """Begin to drop repeats, or end it: return what fits the options of a queue that does not have it ``now``."""
    if now is not None:
        now.end()
        return None
    if context is None or context.converter is None:
        return None
    return Repeats(context, context.converter, inbox, sub_queues, admissions, counters)


def _new(names: Sequence[Name], start: int, taken: TakenNumbers) -> list[PublishingId | None]:
    """Return the names from ``start`` on, up to the first one that is not new or comes twice."""
    new: list[PublishingId | None] = []
    here: set[PublishingId] = set()
    for at in range(start, len(names)):
        name = names[at]
        if isinstance(name, EngineError):
            break
        if name is not None:
            if name in here or taken.known(name) is not KnownId.NEW:
                break
            here.add(name)
        new.append(name)
    return new


def _is_repeat(name: Name, taken: TakenNumbers) -> bool:
    return isinstance(name, PublishingId) and taken.known(name) is KnownId.TAKEN


def _why_not(name: Name, taken: TakenNumbers) -> EngineError | None:
    """Return why a message that is not new is rejected; None for a repeat."""
    if isinstance(name, EngineError):
        return name
    return None if _is_repeat(name, taken) else TOO_LOW

"""The task that keeps flow events: at intervals it packs the records in the ring into messages of the stream.

It is a publisher like any other: it declares the stream, publishes through the engine's own verb and waits for the
confirms. Three things bound it: the ring is bounded; it does not publish while an alarm is on or
:data:`UNCONFIRMED_MAX` of its messages are unconfirmed; and what it publishes makes no flow events.

It must not know the encoding of a message: the process hands in a function that makes one.
"""

from collections.abc import Awaitable, Callable

import trio
from structlog.typing import FilteringBoundLogger

from core.clock import Now
from core.config.flow_events import FlowEventsSettings
from core.engine.broker import Broker
from core.errors import EngineError, Inequivalent
from core.flow_facts import FLOW_STREAM
from core.interface import (
    AlarmChanged,
    Confirmed,
    Mailbox,
    Publisher,
    PublisherClosed,
    QueueDeclaration,
    QueueTarget,
)
from core.message import Attributes, Origin, Run
from core.observe.flow_events.packing import Packer
from core.observe.flow_events.recorder import FlowEvents
from core.observe.flow_events.ring import RecordRing

UNCONFIRMED_MAX = 32
"""Messages of 64 KiB, so 2 MiB in the engine; later records wait in the ring."""
PACKETS_PER_ROUND = 8
"""A round that finds the ring full packs 8 times 65 KiB: 20 ms of work, with a pause after each."""
SEGMENTS = 8
"""Retention removes whole segments, so the stream keeps between 7/8 and all of its configured size."""
SEGMENT_BYTES_MIN = 65_536

MessageOf = Callable[[bytes, float], tuple[bytes, Origin]]
"""Makes a whole message, as the engine keeps it, with its encoding, from a packet and the wall-clock time in
seconds."""
Background = Callable[[Callable[[], None]], Awaitable[None]]
"""A task as the server runs it; see :data:`core.server.run.Background`."""


def stream_declaration(settings: FlowEventsSettings) -> QueueDeclaration:
    """The declaration of the stream that these settings ask for."""
    return QueueDeclaration(
        name=FLOW_STREAM,
        arguments={
            "x-queue-type": "stream",
            "x-max-age": f"{round(settings.stream_age_max)}s",
            "x-max-length-bytes": settings.stream_bytes_max,
            "x-stream-max-segment-size-bytes": max(SEGMENT_BYTES_MIN, settings.stream_bytes_max // SEGMENTS),
        },
    )


class FlowWriter:
    """Writes flow events. One background task for each server whose settings ask for flow events."""

    def __init__(
        self,
        events: FlowEvents,
        ring: RecordRing,
        *,
        engine: Broker,
        settings: FlowEventsSettings,
        message: MessageOf,
        log: FilteringBoundLogger,
    ) -> None:
        """``ring`` is where ``events`` puts its records."""
        self.published = 0
        """Messages published since the start."""
        self._events = events
        self._packer = Packer(ring, node=events.node, interval_s=events.interval_s)
        self._engine = engine
        self._settings = settings
        self._message = message
        self._log = log
        self._answered = trio.Event()
        self._mailbox = Mailbox(lambda: self._answered.set())
        self._publisher: Publisher | None = None
        self._unconfirmed = 0
        self._complaint = ""

    async def run(self, turn: Callable[[], None]) -> None:
        """Publish what waits, again and again, until cancelled."""
        self._events.alarms_changed(self._engine.subscribe(self._mailbox))
        try:
            while True:
                for _ in self._events.tell_due():
                    await trio.lowlevel.checkpoint()
                for _ in range(PACKETS_PER_ROUND):
                    if not self.publish_one():
                        break
                    turn()
                    await trio.lowlevel.checkpoint()
                with trio.move_on_after(self._settings.pack_interval):
                    await self._listen()
        finally:
            self._engine.unsubscribe(self._mailbox, self)  # it has no exclusive queues

    async def _listen(self) -> None:
        """Take the engine's answers as they come, until cancelled, so that an alarm is recorded before what it
        blocks."""
        while True:
            await self._answered.wait()
            self._take_answers()

    def publish_one(self) -> bool:
        """Take the engine's answers, then publish the next packet if there is one and it may be published. True if it
        was."""
        self._take_answers()
        self._events.paging_changed(self._engine.paging)
        publisher = self._open()
        if publisher is None or self._blocked:
            return False
        packet = self._packer.take()
        if packet is None:
            return False
        now = self._events.clock()
        entry, origin = self._message(packet, now.wall)
        run = Run(self.published, [entry], Attributes(origin=origin, durable=True))
        self.published += 1
        self._unconfirmed += 1
        self._engine.publish(publisher, QueueTarget(FLOW_STREAM), run, now)
        return True

    @property
    def _blocked(self) -> bool:
        return bool(self._events.alarms) or self._unconfirmed >= UNCONFIRMED_MAX

    def _take_answers(self) -> None:
        self._answered = trio.Event()
        for action in self._mailbox.take():
            match action:
                case Confirmed():
                    self._unconfirmed -= action.last - action.first + 1
                case PublisherClosed():
                    self._engine.retire(action.publisher)  # the stream was deleted; the next round declares it again
                    self._publisher = None
                case AlarmChanged():
                    self._events.alarms_changed(action.alarms)
                case _:
                    pass

    def _open(self) -> Publisher | None:
        """Return the publisher. Makes it, and declares the stream, when there is none; None when that fails."""
        if self._publisher is None:
            try:
                self._declare()
                self._publisher = self._engine.publisher(self._mailbox, self, QueueTarget(FLOW_STREAM), self)
            except EngineError as error:
                self._complain("flow-events-not-kept", error)
        return self._publisher

    def _declare(self) -> None:
        """Declare the stream. Raises EngineError. An existing stream with other settings is used as it is."""
        try:
            self._engine.declare_queue(stream_declaration(self._settings), self)
        except Inequivalent as error:
            if self._engine.queue_info(FLOW_STREAM, self).type != "stream":
                raise
            self._complain("flow-stream-has-other-limits", error)

    def _complain(self, event: str, error: EngineError) -> None:
        """Log an error once for each cause: each round tries again."""
        if self._complaint != str(error):
            self._complaint = str(error)
            self._log.warning(event, queue=FLOW_STREAM, reason=str(error))

    def __str__(self) -> str:
        """The name of this publisher in lists."""
        return "flow events"


def open_flow_events(settings: FlowEventsSettings, *, clock: Callable[[], Now], node: str) -> FlowEvents:
    """Make the recorder of flow events; without a ring when the settings ask for no stream."""
    return FlowEvents(
        clock=clock,
        node=node,
        interval_s=settings.interval,
        feed_records_max=settings.self_records_max,
        ring=RecordRing(settings.ring_records_max) if settings.enabled else None,
    )


def flow_tasks(
    events: FlowEvents,
    engine: Broker,
    *,
    settings: FlowEventsSettings,
    message: MessageOf,
    log: FilteringBoundLogger,
) -> list[Background]:
    """The background task that keeps flow events; an empty list when the settings ask for no stream."""
    if events.ring is None:
        return []
    return [FlowWriter(events, events.ring, engine=engine, settings=settings, message=message, log=log).run]

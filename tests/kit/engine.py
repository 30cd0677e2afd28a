"""A broker with queues, and a connection to it as a front end has one: for tests of the engine."""

from collections.abc import Iterable, Sequence
from typing import cast

from core.clock import Now
from core.config.settings import Settings
from core.engine.broker import Broker
from core.engine.queue.sums import QUEUE_FIGURES
from core.interface import (
    Action,
    Binding,
    Confirmed,
    ConsumeOptions,
    Consumer,
    Converter,
    Delivered,
    ExchangeDeclaration,
    ExchangeType,
    GrantReply,
    Mailbox,
    Outcome,
    Publisher,
    QueueDeclaration,
    QueueTarget,
    StreamOptions,
    Target,
)
from core.message import Attributes, Run

NOW = Now(monotonic=1000.0, wall=1_700_000_000.0)
PLAIN = Attributes()


def later(seconds: float) -> Now:
    """A reading of the clocks this many seconds after ``NOW``."""
    return Now(NOW.monotonic + seconds, NOW.wall + seconds)


def make_broker(*queues: str, settings: Settings | None = None, converter: Converter | None = None) -> Broker:
    """A broker with these queues."""
    broker = Broker(settings or Settings(), converter)
    for name in queues:
        broker.declare_queue(queue(name), owner="setup")
    return broker


def queue(
    name: str,
    *,
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
    **arguments: object,
) -> QueueDeclaration:
    """A declaration of a queue; ``x_message_ttl=1`` is the argument x-message-ttl."""
    return QueueDeclaration(
        name=name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        arguments=_dashed(arguments),
    )


def exchange(
    name: str,
    kind: ExchangeType = ExchangeType.DIRECT,
    *,
    auto_delete: bool = False,
    internal: bool = False,
    **arguments: object,
) -> ExchangeDeclaration:
    """A declaration of an exchange."""
    return ExchangeDeclaration(
        name=name, type=kind, auto_delete=auto_delete, internal=internal, arguments=_dashed(arguments)
    )


def binding(source: str, destination: str, key: str = "", *, to_exchange: bool = False, **arguments: object) -> Binding:
    """A declaration of a binding to a queue or an exchange."""
    return Binding(
        source=source,
        destination=destination,
        destination_is_queue=not to_exchange,
        binding_key=key,
        arguments=_dashed(arguments),
    )


def bodies(count: int, start: int = 0) -> list[bytes]:
    """Entries whose content is their number."""
    return [b"%d" % number for number in range(start, start + count)]


class Peer:
    """A connection as the engine sees it: one mailbox, one owner, and confirm numbers that count up."""

    def __init__(self, broker: Broker, owner: object = "peer") -> None:
        self.broker = broker
        self.owner = owner
        self.notified = 0
        self.mailbox = Mailbox(self._notify)
        self.next_confirm = 0
        self._publishers: dict[Target | None, Publisher] = {}

    def _notify(self) -> None:
        self.notified += 1

    def publisher(self, target: Target | None) -> Publisher:
        """The publisher with this fixed target; there is one for each."""
        if target not in self._publishers:
            self._publishers[target] = self.broker.publisher(self.mailbox, self.owner, target, "publisher")
        return self._publishers[target]

    def publish(
        self,
        target: Target | str,
        entries: Sequence[bytes],
        attributes: Attributes = PLAIN,
        *,
        keys: tuple[str, ...] = (),
        anonymous: bool = False,
    ) -> range:
        """Publish a run; a target that is a plain string names a queue. Returns its confirm numbers."""
        where = QueueTarget(target) if isinstance(target, str) else target
        first = self.next_confirm
        run = Run(first, list(entries), attributes, keys)
        self.broker.publish(self.publisher(None if anonymous else where), where, run, NOW)
        self.next_confirm += len(entries)
        return range(first, self.next_confirm)

    def consume(
        self,
        queue_name: str,
        n: int | None = None,
        *,
        priority: int = 0,
        exclusive: bool = False,
        getter: bool = False,
        settled_when_sent: bool = False,
        stream: StreamOptions | None = None,
    ) -> Consumer:
        """Attach a consumer; with ``n`` also grant it this many messages."""
        options = ConsumeOptions(
            priority=priority,
            exclusive=exclusive,
            getter=getter,
            settled_when_sent=settled_when_sent,
            stream=stream or StreamOptions(),
        )
        consumer = self.broker.consume(queue_name, self.mailbox, self.owner, options, "consumer")
        if n is not None:
            self.broker.grant(consumer, n, False)
        return consumer

    def turn(self) -> list[Action]:
        """Run one turn of the engine, and take the actions that it caused."""
        self.broker.turn(NOW)
        return self.mailbox.take()


def confirms(actions: Iterable[Action]) -> list[tuple[int, int, Outcome]]:
    """The confirms among the actions, as ranges."""
    return [(a.first, a.last, a.outcome) for a in actions if isinstance(a, Confirmed)]


def deliveries(actions: Iterable[Action], consumer: Consumer) -> list[tuple[int, bytes]]:
    """The deliveries to a consumer: delivery number and entry of each message."""
    return [
        (number, entry)
        for a in actions
        if isinstance(a, Delivered) and a.consumer is consumer
        for number, entry in enumerate(a.entries, a.first)
    ]


def entries_for(actions: Iterable[Action], consumer: Consumer) -> list[bytes]:
    """The entries that were delivered to a consumer, in order."""
    return [entry for _, entry in deliveries(actions, consumer)]


def replies(actions: Iterable[Action], consumer: Consumer) -> list[tuple[int, int]]:
    """The grant replies to a consumer, as available and drained."""
    return [(a.available, a.drained) for a in actions if isinstance(a, GrantReply) and a.consumer is consumer]


def _dashed(arguments: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "-"): value for name, value in arguments.items()}


def assert_sums_are_right(broker: Broker) -> None:
    """Compare the sums over all queues that are kept with a walk over them."""
    sums, rows = broker.queue_sums, list(broker.queue_figures())
    for _ in sums.refresh():
        pass
    assert sums.sums() == {figure: sum(cast("int", row[figure]) for row in rows) for figure in QUEUE_FIGURES}

"""The engine as one connection may use it: a verb that needs a right checks it before the engine is called.

Both protocols, the management node and the HTTP API use the engine through this class, so each right is checked in one
place. The rights are checked when something is declared, bound, purged, deleted, or attached to. Messages are checked
only where their target is not that of an attached link: at the anonymous terminus and for basic.publish, and for each
further routing key. Answers of :class:`~core.access.rights.Rights` are kept, so this costs a lookup for each run.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from core.access.rights import AccessKind, Rights
from core.clock import Now
from core.declaring import Recording
from core.errors import NotFound
from core.interface import (
    Binding,
    ConsumeOptions,
    Consumer,
    Engine,
    ExchangeDeclaration,
    ExchangeTarget,
    ExchangeType,
    Mailbox,
    Publisher,
    QueueDeclaration,
    QueueInfo,
    Target,
)
from core.message import Run
from core.slices import Walk

if TYPE_CHECKING:  # as in core.interface
    from core.credit_flow.flow import CreditFlow

DEFAULT_EXCHANGE = ""
REPLY_QUEUE_PREFIX = "amq.rabbitmq.reply-to."
"""Queues for direct replies: only the broker makes one, and it is exclusive to its connection. So it needs no right."""
DEAD_LETTERS_TO, ALTERNATE = "x-dead-letter-exchange", "alternate-exchange"
ANY: tuple[AccessKind, ...] = ("configure", "write", "read")


class CheckedEngine:
    """The :class:`core.interface.Engine` for one connection, with the rights of its user."""

    __slots__ = ("grant", "known_routes", "ready_messages", "rights", "settle", "unchecked")

    def __init__(self, engine: Engine, rights: Rights) -> None:
        self.unchecked = engine
        """The engine itself, for what the broker does on its own."""
        self.rights = rights
        """May be replaced, when it is known who the user is."""
        # these act on what is attached: one lookup less for each
        self.grant = engine.grant
        self.settle = engine.settle
        self.known_routes = engine.known_routes
        self.ready_messages = engine.ready_messages

    # --- messages ----------------------------------------------------------------------------------------------

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """See Engine. The mailbox is told of changes of the rights too."""
        self.rights.mailboxes[mailbox] = None
        return self.unchecked.subscribe(mailbox)

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> bool:
        """See Engine."""
        self.rights.mailboxes.pop(mailbox, None)
        return self.unchecked.unsubscribe(mailbox, owner)

    def publisher(
        self,
        mailbox: Mailbox,
        owner: object,
        target: Target | None,
        reference: object,
        stage_credit: "CreditFlow | None" = None,
    ) -> Publisher:
        """See Engine. Raises Forbidden if a fixed target needs a right that the user does not have."""
        if target is not None:
            self.check_target(target)
        return self.unchecked.publisher(mailbox, owner, target, reference, stage_credit)

    def retire(self, publisher: Publisher) -> None:
        """See Engine."""
        self.unchecked.retire(publisher)

    def publish(self, publisher: Publisher, target: Target, run: Run, now: Now) -> None:
        """See Engine. Raises Forbidden; then no message of the run is published."""
        if publisher.fixed_target is None or run.routing_keys:
            self.check_target(target, run.routing_keys)
        self.unchecked.publish(publisher, target, run, now)

    def publish_by_keys(self, publisher: Publisher, exchange: str, keys: Sequence[str], run: Run, now: Now) -> None:
        """See Engine. Raises Forbidden; then no message of the run is published."""
        rights = self.rights
        if exchange not in rights.free_exchanges and rights.check_write(exchange):
            self._check_topics("write", exchange, keys)
        self.unchecked.publish_by_keys(publisher, exchange, keys, run, now)

    def check_target(self, target: Target, further_keys: Sequence[str] = ()) -> None:
        """Raises Forbidden if the user may not publish to this target, with these routing keys besides its own."""
        rights, free = self.rights, self.rights.free_exchanges
        if isinstance(target, ExchangeTarget):
            exchange = target.exchange
            if exchange not in free and rights.check_write(exchange):
                self._check_topics("write", exchange, (target.routing_key, *further_keys))
        elif DEFAULT_EXCHANGE not in free:
            rights.check_write(DEFAULT_EXCHANGE)

    def check_source(self, queue: str) -> None:
        """Raises Forbidden if the user may not consume from this queue."""
        if not queue.startswith(REPLY_QUEUE_PREFIX):
            self.rights.check("read", "queue", queue)

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        """See Engine. Raises Forbidden."""
        self.check_source(queue)
        return self.unchecked.consume(queue, mailbox, owner, options, reference)

    def cancel(self, consumer: Consumer, *, requeue: bool = True) -> None:
        """See Engine."""
        self.unchecked.cancel(consumer, requeue=requeue)

    def turn(self, now: Now) -> bool:
        """See Engine."""
        return self.unchecked.turn(now)

    @property
    def deadline(self) -> float:
        """See Engine."""
        return self.unchecked.deadline

    # --- queues, exchanges and bindings ------------------------------------------------------------------------

    def declare_queue(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> tuple[QueueInfo, bool]:
        """See Engine. Raises Forbidden; dead letters need the right to read from the queue and to write to the
        exchange."""
        self._check_declaration(declaration)
        return self.unchecked.declare_queue(declaration, owner, named_by_broker=named_by_broker)

    def begin_declaring(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[tuple[QueueInfo, bool]]:
        """See Engine. Raises Forbidden, as :meth:`declare_queue`."""
        self._check_declaration(declaration)
        return self.unchecked.begin_declaring(declaration, owner, named_by_broker=named_by_broker)

    def _check_declaration(self, declaration: QueueDeclaration) -> None:
        self.rights.check("configure", "queue", declaration.name)
        exchange = declaration.arguments.get(DEAD_LETTERS_TO)
        if isinstance(exchange, str):
            self.rights.check("read", "queue", declaration.name)
            self.rights.check("write", "exchange", exchange)

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        """See Engine. Raises Forbidden."""
        if not name.startswith(REPLY_QUEUE_PREFIX):
            self.rights.check("configure", "queue", name)
        return self.unchecked.declare_dynamic_queue(name, owner)

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        """See Engine. It needs no right, because it tells a client nothing by itself."""
        return self.unchecked.queue_info(name, owner)

    def show_queue(self, name: str, owner: object) -> QueueInfo:
        """The queue, for a user with any right to it. Raises Forbidden, NotFound, Locked."""
        if not name.startswith(REPLY_QUEUE_PREFIX) and not any(self.rights.may(what, name) for what in ANY):
            self.rights.check("read", "queue", name)
        return self.unchecked.queue_info(name, owner)

    def show_exchange(self, name: str) -> ExchangeDeclaration:
        """The exchange, for a user with any right to it. Raises Forbidden, NotFound."""
        if not any(self.rights.may(what, name) for what in ANY):
            self.rights.check("read", "exchange", name)
        return self.unchecked.exchange_info(name)

    def delete_queue(self, name: str, owner: object) -> int:
        """See Engine. Raises Forbidden."""
        self.rights.check("configure", "queue", name)
        return self.unchecked.delete_queue(name, owner)

    def begin_deleting(self, name: str, owner: object) -> Recording[int]:
        """See Engine. Raises Forbidden."""
        self.rights.check("configure", "queue", name)
        return self.unchecked.begin_deleting(name, owner)

    def purge_queue(self, name: str, owner: object) -> Walk[int]:
        """See Engine. Raises Forbidden."""
        self.rights.check("read", "queue", name)
        return self.unchecked.purge_queue(name, owner)

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """See Engine. Raises Forbidden; an alternate exchange needs the right to read from the exchange and to write to
        the alternate one."""
        self.rights.check("configure", "exchange", declaration.name)
        alternate = declaration.arguments.get(ALTERNATE)
        if isinstance(alternate, str):
            self.rights.check("read", "exchange", declaration.name)
            self.rights.check("write", "exchange", alternate)
        return self.unchecked.declare_exchange(declaration)

    def delete_exchange(self, name: str) -> None:
        """See Engine. Raises Forbidden."""
        self.rights.check("configure", "exchange", name)
        self.unchecked.delete_exchange(name)

    def exchange_info(self, name: str) -> ExchangeDeclaration:
        """See Engine. It needs no right, as :meth:`queue_info`."""
        return self.unchecked.exchange_info(name)

    def exchange_in_use(self, name: str) -> bool:
        """See Engine."""
        return self.unchecked.exchange_in_use(name)

    def bind(self, binding: Binding, owner: object) -> None:
        """See Engine. Raises Forbidden."""
        self._check_binding(binding)
        self.unchecked.bind(binding, owner)

    def unbind(self, binding: Binding, owner: object) -> None:
        """See Engine. Raises Forbidden."""
        self._check_binding(binding)
        self.unchecked.unbind(binding, owner)

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """See Engine. Raises Forbidden."""
        self._check_ends(source, destination, destination_is_queue)
        return self.unchecked.bindings(source, destination, destination_is_queue)

    def _check_binding(self, binding: Binding) -> None:
        self._check_ends(binding.source, binding.destination, binding.destination_is_queue)
        if self.rights.restricts_topics(binding.source):
            self._check_topics("read", binding.source, (binding.binding_key,))

    def _check_ends(self, source: str, destination: str, to_queue: bool) -> None:
        self.rights.check("write", "queue" if to_queue else "exchange", destination)
        self.rights.check("read", "exchange", source)

    def _check_topics(self, what: Literal["write", "read"], exchange: str, keys: Sequence[str]) -> None:
        """Raises Forbidden for a key that the user may not use, if this is a topic exchange."""
        try:
            if self.unchecked.exchange_info(exchange).type is not ExchangeType.TOPIC:
                return
        except NotFound:  # the engine says so, where that is an error
            return
        for key in keys:
            self.rights.check_topic(what, exchange, key)

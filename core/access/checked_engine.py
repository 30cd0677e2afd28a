"""The engine as one connection may use it: a verb that needs a right checks it before the engine is called.

Both protocols, the management node and the HTTP API use the engine through this class, so each right is checked in one
place. The rights are checked when something is declared, bound, purged, deleted, or attached to. Messages are checked
only where their target is not that of an attached link: at the anonymous terminus and for basic.publish, and for each
further routing key. Answers of :class:`~core.access.rights.Rights` are kept, so this costs a lookup for each run.

Where there is an audit log, refusals and changes of definitions are recorded here too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from core.access.audit import AuditedPeer, AuditResult
from core.access.entering import may_stay
from core.access.rights import AccessKind, ResourceKind, Rights
from core.clock import Now
from core.config.audit import AuditEvent
from core.declaring import Recording
from core.errors import EngineError, Forbidden, LimitReached, NotFound, StillGoing
from core.flow_facts import ClientIdentity
from core.held import Held, HeldRange, Hold
from core.interface import (
    Binding,
    ConsumeOptions,
    Consumer,
    Disposal,
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
from core.message import Return, Run
from core.publish_limit import PublishLimit
from core.slices import Found, Walk

if TYPE_CHECKING:  # as in core.interface
    from core.credit_flow.flow import CreditFlow

DEFAULT_EXCHANGE = ""
REPLY_QUEUE_PREFIX = "amq.rabbitmq.reply-to."
"""Queues for direct replies: only the broker makes one, and it is exclusive to its connection. So it needs no right."""
DEAD_LETTERS_TO, ALTERNATE = "x-dead-letter-exchange", "alternate-exchange"
ANY: tuple[AccessKind, ...] = ("configure", "write", "read")


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """A change of definitions, as the audit log has it."""

    action: str
    kind: ResourceKind
    name: str
    details: dict[str, object] = field(default_factory=dict)


class CheckedEngine:
    """The :class:`core.interface.Engine` for one connection, with the rights of its user."""

    __slots__ = (
        "_channels",
        "_links",
        "audit",
        "grant",
        "known_routes",
        "links",
        "ready_messages",
        "rights",
        "settle",
        "unchecked",
    )

    def __init__(self, engine: Engine, rights: Rights, audit: AuditedPeer | None = None) -> None:
        self._channels: int | None = None
        """The channels that count for the user; None while the connection does not count itself."""
        self._links = 0
        """The links of the connection."""
        self.audit = audit
        """Where refusals and changes of the connection are recorded; None if they are not."""
        self.enter(engine, rights)

    def enter(self, engine: Engine, rights: Rights) -> None:
        """Use this virtual host with these rights from now on: it is known what the client wants and who the user is.
        Nothing may be attached yet."""
        self.unchecked = engine
        """The engine itself, for what the broker does on its own."""
        self.rights = rights
        """Those of the user on this virtual host."""
        self.links = engine.links
        # these act on what is attached: one lookup less for each
        self.grant = engine.grant
        self.settle = engine.settle
        self.known_routes = engine.known_routes
        self.ready_messages = engine.ready_messages

    @property
    def connections(self) -> int:
        """See Engine."""
        return self.unchecked.connections

    @connections.setter
    def connections(self, count: int) -> None:
        self.unchecked.connections = count

    # --- messages ----------------------------------------------------------------------------------------------

    def subscribe(self, mailbox: Mailbox) -> frozenset[str]:
        """See Engine. The mailbox is told of changes of the rights too, and the connection counts for the user."""
        self.rights.mailboxes[mailbox] = None
        if self._channels is None:
            self._channels = 0
            self.rights.limits.connections += 1
            self.unchecked.connections += 1
        return self.unchecked.subscribe(mailbox)

    def unsubscribe(self, mailbox: Mailbox, owner: object) -> bool:
        """See Engine."""
        self.rights.mailboxes.pop(mailbox, None)
        if self._channels is not None:
            limits = self.rights.limits
            limits.connections -= 1
            limits.channels -= self._channels
            limits.links -= self._links
            self.links.count -= self._links
            self._channels, self._links = None, 0
            self.unchecked.connections -= 1
        return self.unchecked.unsubscribe(mailbox, owner)

    def publisher(
        self,
        mailbox: Mailbox,
        owner: object,
        target: Target | None,
        reference: object,
        stage_credit: "CreditFlow | None" = None,
        *,
        told_only: bool = False,
    ) -> Publisher:
        """See Engine. Raises Forbidden if a fixed target needs a right that the user does not have."""
        if target is not None:
            self.check_target(target)
        return self.unchecked.publisher(mailbox, owner, target, reference, stage_credit, told_only=told_only)

    def publish_limits(self, target: Target | None) -> tuple[PublishLimit, ...]:
        """See Engine. The limits of the user are among them."""
        return (*self.unchecked.publish_limits(target), self.rights.limits.publishing)

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
        if exchange not in self.rights.free_exchanges and self._check_write(exchange):
            self._check_topics("write", exchange, keys)
        self.unchecked.publish_by_keys(publisher, exchange, keys, run, now)

    def check_target(self, target: Target, further_keys: Sequence[str] = ()) -> None:
        """Raises Forbidden if the user may not publish to this target, with these routing keys besides its own."""
        free = self.rights.free_exchanges
        if isinstance(target, ExchangeTarget):
            exchange = target.exchange
            if exchange not in free and self._check_write(exchange):
                self._check_topics("write", exchange, (target.routing_key, *further_keys))
        elif DEFAULT_EXCHANGE not in free:
            self._check_write(DEFAULT_EXCHANGE)

    def check(self, what: AccessKind, kind: ResourceKind, name: str) -> None:
        """Raises Forbidden if the user may not do this."""
        try:
            self.rights.check(what, kind, name)
        except Forbidden as error:
            self._tell_refused(what, kind, name, error)
            raise

    def _check_write(self, exchange: str) -> bool:
        try:
            return self.rights.check_write(exchange)
        except Forbidden as error:
            self._tell_refused("write", "exchange", exchange, error)
            raise

    def refusal(self, *, operators: bool = False) -> str | None:
        """Why the user may not use the virtual host any more; None if the user may. ``operators``: see
        :func:`core.access.entering.may_stay`."""
        why = may_stay(self.rights) if operators else self.rights.refusal()
        return why if self.rights.gone else self._told_refusal("connect", why)

    def connection_refusal(self) -> str | None:
        """Why the user may not open this connection too; None if the user may, or it counts already."""
        why = None if self._channels is not None else self.rights.limits.connection_refusal()
        return self._told_refusal("open-connection", why)

    def begin_channel(self) -> str | None:
        """Count a channel for the user. Returns why it has to be refused; None if it may stay. In both cases
        :meth:`end_channel` ends it."""
        assert self._channels is not None
        self._channels += 1
        self.rights.limits.channels += 1
        return self._told_refusal("open-channel", self.rights.limits.channel_refusal())

    def end_channel(self) -> None:
        """A channel that was counted is over."""
        if self._channels:  # else the connection is over, with its channels
            self._channels -= 1
            self.rights.limits.channels -= 1

    def check_links(self, client: ClientIdentity | None = None) -> None:
        """Raises LimitReached if the user, or the virtual host, has as many links as it may have. ``client`` is that of
        another node for which the link is."""
        here, name = self.links, self.rights.virtual_host
        why = self.rights.limits.link_refusal()
        if why is None and here.most is not None and here.count >= here.most:
            why = (
                f"virtual host '{name}' has {here.count} links, and its limit max-links is {here.most}; detach one, or "
                f"raise the limit: headgate vhosts limit {name} --max-links NUMBER"
            )
        if self._told_refusal("attach", why, client) is not None:
            raise LimitReached(str(why))

    def begin_link(self) -> None:
        """Count a link that publishes or consumes, for the user and the virtual host, until :meth:`end_link`."""
        self._links += 1
        self.rights.limits.links += 1
        self.links.count += 1

    def end_link(self) -> None:
        """A link that was counted is over."""
        if self._links:  # else the connection is over, with its links
            self._links -= 1
            self.rights.limits.links -= 1
            self.links.count -= 1

    def _told_refusal(self, action: str, why: str | None, client: ClientIdentity | None = None) -> str | None:
        if why is not None and self.audit is not None:
            self.audit.refused(action, self.rights.user, why, client)
        return why

    def check_source(self, queue: str) -> None:
        """Raises Forbidden if the user may not consume from this queue."""
        if not queue.startswith(REPLY_QUEUE_PREFIX):
            self.check("read", "queue", queue)

    def consume(
        self, queue: str, mailbox: Mailbox, owner: object, options: ConsumeOptions, reference: object
    ) -> Consumer:
        """See Engine. Raises Forbidden."""
        self.check_source(queue)
        return self.unchecked.consume(queue, mailbox, owner, options, reference)

    def cancel(self, consumer: Consumer, *, requeue: bool = True) -> None:
        """See Engine."""
        self.unchecked.cancel(consumer, requeue=requeue)

    def hold(self, queue: str, owner: object, wanted: Hold) -> Walk[Held]:
        """See Engine. Raises Forbidden."""
        self.check_source(queue)
        return self.unchecked.hold(queue, owner, wanted)

    def settle_held(self, queue: str, owner: object, which: HeldRange, disposal: Disposal | Return) -> Walk[int]:
        """See Engine. Raises Forbidden."""
        self.check_source(queue)
        return self.unchecked.settle_held(queue, owner, which, disposal)

    # --- queues, exchanges and bindings ------------------------------------------------------------------------

    def declare_queue(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> tuple[QueueInfo, bool]:
        """See Engine. Raises Forbidden; dead letters need the right to read from the queue and to write to the
        exchange."""
        self._check_declaration(declaration)
        info, made = self._told(
            lambda: self.unchecked.declare_queue(declaration, owner, named_by_broker=named_by_broker),
            _queue_change(declaration),
            lambda found: found[1],
        )
        return info, made

    def begin_declaring(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[tuple[QueueInfo, bool]]:
        """See Engine. Raises Forbidden, as :meth:`declare_queue`."""
        self._check_declaration(declaration)
        return self._told_later(
            lambda: self.unchecked.begin_declaring(declaration, owner, named_by_broker=named_by_broker),
            _queue_change(declaration),
            lambda found: found[1],
        )

    def _check_declaration(self, declaration: QueueDeclaration) -> None:
        self.check("configure", "queue", declaration.name)
        exchange = declaration.arguments.get(DEAD_LETTERS_TO)
        if isinstance(exchange, str):
            self.check("read", "queue", declaration.name)
            self.check("write", "exchange", exchange)

    def declare_dynamic_queue(self, name: str, owner: object) -> QueueInfo:
        """See Engine. Raises Forbidden."""
        if name.startswith(REPLY_QUEUE_PREFIX):
            return self.unchecked.declare_dynamic_queue(name, owner)
        self.check("configure", "queue", name)
        change = AuditedChange("queues.declare", "queue", name, {"dynamic": True})
        return self._told(lambda: self.unchecked.declare_dynamic_queue(name, owner), change)

    def queue_info(self, name: str, owner: object) -> QueueInfo:
        """See Engine. It needs no right, because it tells a client nothing by itself."""
        return self.unchecked.queue_info(name, owner)

    def show_queue(self, name: str, owner: object) -> QueueInfo:
        """The queue, for a user with any right to it. Raises Forbidden, NotFound, Locked."""
        if not name.startswith(REPLY_QUEUE_PREFIX) and not any(self.rights.may(what, name) for what in ANY):
            self.check("read", "queue", name)
        return self.unchecked.queue_info(name, owner)

    def show_exchange(self, name: str) -> ExchangeDeclaration:
        """The exchange, for a user with any right to it. Raises Forbidden, NotFound."""
        if not any(self.rights.may(what, name) for what in ANY):
            self.check("read", "exchange", name)
        return self.unchecked.exchange_info(name)

    def delete_queue(self, name: str, owner: object) -> int:
        """See Engine. Raises Forbidden."""
        self.check("configure", "queue", name)
        return self._told(
            lambda: self.unchecked.delete_queue(name, owner), AuditedChange("queues.delete", "queue", name)
        )

    def begin_deleting(self, name: str, owner: object) -> Recording[int]:
        """See Engine. Raises Forbidden."""
        self.check("configure", "queue", name)
        change = AuditedChange("queues.delete", "queue", name)
        return self._told_later(lambda: self.unchecked.begin_deleting(name, owner), change)

    def purge_queue(self, name: str, owner: object) -> Walk[int]:
        """See Engine. Raises Forbidden."""
        self.check("read", "queue", name)
        change = AuditedChange("queues.purge", "queue", name)
        walk = self._told(lambda: self.unchecked.purge_queue(name, owner), change, lambda walk: False)
        return walk if self.audit is None else self._told_walk(walk, change)

    def declare_exchange(self, declaration: ExchangeDeclaration) -> bool:
        """See Engine. Raises Forbidden; an alternate exchange needs the right to read from the exchange and to write to
        the alternate one."""
        self.check("configure", "exchange", declaration.name)
        alternate = declaration.arguments.get(ALTERNATE)
        if isinstance(alternate, str):
            self.check("read", "exchange", declaration.name)
            self.check("write", "exchange", alternate)
        arguments = {"type": declaration.type.value, "durable": declaration.durable}
        change = AuditedChange(
            "exchanges.declare", "exchange", declaration.name, arguments | _arguments(declaration.arguments)
        )
        return self._told(lambda: self.unchecked.declare_exchange(declaration), change, lambda made: made)

    def delete_exchange(self, name: str) -> None:
        """See Engine. Raises Forbidden."""
        self.check("configure", "exchange", name)
        self._told(lambda: self.unchecked.delete_exchange(name), AuditedChange("exchanges.delete", "exchange", name))

    def exchange_info(self, name: str) -> ExchangeDeclaration:
        """See Engine. It needs no right, as :meth:`queue_info`."""
        return self.unchecked.exchange_info(name)

    def exchange_in_use(self, name: str) -> bool:
        """See Engine."""
        return self.unchecked.exchange_in_use(name)

    def bind(self, binding: Binding, owner: object) -> None:
        """See Engine. Raises Forbidden."""
        self._check_binding(binding)
        self._told(lambda: self.unchecked.bind(binding, owner), _binding_change("bindings.bind", binding))

    def unbind(self, binding: Binding, owner: object) -> None:
        """See Engine. Raises Forbidden."""
        self._check_binding(binding)
        self._told(lambda: self.unchecked.unbind(binding, owner), _binding_change("bindings.unbind", binding))

    def bindings(self, source: str, destination: str, destination_is_queue: bool) -> Iterator[Binding | None]:
        """See Engine. Raises Forbidden."""
        self._check_ends(source, destination, destination_is_queue)
        return self.unchecked.bindings(source, destination, destination_is_queue)

    def _check_binding(self, binding: Binding) -> None:
        self._check_ends(binding.source, binding.destination, binding.destination_is_queue)
        if self.rights.restricts_topics(binding.source):
            self._check_topics("read", binding.source, (binding.binding_key,))

    def _check_ends(self, source: str, destination: str, to_queue: bool) -> None:
        self.check("write", "queue" if to_queue else "exchange", destination)
        self.check("read", "exchange", source)

    def _check_topics(self, what: Literal["write", "read"], exchange: str, keys: Sequence[str]) -> None:
        """Raises Forbidden for a key that the user may not use, if this is a topic exchange."""
        try:
            if self.unchecked.exchange_info(exchange).type is not ExchangeType.TOPIC:
                return
        except NotFound:  # the engine says so, where that is an error
            return
        for key in keys:
            try:
                self.rights.check_topic(what, exchange, key)
            except Forbidden as error:
                self._tell_refused(what, "exchange", exchange, error)
                raise

    # --- the audit log -----------------------------------------------------------------------------------------

    def _tell_refused(self, what: str, kind: ResourceKind, name: str, error: Forbidden) -> None:
        self._record("refusals", AuditedChange(what, kind, name), "refused", str(error))

    def _record(self, event: AuditEvent, change: AuditedChange, result: AuditResult, reason: str = "") -> None:
        if self.audit is not None:
            details = {"vhost": self.rights.virtual_host, "kind": change.kind, "name": change.name, "reason": reason}
            self.audit.record(event, change.action, result, self.rights.user, details | change.details)

    def _tell(self, change: AuditedChange, result: AuditResult, reason: str = "") -> None:
        self._record("definitions", change, result, reason)

    def _told(
        self, make: Callable[[], Found], change: AuditedChange, is_new: Callable[[Found], bool] = lambda found: True
    ) -> Found:
        """Make a change and record it, unless it is none: what was declared was there, and is the same."""
        try:
            found = make()
        except StillGoing:  # it is tried again
            raise
        except EngineError as error:
            self._tell(change, "failed", str(error))
            raise
        if self.audit is not None and is_new(found):
            self._tell(change, "done")
        return found

    def _told_later(
        self,
        begin: Callable[[], Recording[Found]],
        change: AuditedChange,
        is_new: Callable[[Found], bool] = lambda found: True,
    ) -> Recording[Found]:
        """The same for a change whose result comes later."""
        recording = self._told(begin, change, lambda recording: False)
        if self.audit is not None:
            recording.when_done(lambda: self._tell_result(recording, change, is_new))
        return recording

    def _tell_result(self, recording: Recording[Found], change: AuditedChange, is_new: Callable[[Found], bool]) -> None:
        with suppress(EngineError):
            self._told(recording.result, change, is_new)

    def _told_walk(self, walk: Walk[int], change: AuditedChange) -> Walk[int]:
        try:
            count = yield from walk
        except EngineError as error:
            self._tell(change, "failed", str(error))
            raise
        self._tell(replace(change, details={"count": count}), "done")
        return count


def _arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    return {"arguments": dict(arguments)} if arguments else {}


def _queue_change(declaration: QueueDeclaration) -> AuditedChange:
    details = {"durable": declaration.durable, "exclusive": declaration.exclusive}
    return AuditedChange("queues.declare", "queue", declaration.name, details | _arguments(declaration.arguments))


def _binding_change(action: str, binding: Binding) -> AuditedChange:
    kind: ResourceKind = "queue" if binding.destination_is_queue else "exchange"
    details = {"source": binding.source, "binding_key": binding.binding_key}
    return AuditedChange(action, kind, binding.destination, details | _arguments(binding.arguments))

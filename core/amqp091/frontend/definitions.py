"""Exchange and queue methods: what a channel declares, binds, purges and deletes [0-9-1 1.6, 1.7].

The topology has the rules. This module adds what only 0.9.1 has: passive declarations, names that the server chooses,
the queue that was declared last, conditions of a delete.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from core.amqp091 import methods
from core.amqp091.errors import ChannelFault, ReplyCode, quote
from core.amqp091.frontend.direct_reply import DIRECT_REPLY_TO, is_reply_queue
from core.amqp091.frontend.shared import Shared
from core.amqp091.inspection import plain
from core.amqp091.methods import Method
from core.amqp091.table import FieldTable
from core.declaring import Recording
from core.errors import Forbidden, Inequivalent, Locked, NotFound, StillGoing
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.slices import Walk

RESERVED_PREFIX = "amq."
NAME_PREFIX = RESERVED_PREFIX + "gen-"
"""Begins the names of queues that the server chooses, as with RabbitMQ."""


class Begun(NamedTuple):
    """A declaration or deletion that has begun."""

    method: Method
    recording: Recording[Any]
    answer: Callable[[], Method]
    """Returns the answer when the change is recorded. Raises PreconditionFailed if it could not be."""


class DefinitionMethods:
    """The exchange and queue methods of one channel. Raises EngineError and ChannelFault, as the rules say."""

    __slots__ = ("_purge", "_shared", "last_declared")

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.last_declared = ""
        """The queue for a method that names none [0-9-1 1.7.2.1]."""
        self._purge: Walk[int] | None = None
        """The purge that has begun and is not answered yet."""

    def knows(self, method: Method) -> bool:
        """Whether this class answers the method: those of the classes exchange and queue."""
        return type(method) in self._ANSWERS

    def answer(self, method: Method) -> Method:
        """Carry out a method, and return its answer; the caller decides whether to send it (no_wait)."""
        return self._ANSWERS[type(method)](self, method)

    def joins(self, method: Method) -> bool:
        """Whether the method is one for :meth:`begin`."""
        if isinstance(method, methods.QueueDeclare):
            return not method.passive
        return isinstance(method, methods.QueueDelete) and not (method.if_unused or method.if_empty)

    def begin(self, method: methods.QueueDeclare | methods.QueueDelete) -> "Begun":
        """Begin to declare or delete a queue."""
        if isinstance(method, methods.QueueDeclare):
            return self._begin_declaring(method)
        deletion = self._shared.engine.begin_deleting(self.named(method.queue), self._shared.owner)
        return Begun(method, deletion, lambda: methods.QueueDeleteOk(message_count=deletion.result()))

    def named(self, queue: str) -> str:
        """The queue that a method is about. Raises ChannelFault when it names none and none was declared."""
        name = queue or self.last_declared
        if not name:
            raise ChannelFault(ReplyCode.NOT_FOUND, "no previously declared queue")
        return name

    # --- exchanges -------------------------------------------------------------------------------------------------

    def _declare_exchange(self, method: methods.ExchangeDeclare) -> Method:
        if method.passive:
            if not method.exchange:
                raise Forbidden("the default exchange cannot be declared, not even to ask for it")
            self._shared.engine.show_exchange(method.exchange)
            return methods.ExchangeDeclareOk()
        try:
            kind = ExchangeType(method.type)
        except ValueError:
            known = ", ".join(kind.value for kind in ExchangeType)
            text = f"unknown exchange type {quote(method.type)}; there are {known}"
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, text) from None
        self._shared.engine.declare_exchange(
            ExchangeDeclaration(
                name=method.exchange,
                type=kind,
                durable=method.durable,
                auto_delete=method.auto_delete,
                internal=method.internal,
                arguments=_plain(method.arguments),
            )
        )
        return methods.ExchangeDeclareOk()

    def _delete_exchange(self, method: methods.ExchangeDelete) -> Method:
        engine = self._shared.engine
        engine.check("configure", "exchange", method.exchange)
        if method.if_unused and engine.exchange_in_use(method.exchange):
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, f"exchange {quote(method.exchange)} in use")
        engine.delete_exchange(method.exchange)
        return methods.ExchangeDeleteOk()

    def _bind_exchange(self, method: methods.ExchangeBind) -> Method:
        self._shared.engine.bind(_edge(method), self._shared.owner)
        return methods.ExchangeBindOk()

    def _unbind_exchange(self, method: methods.ExchangeUnbind) -> Method:
        self._shared.engine.unbind(_edge(method), self._shared.owner)
        return methods.ExchangeUnbindOk()

    # --- queues ----------------------------------------------------------------------------------------------------

    def _declare_queue(self, method: methods.QueueDeclare) -> Method:
        """Answer a passive declaration; :meth:`begin` is for the others."""
        return self._look_up(self.named(method.queue))

    def _begin_declaring(self, method: methods.QueueDeclare) -> "Begun":
        shared = self._shared
        engine = shared.engine
        if method.queue == DIRECT_REPLY_TO:
            return Begun(method, Recording[None]().finish(None), lambda: methods.QueueDeclareOk(queue=method.queue))
        if method.queue.startswith(RESERVED_PREFIX):
            raise Forbidden(
                f"queue name {quote(method.queue)}: names that begin with {RESERVED_PREFIX} are the broker's"
            )
        name = method.queue or NAME_PREFIX + shared.unique()
        declaration = QueueDeclaration(
            name=name,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=_plain(method.arguments),
        )
        try:
            declared = engine.begin_declaring(declaration, shared.owner, named_by_broker=not method.queue)
        except Inequivalent as error:
            if engine.queue_info(name, shared.owner).declaration.exclusive is method.exclusive:
                raise
            raise Locked(str(error)) from error  # in 0.9.1 every client sees exclusive as a lock
        self.last_declared = name

        def answer() -> Method:
            info, _ = declared.result()
            return methods.QueueDeclareOk(queue=name, message_count=info.ready, consumer_count=info.consumers)

        return Begun(method, declared, answer)

    def _look_up(self, name: str) -> Method:
        """Answer a passive declaration: whether the queue exists."""
        if name == DIRECT_REPLY_TO:
            return methods.QueueDeclareOk(queue=name)
        try:
            info = self._shared.engine.show_queue(name, self._shared.owner)
        except Locked:
            if not is_reply_queue(name):
                raise
            return methods.QueueDeclareOk(
                queue=name, consumer_count=1
            )  # a replier may check whether the requester still waits
        self.last_declared = name
        return methods.QueueDeclareOk(queue=name, message_count=info.ready, consumer_count=info.consumers)

    def _bind_queue(self, method: methods.QueueBind) -> Method:
        self._shared.engine.bind(self._binding(method), self._shared.owner)
        return methods.QueueBindOk()

    def _unbind_queue(self, method: methods.QueueUnbind) -> Method:
        self._shared.engine.unbind(self._binding(method), self._shared.owner)
        return methods.QueueUnbindOk()

    def _binding(self, method: methods.QueueBind | methods.QueueUnbind) -> Binding:
        queue = self.named(method.queue)
        # a method that names neither queue nor key uses the last queue's name for both [0-9-1 1.7.2.3]
        key = queue if not method.queue and not method.routing_key else method.routing_key
        return Binding(
            source=method.exchange,
            destination=queue,
            destination_is_queue=True,
            binding_key=key,
            arguments=_plain(method.arguments),
        )

    def _purge_queue(self, method: methods.QueuePurge) -> Method:
        """Raises StillGoing until everything is purged; the method is tried again in the next turn."""
        queue = self.named(method.queue)
        if self._purge is None:
            self._purge = self._shared.engine.purge_queue(queue, self._shared.owner)
        try:
            next(self._purge)
        except StopIteration as end:
            self._purge = None
            return methods.QueuePurgeOk(message_count=end.value)
        raise StillGoing(f"the purge of queue {quote(queue)} takes more than a turn")

    def _delete_queue(self, method: methods.QueueDelete) -> Method:
        engine, owner = self._shared.engine, self._shared.owner
        name = self.named(method.queue)
        engine.check("configure", "queue", name)
        try:
            info = engine.queue_info(name, owner)
        except NotFound:
            return methods.QueueDeleteOk(message_count=0)
        if method.if_unused and info.consumers:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, f"queue {quote(name)} in use: {info.consumers} consumers")
        if method.if_empty and info.ready:
            raise ChannelFault(ReplyCode.PRECONDITION_FAILED, f"queue {quote(name)} not empty: {info.ready} messages")
        return methods.QueueDeleteOk(message_count=engine.delete_queue(name, owner))

    _ANSWERS: ClassVar[Mapping[type[Method], Callable[..., Method]]] = {
        methods.ExchangeDeclare: _declare_exchange,
        methods.ExchangeDelete: _delete_exchange,
        methods.ExchangeBind: _bind_exchange,
        methods.ExchangeUnbind: _unbind_exchange,
        methods.QueueDeclare: _declare_queue,
        methods.QueueBind: _bind_queue,
        methods.QueueUnbind: _unbind_queue,
        methods.QueuePurge: _purge_queue,
        methods.QueueDelete: _delete_queue,
    }
    """Shared by all objects: bound methods in each one would be a reference cycle, for the garbage collector to
    free."""


def _edge(method: methods.ExchangeBind | methods.ExchangeUnbind) -> Binding:
    return Binding(
        source=method.source,
        destination=method.destination,
        destination_is_queue=False,
        binding_key=method.routing_key,
        arguments=_plain(method.arguments),
    )


def _plain(arguments: FieldTable) -> dict[str, object]:
    """Arguments for the engine, its files and other protocols: plain values without 0.9.1 types."""
    return {name: plain(value) for name, value in arguments.items()}

"""Links of clients whose queue has lost its leader: they stay, and go on at the next leader.

A publisher sees link credit 0 with the reason ``no-quorum``, and link credit again when another node leads. Its
messages without an answer are released before: the former leader may have them, or not, so they are neither called
accepted nor sent again by this node. What it had sent before it knew is released too.

A consumer keeps its link credit, and gets messages for it when another node leads. What it has not settled is released,
because it comes again, flagged as redelivered; what it says of it afterwards has no effect.

A consumer of a stream goes on behind the last message that was sent on its link, because offsets are the same at each
node; one that has had none, where it began. One that was to begin at the end, and whose leader was lost before it had
said which offset that is, does not stay.

Links of other nodes do not stay, and neither do those of a client that follows leaders: it attaches them again where
the leader is.
"""

from collections.abc import Callable, Iterator

from amqp10.errors import LinkFault
from amqp10.frontend.conditions import link_fault
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.publisher_windows import ConnectionWindows
from amqp10.frontend.reasons import BlockWatches
from amqp10.protocol.connection import Connection
from amqp10.protocol.leader import follows_leaders
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from core.access.checked_engine import CheckedEngine
from core.errors import EngineError, HomeLost
from core.interface import Consumer, QueueTarget
from core.leader_losses import LeaderLosses, moves


class MovedLinks:
    """The links of one connection that wait for a leader."""

    __slots__ = ("_blocks", "_connection", "_consumers", "_engine", "_losses", "_windows")

    def __init__(
        self,
        connection: Connection,
        engine: CheckedEngine,
        windows: ConnectionWindows,
        blocks: BlockWatches,
    ) -> None:
        self._connection, self._engine = connection, engine
        self._windows, self._blocks = windows, blocks
        self._losses: LeaderLosses[PublisherLink | ConsumerLink] = LeaderLosses()
        self._consumers: dict[ConsumerLink, Consumer] = {}
        """The former consumer of each consuming link that waits."""

    @property
    def deadline(self) -> float | None:
        """When a link is to be tried (monotonic seconds); None if none waits."""
        return self._losses.deadline

    @property
    def waiting(self) -> bool:
        """Whether a link waits."""
        return bool(self._losses.waiting)

    def keep(self, user: PublisherLink | ConsumerLink, error: EngineError, owner: object, monotonic: float) -> bool:
        """Keep a link whose queue has ended for it, if another node will lead the queue, or leads it already. Returns
        whether the link is kept: :meth:`attempts` has it go on. ``owner``: the connection's identity."""
        if isinstance(user, PublisherLink):
            return self._keep_publisher(user, error, monotonic)
        return self._keep_consumer(user, error, owner, monotonic)

    def _keep_publisher(self, user: PublisherLink, error: EngineError, monotonic: float) -> bool:
        if user.is_of_node or user.link.reference is not user:
            return False
        target = user.publisher.fixed_target
        if not isinstance(target, QueueTarget):
            return False
        if not self._moves(error, target.queue, user.publisher.owner):
            return False
        user.leader_lost()
        self._wait(user, monotonic)
        return True

    def _keep_consumer(self, user: ConsumerLink, error: EngineError, owner: object, monotonic: float) -> bool:
        consumer = user.consumer
        if consumer is None or user.is_of_node or consumer.options.holder or consumer.options.getter:
            return False
        if not self._moves(error, consumer.queue_name, owner):
            return False
        user.leader_lost()
        if user.place is not None and user.place.next_offset(consumer) is None:
            return False
        self._consumers[user] = consumer
        self._wait(user, monotonic)
        return True

    def _moves(self, error: EngineError, queue: str, owner: object) -> bool:
        """Whether the error says that the queue has lost its leader, and the client does not look for the next one
        itself."""
        return moves(self._engine, error, queue, owner) and not follows_leaders(self._connection.remote)

    def _wait(self, user: PublisherLink | ConsumerLink, monotonic: float) -> None:
        self._losses.wait(user, monotonic)
        self._blocks.look_at(user)

    def attempts(
        self, owner: object, monotonic: float, detach: Callable[[SenderLink | ReceiverLink, LinkFault], None]
    ) -> Iterator[None]:
        """Have the links go on whose time has come, one at each step. ``owner``: the connection's identity; ``detach``
        ends a link that cannot stay."""
        for user in self._losses.due(monotonic):
            try:
                if isinstance(user, PublisherLink):
                    self._publish_again(user, monotonic)
                else:
                    self._consume_again(user, owner)
            except HomeLost:
                self._wait(user, monotonic)
            except EngineError as error:
                detach(user.link, link_fault(error))
            else:
                self._blocks.look_at(user)
            yield

    def _publish_again(self, user: PublisherLink, monotonic: float) -> None:
        former = user.publisher
        publisher = self._engine.publisher(former.mailbox, former.owner, former.fixed_target, user)
        user.go_on(publisher, lambda: self._windows.link_credit_rule(user, self._engine, monotonic))

    def _consume_again(self, user: ConsumerLink, owner: object) -> None:
        former = self._consumers[user]
        self._engine.check_source(former.queue_name)
        options = user.options_anew(former)
        user.continue_with(self._engine.consume(former.queue_name, former.mailbox, owner, options, user))
        del self._consumers[user]

    def forget(self, user: PublisherLink | ConsumerLink) -> None:
        """The link is over."""
        self._losses.forget(user)
        if isinstance(user, ConsumerLink):
            self._consumers.pop(user, None)

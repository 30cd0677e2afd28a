"""How a client's links begin: an attach becomes a publisher or a consumer of the engine, or is refused.

This object knows which address an attach names, what is to be checked before it, and what the answer says of the link.
It counts the links of one connection that have a publisher or a consumer. Links to the management node and to ``$flow``
of one's own connection are handed on to the objects that have them. What goes over a link, it does not know.
"""

from collections.abc import Callable

from amqp10.addresses import MANAGEMENT_ADDRESS
from amqp10.errors import AmqpError
from amqp10.frontend import termini
from amqp10.frontend.conditions import fault_of
from amqp10.frontend.flow_self import FLOW_SELF, ConnectionFlow, refuse_sender
from amqp10.frontend.headers import AttributesByHeader, HeaderByAttributes
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.management_links import ManagementRequests
from amqp10.frontend.operating import AlarmEffects
from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.publisher_windows import ConnectionWindows
from amqp10.frontend.session_watches import session_of
from amqp10.frontend.snapshots import link_identity
from amqp10.frontend.stream_place import StreamPlace
from amqp10.protocol.connection import Connection
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.wire.performatives import Attach
from core.access.checked_engine import CheckedEngine
from core.clock import Now
from core.config.amqp10 import Amqp10Settings
from core.counters.traffic import Traffic
from core.errors import EngineError
from core.interface import Converter, Mailbox
from core.server.frontends import PeerInfo
from core.work import Work


class Attaching:
    """The links of one connection, as they begin and end [2.6.3]."""

    __slots__ = (
        "_alarms", "_attributes", "_converter", "_engine", "_flow", "_headers", "_info", "_leader", "_mailbox",
        "_management", "_settings", "_traffic", "_windows", "_work", "consumers", "dynamic",
    )  # fmt: skip

    def __init__(
        self,
        info: PeerInfo,
        connection: Connection,
        engine: CheckedEngine,
        mailbox: Mailbox,
        *,
        converter: Converter,
        settings: Amqp10Settings,
        traffic: Traffic,
        work: Work,
        management: ManagementRequests,
        windows: ConnectionWindows,
        alarms: AlarmEffects,
        flow: ConnectionFlow,
        unique: Callable[[], str],
        leader: Callable[[str | None], dict[str, object]],
    ) -> None:
        """``unique`` and ``leader`` are as the front end has them."""
        self._info, self._engine, self._mailbox, self._converter = info, engine, mailbox, converter
        self._settings, self._traffic, self._work = settings, traffic, work
        self._management, self._windows, self._alarms, self._flow = management, windows, alarms, flow
        self._leader = leader
        self._attributes, self._headers = AttributesByHeader(), HeaderByAttributes()
        self.dynamic = termini.DynamicNodes(connection, engine, owner=info.identity, unique=unique)
        """The queues behind the dynamic nodes of its links."""
        self.consumers: dict[ConsumerLink, None] = {}
        """The consuming links, in order of attaching."""

    def receiver_attached(self, link: ReceiverLink, attach: Attach, now: Now) -> None:
        """The client wants to publish."""
        session = session_of(link)
        try:
            target = termini.requested_target(attach)
            if target.address == MANAGEMENT_ADDRESS:
                self._management.links_of(session).receiver_attached(link, attach)
                return
            if target.address == FLOW_SELF:
                raise refuse_sender()
            self._alarms.check_welcome(self._engine, attach)
            queue_name = self.dynamic.make(link, attach.name, target.address) if target.dynamic else None
            effective = termini.effective_target(target, queue_name)
            engine_target = None if effective.address is None else termini.engine_target(str(effective.address))
            publisher = self._engine.publisher(self._mailbox, self._info.identity, engine_target, link)
        except (EngineError, AmqpError) as error:
            self._refuse(link, fault_of(error))
            return
        link.reference = publisher.reference = PublisherLink(
            link, publisher, name=link_identity(self._info, session, link), engine=self._engine,
            rights=self._engine.rights, attributes=self._attributes, settings=self._settings, traffic=self._traffic,
            work=self._work, from_node=self._alarms.node is not None,
        )  # fmt: skip
        self._traffic.publishers += 1
        self._engine.begin_link()
        self._alarms.publisher_attached(link.reference, session, now)
        link.attach(
            source=attach.source,
            target=effective,
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            credit=self._windows.link_credit_rule(link.reference, self._engine, now.monotonic),
            max_message_size=self._settings.max_message_size,
            properties={**link.reference.attach_properties(), **self._leader(publisher.home)},
        )
        link.reference.flow = self._flow.recorder_of(link.reference)

    def sender_attached(self, link: SenderLink, attach: Attach, now: Now) -> bool:
        """The client wants to consume. Returns whether it consumes from a queue now."""
        session = session_of(link)
        try:
            source = termini.requested_source(attach)
            if source.address == MANAGEMENT_ADDRESS:
                self._management.links_of(session).sender_attached(link, attach)
                return False
            if source.address == FLOW_SELF and not source.dynamic:
                self._flow.receiver_attached(link, attach)
                return False
            self._alarms.check_welcome(self._engine, attach)
            queue_name = self.dynamic.source_queue(link, attach.name, source)
            self._engine.check_source(queue_name)
            user = ConsumerLink(
                link, engine=self._engine, converter=self._converter, headers=self._headers,
                batch=self._settings.max_queue_credit, traffic=self._traffic,
                bytes_wanted=termini.unsettled_bytes_max(attach), sizes=self._windows.grant_size(),
                to_node=self._alarms.node is not None,
            )  # fmt: skip
            queue = self._engine.queue_info(queue_name, self._info.identity)
            if queue.type == "stream":
                user.of_stream, user.place = True, StreamPlace()
            stream = termini.checked_filters(source, queue, now.wall)
            options = termini.consume_options(attach, source, stream, queue, self._alarms.node)
            user.consumer = self._engine.consume(queue_name, self._mailbox, self._info.identity, options, user)
        except (EngineError, AmqpError) as error:
            self._refuse(link, fault_of(error))
            return False
        link.reference = user
        self.consumers[user] = None
        self._traffic.consumers += 1
        self._engine.begin_link()
        link.attach(
            source=termini.effective_source(source, queue_name, stream),
            target=attach.target,
            snd_settle_mode=1 if attach.snd_settle_mode == 1 else 0,
            rcv_settle_mode=attach.rcv_settle_mode,
            max_message_size=attach.max_message_size,
            properties={termini.QUEUE_IDENTITY: queue.identity, **user.attach_properties(), **self._leader(queue.home)},
        )
        user.flow = self._flow.recorder_of(user)
        return True

    def ended(self, user: PublisherLink | ConsumerLink) -> None:
        """A link with a publisher or a consumer is over."""
        self._engine.end_link()
        if isinstance(user, PublisherLink):
            self._traffic.publishers -= 1
        else:
            del self.consumers[user]
            self._traffic.consumers -= 1

    def _refuse(self, link: SenderLink | ReceiverLink, fault: AmqpError) -> None:
        self.dynamic.delete(link)
        session_of(link).refuse(link, fault)

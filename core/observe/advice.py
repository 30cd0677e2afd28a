"""The closed list of reasons why a link waits: what each means, which figures show it and what to do about it.

``headgate why``, its help and the page docs/operating/why-blocked.md are made of :data:`ADVICE`. Every reason has an
entry: a test compares the table with :class:`core.interface.FlowReason`.

The texts are for operators of a broker: they name no class and no module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from core.interface import FlowReason


class HopKind(StrEnum):
    """A place where messages pass from one part to the next, on the way from a publisher to a consumer."""

    PUBLISHER_SESSION = "publisher -> session"
    SESSION_LINK = "session -> link"
    LINK_QUEUE = "link -> queue"
    LINK_EXCHANGE = "link -> exchange"
    PUBLISHER_QUEUE = "publisher -> queue"
    """All publishers of a queue together, as a consumer or the queue itself sees them."""
    QUEUE_STORE = "queue -> store"
    QUEUE_LINK = "queue -> link"
    LINK_SESSION = "link -> session"
    SESSION_CONSUMER = "session -> consumer"
    QUEUE_CONSUMER = "queue -> consumer"
    """All consumers of a queue together."""
    PUBLISHER_READER = "publisher -> reader"
    READER_CHANNEL = "reader -> channel"
    CHANNEL_QUEUE = "channel -> queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to tell about one reason, on any link that waits for it."""

    direction: str
    """``in`` from publishers, ``out`` to consumers, or ``in, out``."""
    hop: HopKind
    """The hop on which the reason acts, on a link of AMQP 1.0; stage credit is AMQP 0.9.1's."""
    means: str
    shows: str
    """The figures that show it."""
    do: str


ADVICE: Mapping[FlowReason, Advice] = MappingProxyType({
    FlowReason.DRAIN_MODE: Advice(direction="in, out", hop=HopKind.PUBLISHER_SESSION,
        means="The broker is being drained for a stop: publishers get no link credit, and consumers nothing more; they"
        " go on settling what they have.",
        shows="`alarms` of the connection, `held_up_by` of a consumer's link",
        do="Connect to another broker, or wait for the start. `headgate undrain` ends it."),
    FlowReason.MEMORY: Advice(direction="in", hop=HopKind.PUBLISHER_SESSION,
        means="The broker is low on memory: every publisher waits, consumers go on.",
        shows="`alarms`, `used` and `limit` of the alarm, `incoming_window` 0",
        do="Consume what is queued, or give the broker more memory: `headgate memory status` has the figures,"
        " `headgate queues list` the long queues. `headgate alarms clear memory` if it was raised by hand."),
    FlowReason.DISK: Advice(direction="in", hop=HopKind.PUBLISHER_SESSION,
        means="The disk of the data folder is short of space: every publisher waits, consumers go on.",
        shows="`alarms`, `free` and `free_limit` of the alarm, `incoming_window` 0",
        do="Consume, purge, or give the disk more room: `headgate disk status` has the figures."
        " `headgate alarms clear disk` if it was raised by hand."),
    FlowReason.PAUSED: Advice(direction="in, out", hop=HopKind.SESSION_LINK,
        means="An operator has paused the link.",
        shows="`paused`",
        do="Ask the operator who paused it. `headgate links resume LINK` lets it go on."),
    FlowReason.RATE_LIMIT: Advice(direction="in", hop=HopKind.SESSION_LINK,
        means="The link has used up what a limit lets be published in a second, and gets link credit as the time"
        " passes. Nothing is lost.",
        shows="`rate_limit`, `link_credit` 0",
        do="Nothing, if the limit is meant. Else raise it: `publish-rate` and `publish-rate-bytes` of the policy of a"
        " queue or an exchange (`headgate policies explain QUEUE`), of a user (`headgate user-limits list`), of a"
        " virtual host (`headgate vhosts list`), or `amqp10.connection_publish_rate`."),
    FlowReason.POLICY: Advice(direction="in, out", hop=HopKind.SESSION_LINK,
        means="A policy or an operator bounds the link: a publisher's link credit is used up, or a consumer holds as"
        " many unsettled messages or bytes as it may. A consumer may have set the bound in bytes itself.",
        shows="of a publisher, `link_credit` 0, `bound_by_policy` or `bound_by_operator`, `unconfirmed`; of a consumer,"
        " `unsettled` and `unsettled_max`, `unsettled_bytes` and `unsettled_bytes_max`",
        do="`headgate policies explain QUEUE` names the policy. Of a publisher: raise its max-link-credit, or find out"
        " why the queue is slow to answer. Of a consumer: find out why it is slow to settle, or raise max-unsettled or"
        " max-unsettled-bytes."
        " A bound by hand ends with `headgate links set-credit LINK --reset`."),
    FlowReason.LEADER_MOVING: Advice(direction="in", hop=HopKind.LINK_QUEUE,
        means="The node that leads the group of the quorum queue has handed it over to another node, for maintenance or"
        " because leaders are spread anew. The queue takes on nothing until that node leads, which takes half a second."
        " Nothing is lost.",
        shows="`withheld_for` `leader-moving`",
        do="Wait. If it lasts for more than 3 seconds, the reason becomes no-quorum: see `headgate cluster status`."),
    FlowReason.NO_QUORUM: Advice(direction="in", hop=HopKind.LINK_QUEUE,
        means="The quorum queue takes on and delivers nothing, because this node does not lead its group. Nothing is"
        " lost: what was accepted stays.",
        shows="`withheld_for` `no-quorum`",
        do="Wait for the next leader: `headgate cluster status` shows which nodes are there and what they lead. A"
        " broker alone leads as long as it runs."),
    FlowReason.QUEUE_FULL: Advice(direction="in", hop=HopKind.LINK_QUEUE,
        means="The queue is at its length limit, and its overflow is block: its publishers get no link credit.",
        shows="`messages_ready` and `max_length`, or `ready_bytes` and `max_length_bytes`",
        do="Consume: add consumers, or find out why those that are there do not settle. Else raise the limit, or let"
        " the queue drop or reject with another x-overflow."),
    FlowReason.MEMORY_SHARE: Advice(direction="in", hop=HopKind.SESSION_LINK,
        means="The messages of the link are so large that a budget of bytes, of the link, of its connection or of the"
        " broker, allows no more of them under way. Only with adaptive flow control.",
        shows="`link_credit` 0, `limited_by` `bytes`, `byte_budget` and `bytes_held`",
        do="Find out why the queue is slow to answer: `headgate queues show QUEUE`. Where memory allows, raise"
        " `amqp10.link_unconfirmed_bytes_max`, `amqp10.connection_unconfirmed_bytes_max` or"
        " `amqp10.unconfirmed_bytes_max`, as `byte_budget` says."),
    FlowReason.STORE_SLOW: Advice(direction="in", hop=HopKind.QUEUE_STORE,
        means="The link credit is used up, and messages of the link wait for a sync of the disk.",
        shows="`unsynced`, `staged_bytes` and `last_sync_seconds` of the lane",
        do="A quicker disk; more messages under way at a time, for all that come in during a sync share the next one;"
        " or a classic queue, where what it promises is enough."),
    FlowReason.UNCONFIRMED_LIMIT: Advice(direction="in", hop=HopKind.LINK_QUEUE,
        means="As many messages of the link as may be are without an outcome: the queue does not take them on. With the"
        " rcv-settle-mode second, the client does not settle: the culprit is `client` then.",
        shows="`link_credit` 0, `unconfirmed` and `unconfirmed_limit`, `messages_waiting` of the queue; `unsettled` and"
        " `unsettled_full` when the client does not settle",
        do="Find out why the queue is slow: `headgate queues show QUEUE`. Raise `amqp10.unconfirmed_limit` for long"
        " round trips only. If the culprit is the client, let it settle what has an outcome, or attach with the"
        " rcv-settle-mode first; `amqp10.unsettled_limit` is how many messages it may leave unsettled."),
    FlowReason.STAGE_CREDIT: Advice(direction="in", hop=HopKind.READER_CHANNEL,
        means="The broker reads no more from an AMQP 0.9.1 connection: a later stage is slower than its client.",
        shows="`stage_credit_state` and `stage_credit_held_up_by` of connection, channel and queue",
        do="By stage. Channel: fewer bindings on the way, more connections. Queue: several queues, or a classic one"
        " instead of a quorum queue. Message store: a quicker disk, or smaller messages. Publish to slow targets on a"
        " connection of its own."),
    FlowReason.SESSION_WINDOW: Advice(direction="out", hop=HopKind.LINK_SESSION,
        means="Deliveries wait because the client's incoming-window is used up.",
        shows="`waiting` above 0, `remote_incoming_window` 0",
        do="Look at the client: it is slow to read, or its incoming-window is too small for what it asks for."),
    FlowReason.LINK_CREDIT: Advice(direction="out", hop=HopKind.QUEUE_LINK,
        means="Messages are ready, and the client has granted no link credit for them.",
        shows="`messages_ready` above 0, `link_credit` 0",
        do="Look at the client: it has to grant link credit with a flow; settling alone gives none. With AMQP 0.9.1"
        " it has to acknowledge, or ask for a larger prefetch_count."),
    FlowReason.SOCKET: Advice(direction="out", hop=HopKind.SESSION_CONSUMER,
        means="Deliveries wait because the client does not read: its socket is full.",
        shows="`waiting` and `backlog_bytes` above 0",
        do="Look at the client, which is busy or hangs, and at the network between."),
    FlowReason.NO_MESSAGE: Advice(direction="out", hop=HopKind.QUEUE_LINK,
        means="Nothing holds it up: the client has granted link credit, and no message is ready.",
        shows="`link_credit` above 0, `messages_ready` 0",
        do="Nothing, or look at the publishers: `headgate why QUEUE` shows whether one of them waits. Messages that"
        " others hold unsettled are `messages_unacknowledged`."),
    FlowReason.INACTIVE: Advice(direction="out", hop=HopKind.QUEUE_LINK,
        means="Another consumer of the queue is the single active one.",
        shows="`active` false",
        do="Nothing, if that is what x-single-active-consumer was set for: it takes over when the active one goes."
        " `headgate why QUEUE` shows who consumes."),
})  # fmt: skip
"""In the order of precedence of the reasons."""


class WaitsFor(StrEnum):
    """What a queue needs before it hands messages out. This is no reason why a link is blocked: a queue is there to
    keep messages that no consumer takes yet."""

    MESSAGE = "no message"
    CONSUMER = "no consumer"
    LINK_CREDIT = "consumers without link credit"
    SETTLEMENT = "unacknowledged limit"
    OPERATOR = "paused consumers"


QUEUE_ADVICE: Mapping[WaitsFor, tuple[str, str]] = MappingProxyType({
    WaitsFor.MESSAGE: ("Nothing is ready in it.", "Nothing, or look at its publishers."),
    WaitsFor.CONSUMER: ("Messages are ready, and the queue has no consumer.", "Start a consumer."),
    WaitsFor.LINK_CREDIT: ("Messages are ready, and no consumer has link credit left.",
        "Look at the clients: they have to grant link credit with a flow; settling alone gives none."),
    WaitsFor.SETTLEMENT: (
        ("Messages are ready, and its consumers hold as many unsettled ones, or bytes, as prefetch_count,"
            " max-unsettled or max-unsettled-bytes allows."),
        "Look at the clients: they have to settle what they hold. Else raise the limit, which may be an operator's."),
    WaitsFor.OPERATOR: ("Messages are ready, and an operator has paused its consumers.",
        "`headgate links resume LINK` lets them go on."),
})  # fmt: skip
"""For each: what it means for a queue, and what to do."""

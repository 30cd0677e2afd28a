"""One broker and several clients that do anything at any time, against a simple model of the result.

The clients are whole engines. Bytes cross, trickle, wait for sockets that are not read, and are lost with their
connection. Histories come from a seed, as in ``test_random_peers``. The model knows each message by its body: how often
it may arrive, and whether it must.

- A message arrives once, and once more each time it was given back; never after it was accepted or rejected. A message
  that was lost with a connection before its state was known may arrive, and need not.
- A queue with one consumer at a time hands out each publisher's messages in order, returned ones at their old place.
- No link gets more than its link credit, and no more than a batch of a queue is out on one link.
- When everything is at rest, both sides count the same, no ready message has a consumer that could take it, and the
  broker's own snapshots show what the clients hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis import given, settings

from amqp10.protocol.lifecycle import LinkState, SessionState
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Session
from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Outcome, Rejected, Source
from amqp10.wire.sections import decode_header, scan
from core.config.settings import Settings
from tests.kit.broker_clients import BrokerClient, rest
from tests.kit.client_frames import DURABLE
from tests.kit.peers import FIRST, MIXED, SECOND, SETTLED, UNSETTLED, Delivery, Outbox
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, body_of, data_message

T = TypeVar("T")

CLIENTS_MAX = 3
SESSIONS_MAX = 2
ORDERED, SHARED, SETTLING = "ordered", "shared", "settling"
"""Queues with one consumer at a time, with any number of consumers, and with consumers that get everything settled."""
QUEUES = (ORDERED, SHARED, SETTLING)
SIZES = (0, 3, 60, 700)
PIECES = (1, 8, 9, 50, 200, 1000, 2**30, 2**30)
GRANTS = (0, 1, 2, 3, 5, 8, 20, 256, 257, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
OUTCOMES: tuple[Outcome, ...] = (
    ACCEPTED,
    ACCEPTED,
    Rejected(),
    RELEASED,
    Modified(delivery_failed=True),
    Modified(undeliverable_here=True),
    Modified(message_annotations={"x-opt-seen": True}),
)
FINAL = (ACCEPTED, Rejected())
OPERATIONS = (
    *("carry_to_broker", "carry_to_client") * 5,
    *("publish", "grant", "settle") * 4,
    *("attach_publisher", "attach_consumer") * 2,
    *("connect", "begin", "detach", "end", "lose", "echo", "open_window", "close_window", "come_to_rest"),
    *("stall", "recover", "raise_alarm", "clear_alarms", "stop_reading", "go_on_reading", "wait"),
)
SMALL = make_settings(
    amqp10={
        "max_queue_credit": 8,
        "max_link_credit": 10,
        "link_credit_top_up": 5,
        "unconfirmed_limit": 10,
        "max_incoming_window": 12,
        "window_top_up": 6,
        "incoming_window_margin": 12,
        "max_frame_size": 512,
        "unsent_bytes_max": 1500,
    }
)
"""Limits so small that every one of them is reached."""


@dataclass
class Message:
    """What the model knows of one message."""

    queue: str
    publisher: int
    place: int
    sure: bool = False
    """True when the broker has the message."""
    done: bool = False
    """True when a consumer has accepted or rejected it, and the broker knows that."""
    uncertain: bool = False
    """True when a frame about it was lost with a connection, so that the model cannot know whether the broker
    has it."""
    arrivals: int = 0
    returns: int = 0


@dataclass
class Held:
    """A delivery that its consumer holds, or has given a final outcome that may not have reached the broker."""

    message: Message
    link: ReceiverLink
    delivery: Delivery
    outcome: Outcome | None = None


@dataclass(eq=False)
class Client:
    """A connection, and what the model knows of it."""

    inner: BrokerClient
    held: dict[bytes, Held] = field(default_factory=dict)
    """The deliveries by body."""
    boxes: dict[Outbox, tuple[str, int]] = field(default_factory=dict)
    """The queue and the publisher's number of every outbox, also of those that are detached."""
    reading: bool = True
    looked_at: dict[ReceiverLink, int] = field(default_factory=dict)
    """How many deliveries of a link the model has seen."""


class World:
    """The broker, its clients, and the model."""

    def __init__(self, front_end: Settings) -> None:
        self.broker = InProcessBroker(front_end)
        self.addresses = {name: self.broker.queue(name) for name in QUEUES}
        self.clients: list[Client] = []
        self.messages: dict[bytes, Message] = {}
        self.consumers: dict[ReceiverLink, str] = {}
        """The queue of each consumer, while the consumer may be attached."""
        self.seen: dict[ReceiverLink, dict[int, int]] = {}
        """The last place by publisher, for consumers of an ordered queue."""
        self.barred: set[tuple[bytes, ReceiverLink]] = set()
        self.stalled: set[str] = set()
        self.alarms: set[str] = set()
        self.publishers = 0
        self.links = 0
        self.connect(0, 0, 0)
        self.connect(0, 0, 0)
        for name in range(3):
            self.attach_publisher(name, name, 0)
            self.attach_consumer(name, name, 0)
        self.come_to_rest(0, 0, 0)

    # --- connections, sessions, links

    def connect(self, _: int, __: int, ___: int) -> None:
        if len(self.clients) < CLIENTS_MAX:
            self.clients.append(Client(BrokerClient(self.broker)))

    def begin(self, which: int, _: int, __: int) -> None:
        for client in pick(self.clients, which):
            if len(client.inner.side.connection.all_sessions) < SESSIONS_MAX:
                client.inner.begin()

    def attach_publisher(self, which: int, queue: int, settled: int) -> None:
        for client, session in pick(self._sessions(), which):
            name = QUEUES[queue % 3]
            snd = SETTLED if settled % 3 == 1 else UNSETTLED
            link = client.inner.attach_sender(session, self._name(), self.addresses[name], snd=snd)
            client.boxes[client.inner.side.outboxes[link.end.name]] = (name, self.publishers)
            self.publishers += 1

    def attach_consumer(self, which: int, queue: int, mode: int) -> None:
        name = QUEUES[queue % 3]
        for client, session in pick(self._sessions(), which):
            if len(self._consumers_of(name)) >= (1 if name == ORDERED else 3):
                continue
            snd, rcv = (SETTLED, FIRST) if name == SETTLING else (MIXED, (FIRST, SECOND)[mode % 2])
            link = client.inner.attach_receiver(session, self._name(), self.addresses[name], snd=snd, rcv=rcv)
            self.consumers[link] = name
            self.seen[link] = {}

    def detach(self, which: int, sender: int, closed: int) -> None:
        for client, link in pick(self._attached(), which):
            if isinstance(link, ReceiverLink):
                self._consumer_over(client, link)
            session_of(link).detach(link, closed=bool(closed % 2))

    def end(self, which: int, really: int, _: int) -> None:
        for client, session in pick(self._sessions(), which):
            if really == 0:
                for link in session.links:
                    if isinstance(link, ReceiverLink):
                        self._consumer_over(client, link)
                session.end()

    def lose(self, which: int, really: int, _: int) -> None:
        for client in pick(self.clients, which):
            if really < 3:
                self.clients.remove(client)
                mine = [link for link in self.consumers if session_of(link).connection is client.inner.side.connection]
                for link in mine:
                    self._consumer_over(client, link)
                    del self.consumers[link]
                client.inner.lose()
                for held in client.held.values():
                    held.message.returns += 1
                    held.message.uncertain = True
                for box in client.boxes:
                    for body in box.sent:
                        message = self.messages[body_of(body)]
                        message.uncertain = message.uncertain or not message.sure

    # --- messages

    def publish(self, which: int, n: int, size: int) -> None:
        for client, box in pick(self._boxes(), which):
            queue, publisher = client.boxes[box]
            for index in range(n):
                place = sum(message.publisher == publisher for message in self.messages.values())
                body = b"%d:%d:" % (publisher, place) + b"." * SIZES[(size + index) % 4]
                self.messages[body] = Message(queue, publisher, place)
                box.put([(DURABLE if n % 4 == 0 else b"") + data_message(body)])

    def grant(self, which: int, n: int, flags: int) -> None:
        for _, link in pick(self._receivers(), which):
            link_credit = GRANTS[n]
            link.grant(link_credit, drain=flags == 0 and link_credit < 2**31, echo=flags in (0, 1))

    def settle(self, which: int, first: int, more: int) -> None:
        """Settle adjoining deliveries of one link."""
        candidates = [(client, link) for client, link in self._receivers() if self._unsettled(client, link)]
        for client, link in pick(candidates, which):
            unsettled = self._unsettled(client, link)
            begin = first % len(unsettled)
            start = unsettled[begin].delivery_id
            batch = [
                delivery
                for place, delivery in enumerate(unsettled[begin : begin + 1 + more])
                if delivery.delivery_id == start + place
            ]
            outcome = OUTCOMES[(first + more) % len(OUTCOMES)]
            for delivery in batch:
                body = body_of(delivery.body)
                if outcome in FINAL:
                    client.held[body].outcome = outcome
                    continue
                client.held.pop(body).message.returns += 1
                if outcome == Modified(undeliverable_here=True):
                    self.barred.add((body, link))
            link.settle(start, batch[-1].delivery_id, outcome)

    def _look(self, client: Client) -> None:
        """Read the deliveries that came."""
        for link in [link for link in self.consumers if link in client.inner.side.links.values()]:
            assert isinstance(link.reference, list)
            new = link.reference[client.looked_at.get(link, 0) :]
            client.looked_at[link] = len(link.reference)
            for delivery in new:
                self._arrived(client, link, delivery)

    def _arrived(self, client: Client, link: ReceiverLink, delivery: Delivery) -> None:
        body = body_of(delivery.body)
        message = self.messages[body]
        message.arrivals += 1
        message.sure = True
        assert message.queue == self.consumers[link]
        assert not message.done, "delivered after it was accepted or rejected"
        assert message.arrivals <= 1 + message.returns, "delivered twice"
        assert (body, link) not in self.barred
        assert delivery.settled is (message.queue == SETTLING)
        self._check_header(delivery.body, message)
        if delivery.settled:
            message.done = True
        else:
            client.held[body] = Held(message, link, delivery)
        if message.queue == ORDERED and message.arrivals == 1:
            assert message.place > self.seen[link].get(message.publisher, -1), "out of order"
            self.seen[link][message.publisher] = message.place

    @staticmethod
    def _check_header(payload: bytes, message: Message) -> None:
        bounds = scan(payload)
        assert bounds.header is not None
        header = decode_header(payload, *bounds.header)
        assert message.arrivals == 1 or not header.first_acquirer
        assert (header.delivery_count or 0) <= message.returns

    def _consumer_over(self, client: Client, link: ReceiverLink) -> None:
        """Note that a consumer has ended. Its messages come back, but for those with a final outcome that reaches the
        broker."""
        if link not in self.consumers:
            return
        for body, held in list(client.held.items()):
            if held.link is link and held.outcome is None:
                del client.held[body]
                held.message.returns += 1
        for message in self.messages.values():
            if message.queue == SETTLING == self.consumers[link] and not message.done:
                message.uncertain = True

    # --- bytes, and the state of the broker

    def carry_to_broker(self, which: int, _: int, size: int) -> None:
        for client in pick(self.clients, which):
            client.inner.carry_to_broker(PIECES[size])

    def carry_to_client(self, which: int, _: int, size: int) -> None:
        for client in pick(self.clients, which):
            client.inner.carry_to_client(PIECES[size])
            self._look(client)

    def stop_reading(self, which: int, writes: int, _: int) -> None:
        for client in pick(self.clients, which):
            client.reading = False
            client.inner.wire.stop_reading(writes=writes % 3)

    def go_on_reading(self, which: int, _: int, __: int) -> None:
        for client in pick([client for client in self.clients if not client.reading], which):
            client.reading = True
            client.inner.wire.go_on_reading()

    def open_window(self, which: int, _: int, __: int) -> None:
        for _client, session in pick(self._sessions(), which):
            session.open_incoming_window()

    def close_window(self, which: int, _: int, __: int) -> None:
        for _client, session in pick(self._sessions(), which):
            session.close_incoming_window()

    def echo(self, which: int, link: int, _: int) -> None:
        for _client, session in pick(self._sessions(), which):
            session.send_flow(echo=True)
        for _client, receiver in pick(self._receivers(), link):
            receiver.write_flow(echo=True)

    def stall(self, _: int, queue: int, messages_per_turn: int) -> None:
        """Let a queue take on no messages, or few in each turn."""
        self.broker.engine.set_stage_budget(QUEUES[queue % 3], messages_per_turn)
        self.stalled.add(QUEUES[queue % 3])

    def recover(self, _: int, __: int, ___: int) -> None:
        for name in sorted(self.stalled):
            self.broker.recover(name)
        self.stalled.clear()

    def raise_alarm(self, which: int, _: int, __: int) -> None:
        alarm = ("memory", "disk")[which % 2]
        self.broker.raise_alarm(alarm)
        self.alarms.add(alarm)

    def clear_alarms(self, _: int, __: int, ___: int) -> None:
        for alarm in sorted(self.alarms):
            self.broker.clear_alarm(alarm)
        self.alarms.clear()

    def wait(self, _: int, __: int, ___: int) -> None:
        """Let enough time pass for the broker to say why a link is blocked."""
        if all(client.reading for client in self.clients):
            self.broker.advance(0.06)

    # --- what must hold

    def check(self) -> None:
        """Check what must hold at all times."""
        batch = self.broker.settings.amqp10.max_queue_credit
        for client in self.clients:
            side, front_end = client.inner.side, client.inner.wire.front_end
            assert side.connection.opened
            assert all(line[2] is None for line in side.log if line[1] in ("detached", "ended"))
            for session in front_end.connection.sessions:
                assert session.window.remote_incoming_window >= 0
                for link in session.links:
                    if isinstance(link, SenderLink) and link.grant is not None:
                        assert 0 <= link.waiting <= link.grant.outstanding + link.waiting <= batch

    def come_to_rest(self, _: int, __: int, ___: int) -> None:
        """Check what must hold when no bytes are under way."""
        rest([client.inner for client in self.clients])
        for client in self.clients:
            self._look(client)
            self._know_what_the_broker_has(client)
        for client in self.clients:
            if client.reading:
                client.inner.check_agreement()
                self._check_snapshots(client)
                self._check_outcomes(client)
        for name in QUEUES:
            self._check_queue(name)

    def _know_what_the_broker_has(self, client: Client) -> None:
        for box in client.boxes:
            for body in box.transmitted:
                self.messages[body_of(body)].sure = True
        for body, held in list(client.held.items()):
            if held.outcome is not None:
                held.message.done = True
                del client.held[body]
        for link in list(self.consumers):
            if link.end.state is LinkState.GONE or session_of(link).state is SessionState.ENDED:
                del self.consumers[link]

    def _check_snapshots(self, client: Client) -> None:
        shown = {
            link["name"]: link for link in client.inner.wire.front_end.snapshot("links", client.inner.wire.broker.now)
        }
        for link in client.inner.links:
            window = session_of(link).window
            stopped = window.announced == 0 if isinstance(link, ReceiverLink) else window.remote_incoming_window == 0
            difference = abs(int(str(shown[link.end.name]["link_credit"])) - link.credit.link_credit)
            assert difference <= int(stopped), "more than a delivery that is partly sent"
        sessions = {
            session["channel"]: session
            for session in client.inner.wire.front_end.snapshot("sessions", client.inner.wire.broker.now)
        }
        for session in client.inner.sessions:
            assert session.incoming_channel is not None
            told = sessions[session.incoming_channel]
            assert told["unsettled_out"] == session.incoming.count
            assert told["unsettled_in"] == session.outgoing.count

    def _check_outcomes(self, client: Client) -> None:
        """Check that every message that a queue has taken on is accepted, once, and that no publisher waits without a
        reason."""
        for box, (queue, _) in client.boxes.items():
            assert all(outcomes == [ACCEPTED] for outcomes in box.outcomes.values())
            if box in client.inner.outboxes and queue not in self.stalled:
                assert len(box.outcomes) == (0 if box.link.settled else len(box.transmitted))
                assert self.alarms or (box.link.idle and not box.bodies)

    def _check_queue(self, name: str) -> None:
        info = self.broker.engine.queue_info(name, None)
        held = unfinished = 0
        for client in self.clients:
            for session in client.inner.wire.front_end.connection.sessions:
                for link in session.links:
                    if isinstance(link, SenderLink) and self._queue_of(link) == name:
                        held += link.waiting + sum(
                            piece.last - piece.first + 1 for piece in session.outgoing.ranges() if piece.owner is link
                        )
                        unfinished += link.settled and not link.idle
        assert held <= info.unacknowledged <= held + unfinished
        for client, link in self._receivers():
            if self.consumers.get(link) == name and client.reading and link.credit.link_credit:
                window = session_of(link).window
                if not window.closed and not any(each is link for _, each in self.barred):
                    assert info.ready == 0, "messages wait though a consumer could take them"

    def finish(self) -> None:
        """Let everything go on, and let all clients leave. New consumers get the messages that are left."""
        self.recover(0, 0, 0)
        self.clear_alarms(0, 0, 0)
        for client in self.clients:
            client.reading = True
            client.inner.wire.go_on_reading()
            for session in client.inner.sessions:
                session.open_incoming_window()
        self.come_to_rest(0, 0, 0)
        for client, link in self._receivers():
            self._consumer_over(client, link)
            session_of(link).detach(link)
        self.come_to_rest(0, 0, 0)
        self.clients.append(Client(BrokerClient(self.broker)))
        for number in range(3):
            session_number = len(self._sessions()) - 1
            self.attach_consumer(session_number, number, 0)
        self.come_to_rest(0, 0, 0)
        for _, link in self._receivers():
            link.grant(2**31)
        self.come_to_rest(0, 0, 0)
        for message in self.messages.values():
            if not message.uncertain:
                assert message.arrivals == (1 + message.returns if message.sure else 0)

    # --- choosing

    def _sessions(self) -> list[tuple[Client, Session]]:
        return [(client, session) for client in self.clients for session in client.inner.sessions]

    def _attached(self) -> list[tuple[Client, SenderLink | ReceiverLink]]:
        return [(client, link) for client in self.clients for link in client.inner.links]

    def _receivers(self) -> list[tuple[Client, ReceiverLink]]:
        return [(client, link) for client, link in self._attached() if isinstance(link, ReceiverLink)]

    def _boxes(self) -> list[tuple[Client, Outbox]]:
        return [(client, box) for client in self.clients for box in client.inner.outboxes]

    def _consumers_of(self, name: str) -> list[ReceiverLink]:
        return [link for link, queue in self.consumers.items() if queue == name]

    def _unsettled(self, client: Client, link: ReceiverLink) -> list[Delivery]:
        assert isinstance(link.reference, list)
        return [
            delivery
            for delivery in link.reference
            if (held := client.held.get(body_of(delivery.body))) is not None
            and held.link is link
            and held.outcome is None
            and held.delivery is delivery
        ]

    def _queue_of(self, link: SenderLink) -> str:
        assert link.end.local is not None
        assert isinstance(link.end.local.source, Source)
        return str(link.end.local.source.address).removeprefix("/queues/")

    def _name(self) -> str:
        self.links += 1
        return f"link-{self.links}"


def pick(things: Sequence[T], which: int) -> list[T]:
    """Choose one of them; None when there is none."""
    return [things[which % len(things)]] if things else []


def session_of(link: SenderLink | ReceiverLink) -> Session:
    session = link.channel
    assert isinstance(session, Session)
    return session


@settings(max_examples=300 + settings.default.max_examples)
@given(
    front_end=st.sampled_from((SMALL, Settings())),
    seed=st.integers(0, 2**64 - 1),
    length=st.integers(1, 400),
)
def test_anything_at_any_time(front_end: Settings, seed: int, length: int):
    world = World(front_end)
    dice = Random(seed)
    for operation in dice.choices(OPERATIONS, k=length):
        getattr(world, operation)(dice.randrange(8), dice.randrange(13), dice.randrange(8))
        world.check()
    world.finish()

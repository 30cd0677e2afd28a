"""Two engines that do anything at any time, while bytes trickle between them in pieces of any size.

A seed decides what they do: operations, each with three numbers that it interprets itself. (Rules of a hypothesis state
machine were tried first, and most of its histories hardly did anything.) A failing history is cut to its shortest
beginning that fails. Every message is known by its body, which names the outbox it was put into and its place there.

At all times neither side has an error, windows and link credit are not negative, and what came from an outbox came once
and in order. When all bytes have arrived, both sides count the same, no message waits that could have been sent, and
every outcome is the one that the receiver gave.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis import given, settings

from amqp10.errors import ErrorCondition
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session import Link, Session
from amqp10.protocol.settings import SessionLimits
from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Outcome, Rejected
from tests.kit.peers import Delivery, Outbox, Pair

T = TypeVar("T")

NAMES = ("a", "b", "c")
SESSIONS_MAX = 2
LINK_CREDIT = 5
"""The link credit with which the first links begin."""
SIZES = (0, 5, 300, 1200)
PIECES = (1, 7, 8, 9, 30, 100, 500, 2**20)
OUTCOMES: tuple[Outcome, ...] = (ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True))

OPERATIONS = (
    *("carry_to_server", "carry_to_client") * 4,
    *("send", "grant") * 3,
    *("settle", "attach") * 2,
    *("begin", "detach", "echo", "open_window", "close_window", "come_to_rest", "end"),
)
EDGES = st.sampled_from((0, 2**31 - 3, 2**31, 2**32 - 3, 2**32 - 1))
"""The beginnings of counters: a few steps before a wrap, or on it."""
WINDOWS = st.sampled_from(((1, 0), (2, 1), (6, 3), (400, 200)))
LIMITS = st.builds(
    lambda window, start: SessionLimits(
        max_incoming_window=window[0], window_top_up=window[1], initial_outgoing_id=start
    ),
    WINDOWS,
    EDGES,
)
SEEDS = st.integers(0, 2**64 - 1)


class World:
    """A client, a server, the bytes under way, and the model."""

    def __init__(self, client: SessionLimits, server: SessionLimits, *, delivery_count: int, skipped: int) -> None:
        self.pair = Pair(client=client, server=server)
        self.sides = (self.pair.client, self.pair.server)
        for side in self.sides:
            side.initial_delivery_count = delivery_count
        self.skipped = skipped
        self.boxes: list[Outbox] = []
        self.put: Counter[int] = Counter()
        self.outcomes: dict[bytes, Outcome] = {}
        """The deliveries by body."""
        self.begin(0, 0, 0)
        self.pair.pump()
        session = self.pair.client.connection.sessions[0]
        self.pair.attach_sender(session, "a")
        self.pair.attach_receiver(session, "b")
        for link in self.receivers():
            link.grant(LINK_CREDIT)

    # --- operations

    def begin(self, _: int, __: int, ___: int) -> None:
        if len(self.pair.client.connection.all_sessions) < SESSIONS_MAX:
            session = self.pair.client.connection.new_session()
            session.begin()
            session.next_delivery_id += self.skipped

    def attach(self, which: int, name: int, mode: int) -> None:
        """Attach a link. A name that is in use steals the link."""
        for session in pick(self.pair.client.connection.sessions, which):
            sends, rcv, snd = mode & 1, mode >> 1 & 1, name % 3
            link = session.new_sender(NAMES[name % 3]) if sends else session.new_receiver(NAMES[name % 3])
            self.pair.client.adopt(link)
            self.pair.client.send_attach(link, snd=snd, rcv=rcv)

    def send(self, which: int, n: int, sizes: int) -> None:
        for link in pick(self.senders(), which):
            outbox = outbox_of(link)
            if outbox not in self.boxes:
                self.boxes.append(outbox)
            number = self.boxes.index(outbox)
            for index in range(n % 6):
                outbox.put([b"%d:%d:" % (number, self.put[number]) + b"x" * SIZES[(sizes + index) % 4]])
                self.put[number] += 1

    def grant(self, which: int, n: int, flags: int) -> None:
        for link in pick(self.receivers(), which):
            link.grant(n, drain=flags in (0, 1), echo=flags in (1, 2))

    def settle(self, which: int, first: int, more: int) -> None:
        """Settle adjoining deliveries of one link."""
        for link in pick([link for link in self.receivers() if self.unsettled(link)], which):
            unsettled = self.unsettled(link)
            begin = first % len(unsettled)
            batch = [
                delivery
                for place, delivery in enumerate(unsettled[begin : begin + 1 + more])
                if delivery.delivery_id == unsettled[begin].delivery_id + place
            ]
            outcome = OUTCOMES[first % 4]
            self.outcomes |= dict.fromkeys((delivery.body for delivery in batch), outcome)
            link.settle(batch[0].delivery_id, batch[-1].delivery_id, outcome)

    def detach(self, which: int, closed: int, sender: int) -> None:
        links: Sequence[Link] = self.senders() if sender % 2 else self.receivers()
        for link in pick(links, which):
            session_of(link).detach(link, closed=bool(closed % 2))

    def end(self, which: int, really: int, _: int) -> None:
        for session in pick(self.sessions(), which):
            if really == 0:
                session.end()

    def echo(self, which: int, _: int, __: int) -> None:
        for session in pick(self.sessions(), which):
            session.send_flow(echo=True)

    def open_window(self, which: int, _: int, __: int) -> None:
        for session in pick(self.sessions(), which):
            session.open_incoming_window()

    def close_window(self, which: int, _: int, __: int) -> None:
        for session in pick(self.sessions(), which):
            session.close_incoming_window()

    def carry_to_server(self, size: int, ask: int, _: int) -> None:
        self.pair.directions[0].step(ask=ask % 2 == 0, size=PIECES[size])

    def carry_to_client(self, size: int, ask: int, _: int) -> None:
        self.pair.directions[1].step(ask=ask % 2 == 0, size=PIECES[size])

    def come_to_rest(self, _: int, __: int, ___: int) -> None:
        self.pair.pump()
        for link in self.senders():
            if session_of(link).window.remote_incoming_window > 0:
                assert link.idle
                assert not (outbox_of(link).bodies and link.credit.link_credit)
                assert not (link.credit.drain and link.credit.link_credit)
        for outbox in self.boxes:
            for number, outcomes in outbox.outcomes.items():
                assert outcomes == [self.outcomes[outbox.sent[number]]]

    # --- invariants

    def check(self) -> None:
        for side in self.sides:
            assert side.connection.opened
            assert {line[2] for line in side.happened("detached")} <= {None, ErrorCondition.STOLEN}
            assert {line[2] for line in side.happened("ended")} <= {None}
        for session in self.sessions():
            assert session.window.remote_incoming_window >= 0
            assert session.window.incoming_window >= -session.window.margin
        for sender in self.senders():
            assert 0 <= sender.waiting <= sender.credit.link_credit
        for receiver in self.receivers():
            assert receiver.credit.link_credit >= 0
            assert receiver.credit.margin >= 0

    def check_order(self) -> None:
        """Check for each outbox that what came is the beginning of what was put."""
        places: Counter[int] = Counter()
        for side in self.sides:
            for inbox in side.inboxes.values():
                for delivery in inbox:
                    number, place, _ = delivery.body.split(b":")
                    assert int(place) == places[int(number)]
                    places[int(number)] += 1

    # --- choosing

    def sessions(self) -> list[Session]:
        return [session for side in self.sides for session in side.connection.sessions]

    def senders(self) -> list[SenderLink]:
        return [link for link in self._attached() if isinstance(link, SenderLink)]

    def receivers(self) -> list[ReceiverLink]:
        return [link for link in self._attached() if isinstance(link, ReceiverLink)]

    def _attached(self) -> list[Link]:
        return [link for session in self.sessions() for link in session.links if link.end.attached]

    def unsettled(self, link: ReceiverLink) -> list[Delivery]:
        """The deliveries that came on a link and have no outcome."""
        assert isinstance(link.reference, list)
        return [each for each in link.reference if not each.settled and each.body not in self.outcomes]


def pick(things: Sequence[T], which: int) -> list[T]:
    """Choose one of them; None when there is none."""
    return [things[which % len(things)]] if things else []


def session_of(link: Link) -> Session:
    session = link.channel
    assert isinstance(session, Session)
    return session


def outbox_of(link: SenderLink) -> Outbox:
    assert isinstance(link.reference, Outbox)
    return link.reference


@settings(max_examples=200 + settings.default.max_examples)
@given(client=LIMITS, server=LIMITS, delivery_count=EDGES, skipped=EDGES, seed=SEEDS, length=st.integers(1, 300))
def test_anything_at_any_time(
    client: SessionLimits, server: SessionLimits, delivery_count: int, skipped: int, seed: int, length: int
):
    world = World(client, server, delivery_count=delivery_count, skipped=skipped)
    dice = Random(seed)
    for operation in dice.choices(OPERATIONS, k=length):
        getattr(world, operation)(dice.randrange(8), dice.randrange(13), dice.randrange(8))
        world.check()
    world.come_to_rest(0, 0, 0)
    world.check_order()

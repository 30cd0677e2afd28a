"""All flow control inputs at random: at any time, up and down, 0 to 4294967295, with drain and echo, the socket full or
not.

The following holds for every client that keeps the rules:

- no delivery is sent above the link credit of the newest flow, no transfer above its incoming-window;
- at most 256 messages of one link are on their way between its queue and the wire;
- every message that was published is delivered once, and each queue's messages in order;
- a drain is answered as soon as the window and the socket allow; no frames but flows and transfers are sent.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from amqp10.wire.messaging import ACCEPTED, Accepted
from amqp10.wire.performatives import Disposition, End, Flow, Transfer
from tests.kit.cases import case
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, body_of

UINT_MAX = 2**32 - 1
QUEUES = ("a", "b")
FRAME_SIZE = 512

link_credits = st.sampled_from((0, 1, 5, 40, 255, 256, 257, 400, 2**31 - 1, 2**31, UINT_MAX))
windows = st.sampled_from((0, 0, 0, 0, 1, 2, 10, 60, 300, 2**31, UINT_MAX))
handles = st.sampled_from((0, 1))


class Flows(RuleBasedStateMachine):
    """A client that consumes from two queues on one session, reads at any time, and keeps its own counts."""

    @initialize()
    def begin(self) -> None:
        self.broker = InProcessBroker(make_settings(amqp10={"unsent_bytes_max": 5000}))
        addresses = [self.broker.queue(name) for name in QUEUES]
        self.peer: WirePeer = self.broker.connect(max_frame_size=FRAME_SIZE)
        self.peer.begin(incoming_window=0)
        for handle, address in enumerate(addresses):
            self.peer.attach_receiver(address, handle=handle)
        self.published = [0, 0]
        self.received: list[list[bytes]] = [[], []]
        self.pieces = [b"", b""]
        self.delivery_count = [0, 0]
        """The broker's delivery-count by link, as an extended number."""
        self.transfers = 0
        """The frames that the broker has sent."""
        self.seen_count = [0, 0]
        self.seen_transfers = 0
        """How many of the frames that came the client has looked at. Its flows tell of these, and cross with the
        others."""
        self.limit = [0, 0]
        """The delivery-count up to which the newest flow allows deliveries, by link, as an extended number."""
        self.window_left = 0
        self.drains_due = [False, False]
        self.unsettled: list[int] = []
        self.reading = True
        for handle in (0, 1):
            self.publish(handle, 300, 1)

    # --- what the client does --------------------------------------------------------------------------------------

    @rule(handle=handles, n=st.sampled_from((1, 7, 300)), size=st.sampled_from((1, 600)))
    def publish(self, handle: int, n: int, size: int) -> None:
        first = self.published[handle]
        bodies = [(b"%d." % number).ljust(size, b"x") for number in range(first, first + n)]
        self.published[handle] += n
        self.broker.fill(bodies, QUEUES[handle])
        self.read()

    @rule(handle=handles, link_credit=link_credits, window=windows, drain=st.booleans(), echo=st.booleans())
    def grant(self, handle: int, link_credit: int, window: int, drain: bool, echo: bool) -> None:
        if self.delivery_count[handle] - self.seen_count[handle] >= 2**31:
            self.look()  # a drain that large used it up: serial numbers cannot tell this lag from a lead [RFC 1982]
        self.limit[handle] = self.seen_count[handle] + link_credit
        self.drains_due[handle] = drain
        self.peer.grant(
            link_credit,
            handle=handle,
            drain=drain,
            echo=echo,
            delivery_count=self.seen_count[handle] & UINT_MAX,
            **self.session_fields(window),
        )
        self.read()

    @rule(window=windows, echo=st.booleans())
    def widen(self, window: int, echo: bool) -> None:
        self.peer.flow(echo=echo, **self.session_fields(window))
        self.read()

    def session_fields(self, window: int) -> dict[str, int]:
        """The session fields of a flow. Transfers in flight have used a part of the window."""
        self.window_left = max(0, window - (self.transfers - self.seen_transfers))
        return {"next_incoming_id": self.seen_transfers, "incoming_window": window}

    @rule()
    def look(self) -> None:
        """Look at every frame that came."""
        self.seen_count = list(self.delivery_count)
        self.seen_transfers = self.transfers

    @rule(n=st.integers(1, 400))
    def settle(self, n: int) -> None:
        settled, self.unsettled = self.unsettled[:n], self.unsettled[n:]
        if settled:
            self.peer.dispose(settled[0], settled[-1], state=ACCEPTED)
            self.read()

    @rule(writes=st.integers(0, 3))
    def stop_reading(self, writes: int) -> None:
        self.reading = False
        self.peer.stop_reading(writes=writes)

    @rule()
    def go_on_reading(self) -> None:
        self.reading = True
        self.peer.go_on_reading()
        self.read()

    # --- its counts ------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read the frames that came, and check them against what was allowed."""
        frames, self.peer.frames = self.peer.frames, []
        for _, frame, payload in frames:
            match frame:
                case Transfer():
                    self.transfer(frame, payload)
                case Flow():
                    self.flow(frame)
                case _:
                    raise AssertionError(f"{frame} came")

    def transfer(self, frame: Transfer, payload: bytes) -> None:
        handle = frame.handle
        assert self.window_left > 0
        self.window_left -= 1
        self.transfers += 1
        if not self.pieces[handle]:
            self.delivery_count[handle] += 1
            assert self.delivery_count[handle] <= self.limit[handle]
            assert frame.delivery_id is not None
            self.unsettled.append(frame.delivery_id)
        self.pieces[handle] += payload
        if not frame.more:
            self.received[handle].append(body_of(self.pieces[handle]))
            self.pieces[handle] = b""

    def flow(self, frame: Flow) -> None:
        if frame.handle is None:
            return
        handle = frame.handle
        assert frame.delivery_count is not None
        advanced = (frame.delivery_count - self.delivery_count[handle]) & UINT_MAX
        assert advanced <= max(0, self.limit[handle] - self.delivery_count[handle])
        if advanced:
            assert frame.drain
            assert frame.link_credit == 0
            self.delivery_count[handle] += advanced
        if frame.link_credit == 0 and frame.drain:
            self.drains_due[handle] = False

    @invariant()
    def what_waits_is_bounded(self) -> None:
        for handle in (0, 1):
            link = self.peer.link(handle)
            assert link.grant is not None
            assert link.waiting + link.grant.outstanding <= 256
            assert link.waiting <= link.credit.link_credit

    @invariant()
    def a_drain_is_answered(self) -> None:
        for handle in (0, 1):
            if self.reading and self.window_left > 0 and self.peer.link(handle).idle:
                assert not self.drains_due[handle]

    @invariant()
    def messages_come_in_order(self) -> None:
        for handle in (0, 1):
            numbers = [int(body.split(b".")[0]) for body in self.received[handle]]
            assert numbers == list(range(len(numbers)))

    def teardown(self) -> None:
        """Read everything at the end, and check that each message came once."""
        if not hasattr(self, "broker"):
            return
        self.go_on_reading()
        self.look()
        for handle in (0, 1):
            self.grant(handle, UINT_MAX, UINT_MAX, drain=False, echo=False)
        for handle in (0, 1):
            assert len(self.received[handle]) == self.published[handle]
        self.messages_come_in_order()
        self.settle(len(self.unsettled))
        for name in QUEUES:
            assert self.broker.ready(name) == self.broker.unacknowledged(name) == 0


@pytest.mark.slow
@case("engine", "3.26")
def test_flows_of_a_client_that_keeps_the_rules():
    """row 3.26: the client may send any inputs that are allowed, in any order."""
    run_state_machine_as_test(Flows, settings=settings(stateful_step_count=25))


uints = st.one_of(st.integers(0, 5), st.integers(2**32 - 5, UINT_MAX), st.integers(0, UINT_MAX))
optional_uints = st.none() | uints
FIELDS_OF_LINKS = ("delivery_count", "link_credit", "available", "drain")


@given(
    sent=st.integers(0, 3),
    next_incoming_id=optional_uints,
    incoming_window=uints,
    next_outgoing_id=st.one_of(st.just(0), uints),
    handle=st.one_of(st.none(), st.just(1), st.integers(0, 3)),
    delivery_count=optional_uints,
    link_credit=optional_uints,
    available=optional_uints,
    drain=st.booleans(),
    echo=st.booleans(),
)
@case("engine", "3.26")
def test_flows_with_any_values(sent: int, **fields: object):
    """row 3.26: a flow with any values in its fields is either taken, or ends the session with the right condition."""
    broker = InProcessBroker()
    address = broker.queue()
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, handle=1)
    broker.fill([b"m"] * (sent + 2))
    if sent:
        peer.grant(sent)
    assert len(peer.bodies()) == sent
    peer.send(Flow(**fields, outgoing_window=0))
    seen = fields["next_incoming_id"] or 0
    ahead = 0 < ((seen - sent) & UINT_MAX) < 2**31
    if ahead:
        assert peer.ended_with("amqp:session:window-violation")
    elif fields["handle"] is None and any(
        fields[name] is not None and fields[name] is not False for name in FIELDS_OF_LINKS
    ):
        assert peer.ended_with("amqp:invalid-field")
    elif fields["handle"] not in (None, 1):
        assert peer.ended_with("amqp:session:unattached-handle")
    else:
        assert not peer.take(End)
        peer.flow(incoming_window=100)  # the answer to an echo stays behind the frames that wait for the window
        assert not fields["echo"] or peer.take(Flow)
        peer.grant(5)
        assert len(peer.bodies()) <= 2
        peer.send(Disposition(role=True, first=0, last=99, settled=True, state=Accepted()))
        assert broker.unacknowledged() == 0

"""The four figures on link flow control in the specification, each as a trace of what crosses the wire [2.6.8, 2.6.9].

row 3.30. A line of a trace is the sender of a frame, its performative, and the fields that matter.
"""

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import Flow, Transfer
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, numbered


class Traced:
    """A receiver on one queue. Its frames and the broker's are noted in order."""

    def __init__(self, *bodies: bytes) -> None:
        self.broker = InProcessBroker()
        address = self.broker.queue()
        self.broker.fill(bodies)
        self.peer = self.broker.connect()
        self.peer.begin()
        self.peer.attach_receiver(address)
        self.lines: list[str] = []

    def grant(self, link_credit: int, *, drain: bool = False, echo: bool = False) -> None:
        """Send a flow of the receiver, and note the broker's answer."""
        wishes = " drain" * drain + " echo" * echo
        self.lines.append(f"receiver: flow link-credit={link_credit}{wishes}")
        self.peer.grant(link_credit, drain=drain, echo=echo)
        self.listen()

    def listen(self) -> None:
        """Note what the broker has sent."""
        for _, frame, _ in self.peer.frames:
            match frame:
                case Transfer():
                    self.lines.append(f"sender: transfer {frame.delivery_id}")
                case Flow():
                    drain = " drain" * frame.drain
                    self.lines.append(
                        f"sender: flow delivery-count={frame.delivery_count} link-credit={frame.link_credit}{drain}"
                    )
        self.peer.frames.clear()

    def fill(self, *bodies: bytes) -> None:
        """Publish messages to the queue."""
        self.broker.fill(bodies)
        self.listen()


@case("engine", "3.30")
def test_figure_2_43_synchronous_get():
    """row 3.30: figure 2.43, synchronous get."""
    t = Traced()
    t.grant(1)
    t.fill(b"m")
    t.fill(b"another")
    t.grant(1)
    assert t.lines == [
        "receiver: flow link-credit=1",
        "sender: transfer 0",
        "receiver: flow link-credit=1",
        "sender: transfer 1",
    ]


@case("engine", "3.30")
def test_figure_2_44_synchronous_get_with_a_time_limit():
    """row 3.30: figure 2.44, synchronous get with timeout: when the time is up there is either no message, or one that
    came in time. In both cases link credit ends at 0 on both sides."""
    t = Traced()
    t.grant(1)
    t.grant(1, drain=True)
    t.fill(b"too late")
    assert t.lines == [
        "receiver: flow link-credit=1",
        "receiver: flow link-credit=1 drain",
        "sender: flow delivery-count=1 link-credit=0 drain",
    ]
    t = Traced()
    t.grant(1)
    t.fill(b"in time")
    t.peer.grant(1, drain=True, delivery_count=0)  # it has not seen the transfer yet
    t.listen()
    assert t.lines == [
        "receiver: flow link-credit=1",
        "sender: transfer 0",
        "sender: flow delivery-count=1 link-credit=0 drain",
    ]


@case("engine", "3.30")
def test_figure_2_45_asynchronous_notification():
    """row 3.30: figure 2.45, asynchronous notification: link credit is given again before it is used up."""
    t = Traced()
    t.grant(4)
    for number in range(6):
        t.fill(b"%d" % number)
        if number % 2:
            t.peer.dispose(number - 1, number, state=ACCEPTED)
            t.grant(4)
    assert t.lines == [
        "receiver: flow link-credit=4",
        "sender: transfer 0",
        "sender: transfer 1",
        "receiver: flow link-credit=4",
        "sender: transfer 2",
        "sender: transfer 3",
        "receiver: flow link-credit=4",
        "sender: transfer 4",
        "sender: transfer 5",
        "receiver: flow link-credit=4",
    ]


@case("engine", "3.30")
def test_figure_2_46_stopping_incoming_messages():
    """row 3.30: figure 2.46, stopping incoming messages: the answer comes behind all transfers that were in flight."""
    t = Traced(*numbered(3))
    t.peer.stop_reading()
    t.grant(10)
    t.grant(0, echo=True)
    t.peer.go_on_reading()
    t.listen()
    in_flight = [line for line in t.lines if line.startswith("sender: transfer")]
    assert t.lines == [
        "receiver: flow link-credit=10",
        "receiver: flow link-credit=0 echo",
        *in_flight,
        f"sender: flow delivery-count={len(in_flight)} link-credit=0",
    ]
    t.fill(b"later")
    assert t.lines[-1].startswith("sender: flow")
    t = Traced(*numbered(3))
    t.grant(10)
    t.grant(0, echo=True)
    t.fill(b"later")
    assert t.lines == [
        "receiver: flow link-credit=10",
        "sender: transfer 0",
        "sender: transfer 1",
        "sender: transfer 2",
        "receiver: flow link-credit=0 echo",
        "sender: flow delivery-count=3 link-credit=0",
    ]

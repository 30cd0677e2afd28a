"""Adaptive link credit in the whole front end: publishers at a distance, whose frames cross with the broker's.

The client keeps the rules: it sends what link credit and the session's window allow, as its newest flow says. Bytes
take half of a round trip in each direction. So a detach with transfer-limit-exceeded or an end with window-violation is
the broker's fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.flow.fair_rate import WINDOW_MAX
from amqp10.frontend.incoming import publisher_link
from amqp10.wire import serial
from amqp10.wire.performatives import Detach, Disposition, End, Flow, Performative
from amqp10.wire.types import UInt
from core.config.settings import Settings
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer

ADAPTIVE = make_settings(amqp10={"flow": "adaptive", "idle_time_out": 86_400.0})
NEARLY_WRAPPED = 2**32 - 300


@dataclass
class FarLink:
    """The client's end of a publishing link. Counts are messages since the attach."""

    handle: int
    initial_delivery_count: int
    wanted: int = 0
    """What the application has given it."""
    size: int = 1
    count: int = 0
    """The delivery-count, from 0: sent, and given back."""
    limit: int = 0
    sent: int = 0
    settled: int = 0


@dataclass
class FarClient:
    """Publishers on one session, at this distance."""

    broker: InProcessBroker
    round_trip: float
    links: int
    first_id: int = 0
    frame_bytes: int = 600
    """The largest body of one frame."""
    wanted: int | None = None
    """The link credit that the publishers want, as their attaches say."""
    peer: WirePeer = field(init=False)

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.peer = self.broker.connect()
        begin = self.peer.begin(next_outgoing_id=self.first_id)
        self.window = begin.incoming_window
        self.next_outgoing_id = self.first_id
        self.owners: dict[int, FarLink] = {}
        self.all = [FarLink(number, self.first_id) for number in range(self.links)]
        for link in self.all:
            self.peer.attach_sender(
                f"/queues/{'ab'[link.handle % 2]}",
                handle=link.handle,
                initial_delivery_count=link.initial_delivery_count,
                properties=None if self.wanted is None else {"headgate:max-link-credit": UInt(self.wanted)},
            )
        self._took_frames()

    @property
    def now(self) -> float:
        return self.broker.now.monotonic

    def publish(self, link: FarLink, messages: int, size: int) -> None:
        """The application has so many messages more."""
        link.wanted += messages
        link.size = size
        self._send()

    def give_back(self, link: FarLink) -> None:
        """Use up the link credit without messages, and tell the broker."""
        link.count = max(link.count, link.limit)
        numbers = {
            "next_outgoing_id": self.next_outgoing_id, "handle": link.handle, "link_credit": 0,
            "delivery_count": (link.initial_delivery_count + link.count) & serial.MASK,
        }  # fmt: skip
        self._at(partial(self.peer.flow, **numbers))

    def order(self, act: Callable[[], None]) -> None:
        """Let an operator or the engine do something at the broker, now."""
        act()
        self.broker.touch(self.peer)
        self.broker.run()
        self._took_frames()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and bytes arrive."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.broker.advance(max(0.0, self._events[0][0] - self.now))
            heappop(self._events)[2]()
            self._took_frames()
        self.broker.advance(end - self.now)
        self._took_frames()

    def _at(self, event: Callable[[], None]) -> None:
        heappush(self._events, (self.now + self.round_trip / 2, next(self._order), event))

    def _took_frames(self) -> None:
        frames, self.peer.frames = self.peer.frames, []
        for _, performative, _ in frames:
            self._at(partial(self._received, performative))

    def _received(self, performative: Performative) -> None:
        assert not isinstance(performative, Detach | End), performative
        if isinstance(performative, Disposition):
            for delivery in range(performative.first, (performative.last or performative.first) + 1):
                self.owners.pop(delivery).settled += 1
        elif isinstance(performative, Flow):
            assert performative.next_incoming_id is not None
            end = (performative.next_incoming_id + performative.incoming_window) & serial.MASK
            self.window = max(0, serial.diff(end, self.next_outgoing_id))
            if performative.handle is not None and performative.link_credit is not None:
                link = self.all[performative.handle]
                seen = serial.diff(performative.delivery_count or 0, link.initial_delivery_count)
                link.limit = seen + performative.link_credit
        self._send()

    def _send(self) -> None:
        for link in self.all:
            frames = -(-link.size // self.frame_bytes)
            most = min(link.wanted - link.sent, link.limit - link.count, self.window // frames)
            if most > 0:
                self._send_messages(link, most, frames)

    def _send_messages(self, link: FarLink, messages: int, frames: int) -> None:
        link.sent += messages
        link.count += messages
        self.window -= messages * frames
        self.next_outgoing_id = (self.next_outgoing_id + messages * frames) & serial.MASK
        rows = []
        for _ in range(messages):
            row, payload = self.peer.transfer_frame(b"m" * link.size, handle=link.handle)
            assert row.delivery_id is not None
            self.owners[row.delivery_id] = link
            if frames == 1:
                rows.append((row, payload))
            else:
                size = -(-len(payload) // frames)
                parts = self.peer.frames_of(
                    payload, size, handle=link.handle, delivery_id=row.delivery_id, delivery_tag=row.delivery_tag
                )
                assert len(parts) == frames
                rows += parts
        self._at(partial(self.peer.send_all, rows))


def client(
    round_trip: float, links: int = 1, *, settings: Settings = ADAPTIVE, first_id: int = 0, wanted: int | None = None
) -> FarClient:
    broker = InProcessBroker(settings)
    for name in "ab":
        broker.queue(name)
    return FarClient(broker, round_trip, links, first_id, wanted=wanted)


def checked(found: FarClient) -> None:
    """Check what holds at any time: the ledger of link credit, and its bounds."""
    for far in found.all:
        link = found.peer.link(far.handle)
        credit = link.credit
        assert credit.balance.left == credit.room
        assert credit.unconfirmed >= 0
        assert credit.link_credit <= WINDOW_MAX


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["publish"] * 4
            + ["pass"] * 4
            + ["stall", "recover", "alarm", "clear", "pause", "resume", "bound", "unbound", "give back"]
        ),
        st.integers(min_value=0, max_value=3),
        st.integers(min_value=1, max_value=2000),
        st.sampled_from([1, 1, 1, 300, 1200]),
        st.floats(min_value=0.0, max_value=0.2),
    ),
    max_size=40,
)


RUNS = (
    STEPS,
    st.integers(min_value=1, max_value=4),
    st.sampled_from([0.0, 0.002, 0.05, 1.5]),
    st.sampled_from([0, NEARLY_WRAPPED]),
)
"""Of :func:`one_run`."""


def one_run(
    steps: list[tuple[str, int, int, int, float]],
    links: int,
    round_trip: float,
    first_id: int,
    wanted: int | None = None,
) -> None:
    """Publish over some links while this and that happens to them, and check that no rule is broken."""
    few = make_settings(
        amqp10={
            "flow": "adaptive" if wanted is None else "fixed",
            "idle_time_out": 86_400.0,
            "link_unconfirmed_bytes_max": 100_000,
            "connection_unconfirmed_bytes_max": 200_000,
            "unconfirmed_bytes_max": 300_000,
        }
    )
    far = client(round_trip, links, settings=few, first_id=first_id, wanted=wanted)
    broker = far.broker
    for step, at, messages, size, seconds in steps:
        link = far.all[at % links]
        user = publisher_link(far.peer.link(link.handle).reference)
        match step:
            case "publish":
                far.publish(link, messages, size)
            case "pass":
                far.pass_time(seconds)
            case "stall":
                far.order(partial(broker.stall, "ab"[at % 2]))
            case "recover":
                far.order(partial(broker.recover, "ab"[at % 2]))
            case "alarm":
                far.order(broker.raise_alarm)
            case "clear":
                far.order(broker.clear_alarm)
            case "pause" | "resume":
                far.order(partial(user.pause, paused=step == "pause"))
            case "bound" | "unbound":
                far.order(partial(user.bound, messages % 7 + 1 if step == "bound" else None))
            case "give back":
                far.give_back(link)
        checked(far)
    finish(far)


@settings(max_examples=40, deadline=None)
@given(*RUNS)
def test_no_rule_is_broken_and_no_link_is_stuck(
    steps: list[tuple[str, int, int, int, float]], links: int, round_trip: float, first_id: int
):
    one_run(steps, links, round_trip, first_id)


@settings(max_examples=40, deadline=None)
@given(*RUNS, st.sampled_from([1, 170, 171, 2000, 2**32 - 1]))
def test_no_rule_is_broken_with_fixed_flow_control_and_publishers_that_want_more(
    steps: list[tuple[str, int, int, int, float]], links: int, round_trip: float, first_id: int, wanted: int
):
    one_run(steps, links, round_trip, first_id, wanted)


STUCK_ROUNDS = 100
"""A link that is slow has a message confirmed in each round or two; one that is stuck has none."""


def finish(far: FarClient) -> None:
    """Remove all that holds the client up. Then every message must be confirmed, and each link be able to send more."""
    for name in "ab":
        far.order(partial(far.broker.recover, name))
    far.order(far.broker.clear_alarm)
    for link in far.all:
        user = publisher_link(far.peer.link(link.handle).reference)
        far.order(partial(user.pause, paused=False))
        far.order(partial(user.bound, None))
    for more in (0, 7):
        for link in far.all:
            far.publish(link, more, 1)
        settled, rounds = -1, 0
        while [link.settled for link in far.all] != [link.wanted for link in far.all]:
            far.pass_time(max(far.round_trip, 0.01))
            checked(far)
            before, settled = settled, sum(link.settled for link in far.all)
            rounds = rounds + 1 if settled == before else 0
            assert rounds < STUCK_ROUNDS, [(link.settled, link.wanted) for link in far.all]
    windows = far.broker.windows
    assert windows is not None
    far.peer.disconnect()
    assert windows.bytes_held == 0


def test_a_far_publisher_is_several_times_as_fast():
    """Messages in 2 s of the broker's time, of a publisher with 10,000 a second at 100 ms."""
    settled = {}
    for flow in ("fixed", "adaptive"):
        far = client(0.1, settings=make_settings(amqp10={"flow": flow}))
        for _ in range(200):
            far.publish(far.all[0], 100, 1)
            far.pass_time(0.01)
        settled[flow] = far.all[0].settled
    assert settled["adaptive"] >= 4 * settled["fixed"]


def test_a_sender_of_large_messages_is_granted_few():
    size = 64_000
    far = client(0.05, settings=make_settings(amqp10={"flow": "adaptive", "link_unconfirmed_bytes_max": 10 * size}))
    far.frame_bytes = size
    far.publish(far.all[0], 400, size)
    far.pass_time(1.0)
    credit = far.peer.link(0).credit
    assert 170 < far.all[0].settled < 400
    assert credit.link_credit + credit.unconfirmed <= 10
    assert credit.window.held_by_bytes


def test_link_credit_that_is_not_used_leaves_bytes_for_the_other_links():
    """A link has much link credit for small messages. Then it sends one large message, and no more."""
    far = client(0.05, 2, settings=make_settings(amqp10={"flow": "adaptive", "link_unconfirmed_bytes_max": 100_000,
                                                         "connection_unconfirmed_bytes_max": 200_000}))  # fmt: skip
    far.publish(far.all[1], 800, 1)
    far.pass_time(0.2)
    far.publish(far.all[1], 100, 300)
    far.pass_time(0.2)
    credit = far.peer.link(1).credit
    assert credit.link_credit * credit.window.message_bytes > 100_000
    far.publish(far.all[0], 2000, 1)
    far.pass_time(1.0)
    assert far.all[0].settled >= 1000


def test_the_bytes_of_a_broker_are_bounded_and_each_link_has_some():
    size = 10_000
    limit = 40 * size
    far = client(0.02, 4, settings=make_settings(amqp10={"flow": "adaptive", "unconfirmed_bytes_max": limit}))
    for link in far.all:
        far.publish(link, 600, size)
    far.pass_time(2.0)
    windows = far.broker.windows
    assert windows is not None
    assert windows.bytes_held <= 1.5 * limit
    assert min(link.settled for link in far.all) >= 0.25 * max(link.settled for link in far.all)


def test_link_credit_and_session_window_come_in_one_flow():
    far = client(0.05)
    far.publish(far.all[0], 20_000, 1)
    far.pass_time(1.0)
    session, credit = far.peer.session(), far.peer.link(0).credit
    assert credit.window.size > 400
    assert session.window.announced >= credit.link_credit
    kinds = far.peer.front_end.connection.flow_frames
    assert kinds["in", "window"] <= 1
    assert kinds["in", "grant"] >= 5


def test_an_operator_sees_what_limits_a_link():
    def shown(far: FarClient) -> dict[str, object]:
        (row,) = far.peer.front_end.snapshot("links", far.broker.now)
        return row

    far = client(0.05)
    far.publish(far.all[0], 2000, 1)
    far.pass_time(0.4)
    row = shown(far)
    assert row["round_trip_ms"] == pytest.approx(50.0)
    assert (row["limited_by"], row["share_per_second"]) == ("distance", None)
    assert isinstance(row["window"], int)
    assert row["window"] > 170
    for _ in range(100):
        far.publish(far.all[0], 1, 1)
        far.pass_time(0.05)
    assert shown(far)["limited_by"] == "publisher"
    user = publisher_link(far.peer.link(0).reference)
    far.order(partial(user.bound, 2))
    far.publish(far.all[0], 20, 1)
    far.pass_time(1.0)
    assert shown(far)["limited_by"] == "bound"

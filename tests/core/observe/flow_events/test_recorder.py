"""Recording flow events: sums that are exact, facts in order, and two readers that are independent of each other."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core.clock import Now
from core.flow_facts import (
    FlowConnection,
    FlowLink,
    LinkFlowState,
    LinkWindowState,
    Settled,
    StageCreditState,
    StallSubject,
)
from core.interface import FlowReason
from core.observe.flow_events.feed import INTERVAL_S
from core.observe.flow_events.recorder import SLICE, ConnectionEvents, FlowEvents
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import TEXT_MAX, EventKind, FlowEventRecord, decode, encode_record
from core.observe.stalls import Stalls

WHO = FlowConnection(identity="c1", peer="h:1", protocol="amqp-1.0", container_id="shop", user="guest")
LINK = FlowLink(identity="c1/0/0", name="s", direction="in", address="/queues/q")
INTERVAL = 0.01


def subject(identity: str, direction: str = "in") -> StallSubject:
    return StallSubject(
        identity=identity,
        connection="c1",
        peer="h:1",
        container_id="shop",
        user="guest",
        direction=direction,
        address="/queues/q",
    )


@dataclass
class Broker:
    """A clock, and the recorders of a broker."""

    now: Now = field(default_factory=lambda: Now(100.0, 5000.0))
    ring: RecordRing | None = field(default_factory=lambda: RecordRing(10_000))

    def __post_init__(self) -> None:
        self.events = FlowEvents(
            clock=lambda: self.now, node="n", interval_s=INTERVAL, feed_records_max=50, ring=self.ring
        )
        self.stalls = Stalls(clock=lambda: self.now, listeners=[self.events])

    def advance(self, seconds: float) -> None:
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)

    def tell_due(self) -> None:
        assert list(self.events.tell_due()) == []

    def connection(self) -> ConnectionEvents:
        events = self.events.connection(WHO)
        assert events is not None
        return events

    def told(self, *kinds: EventKind) -> list[FlowEventRecord]:
        assert self.ring is not None
        records = [self.ring.take() for _ in range(len(self.ring))]
        for record in records:
            encode_record(record)
        return [record for record in records if not kinds or record.kind in kinds]


@dataclass
class Link:
    """A link's counters, as flow control moves them."""

    delivery_count: int = 2**32 - 20
    link_credit: int = 0

    def state(self) -> LinkFlowState:
        return LinkFlowState(self.delivery_count, self.link_credit)

    def use(self, n: int) -> int:
        n = min(n, self.link_credit)
        self.delivery_count = (self.delivery_count + n) & 0xFFFF_FFFF
        self.link_credit -= n
        return n


def test_a_record_of_activity_says_how_the_link_stands():
    broker = Broker()
    window = LinkWindowState(64, 50.25, 900, None)
    account = broker.connection().link_attached(LINK, lambda: LinkFlowState(0, 7, 400, window, "distance"))
    account.detached()
    (record,) = broker.told(EventKind.ACTIVITY)
    assert {name: record.fields[name] for name in ("link_credit", "session_window", "window", "limited_by")} == {
        "link_credit": 7,
        "session_window": 400,
        "window": 64,
        "limited_by": "distance",
    }
    assert (record.fields["round_trip_ms"], record.fields["used_per_second"]) == (50.25, 900)
    assert "share_per_second" not in record.fields
    plain = broker.connection().link_attached(LINK, lambda: LinkFlowState(0, 7, 400))
    plain.detached()
    assert broker.told(EventKind.ACTIVITY)[0].fields.keys().isdisjoint({"window", "round_trip_ms", "limited_by"})


STEPS = st.lists(
    st.tuples(st.sampled_from(["transfer", "settle", "grant"]), st.integers(0, 30), st.floats(0, 0.03)), max_size=40
)


@given(STEPS)
def test_sums_are_exact_and_intervals_are_kept(steps: list[tuple[str, int, float]]):
    broker, link = Broker(), Link()
    account = broker.connection().link_attached(LINK, link.state)
    transferred = settled = granted = 0
    for what, n, pause in steps:
        match what:
            case "transfer":
                used = link.use(n)
                transferred += used
                account.transferred(used)
            case "settle":
                settled += n
                account.settled(n, Settled.ACCEPTED)
            case "grant":
                granted += n - link.link_credit
                link.link_credit = n
                account.changed()
        broker.advance(pause)
        if n % 3 == 0:
            broker.tell_due()
    account.detached()
    rows = broker.told(EventKind.ACTIVITY)
    assert sum(row.fields.get("transfers", 0) for row in rows) == transferred
    assert sum(row.fields.get("accepted", 0) for row in rows) == settled
    assert sum(row.fields.get("granted", 0) for row in rows) == granted
    assert granted - transferred == link.link_credit
    assert all(later.at - row.at >= INTERVAL - 1e-6 for row, later in pairwise(rows))
    assert broker.events.busy == {}


def test_an_idle_link_tells_nothing():
    broker = Broker()
    account = broker.connection().link_attached(LINK, Link().state)
    broker.advance(1.0)
    account.changed()
    broker.advance(1.0)
    broker.tell_due()
    assert broker.told(EventKind.ACTIVITY) == []
    assert broker.events.busy == {}


def test_a_short_closing_of_a_window_is_not_recorded():
    broker = Broker()
    events = broker.connection()
    events.window_closed("c1/0", "client")
    broker.advance(INTERVAL / 2)
    events.window_opened("c1/0", "client")
    broker.advance(1.0)
    broker.tell_due()
    assert broker.told(EventKind.WINDOW_CLOSED, EventKind.WINDOW_OPENED) == []
    events.window_closed("c1/0", "client")
    events.window_closed("c1/0", "client")
    began = broker.now.wall
    broker.advance(1.0)
    events.window_opened("c1/0", "client")
    events.window_opened("c1/0", "client")
    assert [(record.kind, record.at) for record in broker.told(EventKind.WINDOW_CLOSED, EventKind.WINDOW_OPENED)] == [
        (EventKind.WINDOW_CLOSED, began),
        (EventKind.WINDOW_OPENED, began + 1.0),
    ]
    events.window_closed("c1/0", "client")
    broker.advance(1.0)
    events.session_ended("c1/0")
    assert [record.kind for record in broker.told(EventKind.WINDOW_CLOSED, EventKind.WINDOW_OPENED)] == [
        EventKind.WINDOW_CLOSED
    ]
    assert broker.events.busy == {}


def test_stages_are_added_up():
    broker = Broker()
    state = StageCreditState(0, blocked=False, held_up_by="")
    stage = broker.connection().stage("reader", "c1", lambda: state)
    state = StageCreditState(1, blocked=True, held_up_by="queue q")
    stage.changed()
    state = StageCreditState(3, blocked=True, held_up_by="queue q")
    stage.changed()
    broker.advance(INTERVAL)
    broker.tell_due()
    state = StageCreditState(3, blocked=False, held_up_by="")
    stage.changed()
    broker.advance(INTERVAL)
    state = StageCreditState(4, blocked=True, held_up_by="x" * 1000)
    stage.changed()
    broker.advance(INTERVAL)
    broker.tell_due()
    first, second, *more = [record.fields for record in broker.told(EventKind.STAGE)]
    assert first == {
        "connection": "c1",
        "stage": "reader",
        "name": "c1",
        "blocked": True,
        "blocks": 3,
        "held_up_by": "queue q",
    }
    assert (second["blocked"], second.get("blocks")) == (True, 1)  # the stall ended and began within one interval
    assert len(second["held_up_by"]) == TEXT_MAX
    assert more == []


def test_stalls_are_of_recorded_links_and_readers_only():
    broker = Broker()
    events = broker.connection()
    account = events.link_attached(LINK, None)
    for who in (subject("c1/0/0"), subject("c1/0/9"), subject("c1")):
        broker.stalls.blocked(who, FlowReason.DISK, "alarm disk", broker.now)
    broker.advance(0.1)
    assert list(broker.stalls.tell()) == []
    told = [(record.fields.get("link"), record.fields["reason"]) for record in broker.told(EventKind.BLOCKED)]
    assert told == [("c1/0/0", "disk"), (None, "disk")]
    broker.stalls.unblocked(subject("c1/0/0"), broker.now)
    account.detached()
    broker.stalls.unblocked(subject("c1/0/9"), broker.now)
    broker.stalls.unblocked(subject("c1"), broker.now)
    assert len(broker.told(EventKind.UNBLOCKED)) == 2
    assert broker.events.stalls_of("c1") == []


def test_alarms_and_paging_are_told_when_they_change():
    broker = Broker()
    for alarms in ({"disk"}, {"disk", "memory"}, {"memory"}, set(), set()):
        broker.events.alarms_changed(frozenset(alarms))
    for paging in (False, True, True, False):
        broker.events.paging_changed(paging)
    assert [(record.kind, record.fields.get("alarm"), record.fields["on"]) for record in broker.told()] == [
        (EventKind.ALARM, "disk", True),
        (EventKind.ALARM, "memory", True),
        (EventKind.ALARM, "disk", False),
        (EventKind.ALARM, "memory", False),
        (EventKind.PAGING, None, True),
        (EventKind.PAGING, None, False),
    ]


def test_with_flow_events_off_there_is_no_recorder_and_only_a_note_of_stalls():
    broker = Broker(ring=None)
    assert broker.events.connection(WHO) is None
    broker.stalls.blocked(subject("c1"), FlowReason.DISK, "alarm disk", broker.now)
    broker.advance(0.1)
    assert list(broker.stalls.tell()) == []
    assert len(broker.events.stalls_of("c1")) == 1
    broker.stalls.unblocked(subject("c1"), broker.now)
    assert broker.events.stalls_of("c1") == []
    broker.events.alarms_changed(frozenset({"disk"}))
    broker.tell_due()


def test_a_follower_gets_the_same_and_costs_the_others_nothing():
    broker, link = Broker(), Link(link_credit=10)
    events = broker.connection()
    account = events.link_attached(LINK, link.state)
    notified: list[float] = []
    feed = events.follow(lambda: notified.append(broker.now.monotonic))
    account.transferred(link.use(4))
    assert feed.due == broker.now.monotonic
    assert [record.kind for record in decode(feed.take() or b"").records] == ["connection-opened", "link-attached"]
    assert feed.due == broker.now.monotonic + INTERVAL_S
    assert feed.take() is None
    broker.stalls.blocked(subject("c1/0/0"), FlowReason.POLICY, "policy", broker.now)
    broker.advance(0.06)
    assert list(broker.stalls.tell()) == []
    assert notified == [broker.now.monotonic] == [feed.due]
    followed = decode(feed.take() or b"").records
    assert [record.kind for record in followed] == ["blocked", "activity"]
    assert (followed[1].fields["granted"], followed[1].fields["link_credit"]) == (10, 6)
    feed.close()
    account.transferred(1)
    assert len(feed.ring) == 0
    assert [record.kind for record in broker.told()] == ["connection-opened", "link-attached", "blocked", "activity"]


def test_with_many_busy_connections_others_get_their_turn():
    broker = Broker()
    for number in range(3 * SLICE):
        who = FlowConnection(identity=f"c{number}", peer="h:1", protocol="amqp-1.0", container_id="", user="")
        events = broker.events.connection(who)
        assert events is not None
        events.link_attached(LINK, Link(link_credit=1).state)
    broker.advance(INTERVAL)
    assert len(list(broker.events.tell_due())) == 3
    assert len(broker.told(EventKind.ACTIVITY)) == 3 * SLICE


def test_texts_of_peers_are_cut():
    broker = Broker()
    long = FlowConnection(identity="c1", peer="h:1", protocol="amqp-1.0", container_id="x" * 10_000, user="y" * 10_000)
    events = broker.events.connection(long)
    assert events is not None
    events.link_attached(FlowLink(identity="l", name="n" * 10_000, direction="in", address="a" * 10_000), None)
    assert max(len(encode_record(record)) for record in broker.told()) < 3 * TEXT_MAX

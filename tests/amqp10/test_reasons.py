"""Why a link waits: when its peer is told, how often, and that the peer is told of the end, too
(docs/flow-reasons.md)."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from amqp10.frontend.reasons import (
    CULPRIT_KEY,
    REASON_KEY,
    SINCE_KEY,
    BlockWatch,
    BlockWatches,
    ReportTimes,
    reason_of_alarms,
)
from amqp10.protocol.link import RECEIVER, LinkEnd, OutputHandle
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.session import Link
from amqp10.wire.performatives import Flow
from amqp10.wire.types import Symbol, Timestamp
from core.clock import Now
from core.config.amqp10 import FlowReasonSettings
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.observe.stalls import Stalls
from tests.kit.link_channel import LinkChannelInMemory
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer

REPORT_TIMES = ReportTimes(after_s=0.05, interval_s=0.5)


def at(seconds: float) -> Now:
    return Now(seconds, 1000.0 + seconds)


class LinkThatWaits:
    """A link that is blocked; it counts how often it is checked, and keeps the reasons that it was told."""

    def __init__(self, reason: FlowReason) -> None:
        self.reason: FlowReason | None = reason
        channel = LinkChannelInMemory()
        self.link: Link = ReceiverLink(channel, LinkEnd(channel, name="", role=RECEIVER, handle=OutputHandle(0)))
        self.checks = 0
        self.told: list[object] = []

    def blocked_by(self, alarms: frozenset[str]) -> FlowReason | None:
        self.checks += 1
        return self.reason

    def culprit(self, reason: FlowReason) -> str:
        return "queue"

    def tell(self, properties: Mapping[str, object]) -> None:
        self.told.append(properties[REASON_KEY])


def watches_of_links() -> BlockWatches:
    def subject(link: Link) -> StallSubject:
        return StallSubject(
            identity=str(id(link)), connection="c1", peer="", container_id="", user="guest", direction="in", address=""
        )

    return BlockWatches(FlowReasonSettings(), Stalls(clock=lambda: at(0.0)), subject)


def reasons(peer: WirePeer) -> list[object]:
    """The reasons in the flows, in order."""
    flows = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return [flow.properties[REASON_KEY] for flow in flows]


def culprit(reason: FlowReason) -> str:
    """As a link would name it."""
    return f"alarm {reason.value}"


def test_a_short_block_is_not_told() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.MEMORY, at(0.0))
    assert watch.deadline(REPORT_TIMES) == pytest.approx(0.05)
    assert watch.due(REPORT_TIMES, at(0.04), culprit) is None
    watch.observe(None, at(0.045))
    assert watch.due(REPORT_TIMES, at(10.0), culprit) is None
    assert watch.settled


def test_a_block_is_told_once_with_its_beginning_and_its_end_once() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.MEMORY, at(1.0))
    assert watch.due(REPORT_TIMES, at(1.05), culprit) == {
        REASON_KEY: Symbol("memory"),
        CULPRIT_KEY: "alarm memory",
        SINCE_KEY: Timestamp(1_001_000),
    }
    assert watch.due(REPORT_TIMES, at(9.0), culprit) is None
    watch.observe(None, at(9.0))
    assert watch.due(REPORT_TIMES, at(9.0), culprit) == {REASON_KEY: None}
    assert watch.settled


def test_no_more_than_two_a_second() -> None:
    watch = BlockWatch()
    told = []
    for step in range(200):  # blocked and free in turn, every 60 ms
        now = at(step * 0.06)
        watch.observe(FlowReason.UNCONFIRMED_LIMIT if step % 2 else None, now)
        properties = watch.due(REPORT_TIMES, at(now.monotonic + 0.055), culprit)
        if properties is not None:
            told.append(now.monotonic)
    assert len(told) <= 2 * 12 + 1
    assert all(later - earlier >= 0.44 for earlier, later in pairwise(told))


def test_a_reason_that_changes_is_told_again() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.UNCONFIRMED_LIMIT, at(0.0))
    assert watch.due(REPORT_TIMES, at(0.1), culprit) is not None
    watch.observe(FlowReason.MEMORY, at(0.2))
    assert watch.due(REPORT_TIMES, at(0.2), culprit) is None  # too soon after the last
    told = watch.due(REPORT_TIMES, at(0.6), culprit)
    assert told is not None
    assert told[REASON_KEY] == Symbol("memory")


def test_the_first_reason_of_the_list_is_named() -> None:
    assert reason_of_alarms(frozenset({"disk", "memory"})) is FlowReason.MEMORY
    assert reason_of_alarms(frozenset({"disk"})) is FlowReason.DISK


def test_a_publisher_is_told_of_an_alarm_and_of_its_end() -> None:
    broker = InProcessBroker()
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    broker.engine.set_alarm("memory")
    broker.run()
    assert [flow.incoming_window for flow in peer.take(Flow)] == [0]
    broker.advance(0.049)
    assert peer.nothing_came()
    broker.advance(0.002)
    told = peer.expect(Flow)
    assert told.handle == 0
    assert told.properties == {
        REASON_KEY: Symbol("memory"),
        CULPRIT_KEY: "alarm memory",
        SINCE_KEY: Timestamp(1_700_000_000_000),
    }
    broker.engine.clear_alarm("memory")
    broker.run()
    broker.advance(1.0)
    assert reasons(peer) == [None]


def test_a_publisher_at_the_unconfirmed_limit_is_told_and_other_links_are_not() -> None:
    broker = InProcessBroker()
    slow, quick = broker.queue("slow"), broker.queue("quick")
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(slow, handle=0)
    peer.attach_sender(quick, handle=1)
    broker.engine.set_stage_budget("slow", 0)
    for _ in range(3):
        peer.publish([b"x"] * 85)
    peer.publish([b"y"] * 100, handle=1)
    peer.frames.clear()
    assert peer.link(0).credit.link_credit == 0
    broker.advance(0.1)
    told = [flow for flow in peer.take(Flow) if flow.properties]
    assert [(flow.handle, flow.properties[REASON_KEY]) for flow in told] == [(0, Symbol("unconfirmed-limit"))]
    broker.engine.set_stage_budget("slow", None)
    broker.run()
    broker.advance(1.0)
    assert reasons(peer) == [None]


def test_a_consumer_behind_the_single_active_one_is_told() -> None:
    broker = InProcessBroker()
    address = broker.queue("q", x_single_active_consumer=True)
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver(address, handle=1)
    peer.attach_receiver(address, handle=2)
    peer.grant(10, handle=1)
    peer.grant(10, handle=2)
    broker.advance(0.1)
    told = [flow for flow in peer.take(Flow) if flow.properties]
    assert [(flow.handle, flow.properties[REASON_KEY]) for flow in told] == [(2, Symbol("inactive"))]
    peer.detach(1)
    broker.advance(1.0)
    assert reasons(peer) == [None]


def test_telling_reasons_can_be_turned_off() -> None:
    broker = InProcessBroker(make_settings(amqp10={"flow_reason": {"enabled": False}}))
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.frames.clear()
    broker.engine.set_alarm("memory")
    broker.run()
    broker.advance(5.0)
    assert reasons(peer) == []


def test_a_turn_checks_no_link_without_a_change() -> None:
    """A thousand links that wait cost a turn nothing, whatever the other links do."""
    watches = watches_of_links()
    waiting = [LinkThatWaits(FlowReason.QUEUE_FULL) for _ in range(1000)]
    for link in waiting:
        watches.look_at(link)
    watches.tell(frozenset(), (), at(0.0))
    watches.tell(frozenset(), (), at(0.06))
    assert [link.checks for link in waiting] == [2] * 1000
    assert all(link.told == [Symbol("queue-full")] for link in waiting)
    assert watches.deadline() is None

    for turn in range(100):
        watches.tell(frozenset(), waiting[:1], at(0.1 + turn * 0.001))
    assert waiting[0].checks == 102
    assert [link.checks for link in waiting[1:]] == [2] * 999


def test_all_links_are_checked_when_the_alarms_change_and_now_and_then() -> None:
    watches = watches_of_links()
    link = LinkThatWaits(FlowReason.UNCONFIRMED_LIMIT)
    watches.look_at(link)
    watches.tell(frozenset(), (), at(0.0))
    watches.tell(frozenset({"memory"}), (), at(0.01))
    assert link.checks == 2
    watches.tell(frozenset({"memory"}), (), at(0.02))
    assert link.checks == 2

    watches.tell(frozenset({"memory"}), (), at(0.06))
    assert link.told == [Symbol("unconfirmed-limit")]
    link.reason = FlowReason.STORE_SLOW  # by a sync that takes long, which is no change of the link
    watches.tell(frozenset({"memory"}), (), at(0.07))
    watches.tell(frozenset({"memory"}), (), at(0.57))
    assert link.told == [Symbol("unconfirmed-limit"), Symbol("store-slow")]
    link.reason = None
    watches.tell(frozenset({"memory"}), (link,), at(2.0))
    assert link.told[2:] == [None]
    assert not watches.watches

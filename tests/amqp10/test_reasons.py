"""Why a link waits: when its peer is told, how often, and that the peer is told of the end, too
(docs/flow-reasons.md)."""

from itertools import pairwise

import pytest

from amqp10.frontend.reasons import REASON_KEY, SINCE_KEY, BlockWatch, ReportTimes, reason_of_alarms
from amqp10.wire.performatives import Flow
from amqp10.wire.types import Symbol, Timestamp
from core.clock import Now
from core.interface import FlowReason
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer

REPORT_TIMES = ReportTimes(after_s=0.05, interval_s=0.5)


def at(seconds: float) -> Now:
    return Now(seconds, 1000.0 + seconds)


def reasons(peer: WirePeer) -> list[object]:
    """The reasons in the flows, in order."""
    flows = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return [flow.properties[REASON_KEY] for flow in flows]


def test_a_short_block_is_not_told() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.MEMORY, at(0.0))
    assert watch.deadline(REPORT_TIMES) == pytest.approx(0.05)
    assert watch.due(REPORT_TIMES, at(0.04)) is None
    watch.observe(None, at(0.045))
    assert watch.due(REPORT_TIMES, at(10.0)) is None
    assert watch.settled


def test_a_block_is_told_once_with_its_beginning_and_its_end_once() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.MEMORY, at(1.0))
    assert watch.due(REPORT_TIMES, at(1.05)) == {REASON_KEY: Symbol("memory"), SINCE_KEY: Timestamp(1_001_000)}
    assert watch.due(REPORT_TIMES, at(9.0)) is None
    watch.observe(None, at(9.0))
    assert watch.due(REPORT_TIMES, at(9.0)) == {REASON_KEY: None}
    assert watch.settled


def test_no_more_than_two_a_second() -> None:
    watch = BlockWatch()
    told = []
    for step in range(200):  # blocked and free in turn, every 60 ms
        now = at(step * 0.06)
        watch.observe(FlowReason.UNCONFIRMED_LIMIT if step % 2 else None, now)
        properties = watch.due(REPORT_TIMES, at(now.monotonic + 0.055))
        if properties is not None:
            told.append(now.monotonic)
    assert len(told) <= 2 * 12 + 1
    assert all(later - earlier >= 0.44 for earlier, later in pairwise(told))


def test_a_reason_that_changes_is_told_again() -> None:
    watch = BlockWatch()
    watch.observe(FlowReason.UNCONFIRMED_LIMIT, at(0.0))
    assert watch.due(REPORT_TIMES, at(0.1)) is not None
    watch.observe(FlowReason.MEMORY, at(0.2))
    assert watch.due(REPORT_TIMES, at(0.2)) is None  # too soon after the last
    told = watch.due(REPORT_TIMES, at(0.6))
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
    assert told.properties == {REASON_KEY: Symbol("memory"), SINCE_KEY: Timestamp(1_700_000_000_000)}
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

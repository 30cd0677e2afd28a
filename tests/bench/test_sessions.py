"""Several sessions on one AMQP 1.0 connection: frames find their endpoint, and a slow link does not hold up the
others."""

import pytest

from amqp10.load import wire
from amqp10.load.endpoint import BegunSession
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.sessions import Sessions
from amqp10.load.wire import WireError

APPLICATIONS = [Application(publisher=1, publish_to="fast"), Application(publisher=2, publish_to="slow")]
REMOTE = (5, 9)
"""The broker's channels, which differ from ours."""


def attached(channel, name, handle=0):
    fields = wire.string(name), wire.uint(handle), wire.boolean(wire.ROLE_RECEIVER)
    return wire.frame(wire.composite(wire.ATTACH, *fields), channel=channel)


def flow(channel, link_credit, delivery_count=0):
    session = wire.uint(delivery_count), wire.uint(400), wire.uint(0), wire.uint(400)
    link = wire.uint(0), wire.uint(delivery_count), wire.uint(link_credit)
    return wire.frame(wire.composite(wire.FLOW, *session, *link), channel=channel)


def started():
    sessions = [BegunSession(131072, 0, 400, channel) for channel in REMOTE]
    both = Sessions([[one] for one in APPLICATIONS], PlannedTraffic(settled=True, durable=True), sessions)
    assert [piece[6:8] for piece in map(bytes, both.output(0))] == [b"\0\0", b"\0\1"]
    assert not both.attached
    both.receive_data(attached(REMOTE[0], "0.0 to /queues/fast") + attached(REMOTE[1], "1.0 to /queues/slow"), 0)
    assert both.attached
    both.start(0)
    return both


def test_a_link_without_link_credit_does_not_hold_up_the_others():
    both = started()
    both.receive_data(flow(REMOTE[0], 170) + flow(REMOTE[1], 10), 0)
    pieces = [bytes(piece) for piece in both.output(0)]
    assert [piece[6:8] for piece in pieces] == [b"\0\0", b"\0\1"]
    assert [one.sent for one in both.publishers] == [170, 10]
    both.receive_data(flow(REMOTE[0], 170, delivery_count=170), 0)
    assert both.ready_to_publish(0)
    both.output(0)
    assert [one.sent for one in both.publishers] == [340, 10]
    assert not both.ready_to_publish(0)
    assert both.wake_ns() is not None


@pytest.mark.parametrize("cut", [1, 7, 64])
def test_frames_may_be_cut_anywhere(cut):
    both = started()
    data = flow(REMOTE[1], 7) + flow(REMOTE[0], 3) + flow(REMOTE[1], 8)
    for at in range(0, len(data), cut):
        both.receive_data(data[at : at + cut], 0)
    both.output(0)
    assert [one.sent for one in both.publishers] == [3, 8]


def test_a_frame_of_an_unknown_session_is_an_error():
    with pytest.raises(WireError, match="channel 7"):
        started().receive_data(flow(7, 1), 0)

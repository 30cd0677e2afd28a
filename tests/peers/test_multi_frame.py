"""Deliveries of several frames between two engines: cut, interleaved, stopped, aborted, too large [2.6.14, 2.7.5]."""

import pytest

from amqp10.errors import LinkFault
from amqp10.protocol.settings import SessionLimits
from amqp10.wire.framing import MIN_MAX_FRAME_SIZE
from amqp10.wire.messaging import ACCEPTED
from tests.kit.peers import SETTLED, UNSETTLED, Cutting, Pair, cut_anywhere

ONE_FRAME = SessionLimits(max_incoming_window=1, window_top_up=0)


def body(size: int, letter: bytes = b"x") -> bytes:
    """A body in which no two parts are alike."""
    return b"".join(letter + b"%d." % n for n in range(size))[:size]


SIZES = (1, 470, 471, 472, 473, 474, 475, 476, 477, 478, 479, 480, 481, 482, 483, 484, 485, 512, 960, 1500, 9000)
"""Sizes around what fits one frame of 512 bytes, and far above it."""


@pytest.mark.parametrize("snd", [SETTLED, UNSETTLED])
@cut_anywhere
def test_any_size_arrives_whole(cutting: Cutting, snd: int):
    pair = Pair(cutting)
    pair.attach_sender(pair.begin(), snd=snd)
    pair.server.receiver("out").grant(len(SIZES))
    bodies = [body(size) for size in SIZES]
    pair.client.put("out", bodies)
    pair.pump()
    assert pair.server.bodies("out") == bodies
    assert pair.server.sessions[0].incoming.count == (0 if snd == SETTLED else len(SIZES))
    return pair


@cut_anywhere
def test_frames_of_several_links_take_turns(cutting: Cutting):
    """Deliveries of one link are never interleaved, those of several links may be [2.6.14]."""
    pair = Pair(cutting, server=SessionLimits(max_incoming_window=4, window_top_up=2))
    session = pair.begin()
    for name in "abc":
        pair.attach_sender(session, name)
        pair.server.receiver(name).grant(10)
    pair.pump()
    bodies = {name: [body(size, name.encode()) for size in (2000, 3, 1500, 900)] for name in "abc"}
    for name in "abc":
        pair.client.put(name, bodies[name])
    pair.pump()
    for name in "abc":
        assert pair.server.bodies(name) == bodies[name]
    finished = [line[0] for line in pair.server.happened("received")]
    assert finished != sorted(finished)
    return pair


@cut_anywhere
def test_a_window_of_one_frame(cutting: Cutting):
    pair = Pair(cutting, client=ONE_FRAME, server=ONE_FRAME)
    session = pair.begin()
    pair.attach_sender(session)
    pair.attach_receiver(session).grant(5)
    pair.server.receiver("out").grant(5)
    pair.pump()
    bodies = [body(size) for size in (3000, 1, 2, 700, 5)]
    pair.client.put("out", bodies)
    pair.server.put("in", bodies)
    pair.cross()
    assert pair.server.bodies("out") == pair.client.bodies("in") == bodies
    return pair


@cut_anywhere
def test_outcomes_find_deliveries_of_any_size(cutting: Cutting):
    pair = Pair(cutting)
    pair.attach_sender(pair.begin())
    receiver = pair.server.receiver("out")
    receiver.grant(6)
    pair.client.put("out", [body(size) for size in (1, 2000, 1, 1, 2000, 2000)])
    pair.pump()
    pair.server.settle("out", 1, 4, ACCEPTED)
    pair.pump()
    assert [line[2] for line in pair.client.happened("settled")] == [1, 2, 3, 4]
    return pair


@pytest.mark.parametrize("closed", [True, False])
@cut_anywhere
def test_detached_in_the_middle_while_the_window_is_closed(cutting: Cutting, closed: bool):
    """No frame may be sent, so the delivery is not even aborted: the detach ends it."""
    pair = Pair(cutting, server=SessionLimits(max_incoming_window=3, window_top_up=1))
    session = pair.begin()
    link = pair.attach_sender(session)
    pair.server.receiver("out").grant(5)
    pair.pump()
    pair.server.sessions[0].close_incoming_window()
    pair.client.put("out", [body(20), body(9000), body(30)])
    pair.cross()
    assert not link.idle
    session.detach(link, closed=closed)
    pair.pump()
    assert pair.server.bodies("out") == [body(20)]
    assert pair.server.happened("detached") == [("out", "detached", None, closed)]
    assert link.unsent == [(2, 2)]
    pair.server.sessions[0].open_incoming_window()
    again = pair.attach_sender(session, "again")
    pair.server.receiver("again").grant(1)
    pair.client.put("again", [body(4000)])
    pair.pump()
    assert pair.server.bodies("again") == [body(4000)]
    assert again.idle
    return pair


@cut_anywhere
def test_detached_in_the_middle_while_the_socket_is_full(cutting: Cutting):
    """A frame may be sent, so the delivery is aborted, and the detach follows."""
    pair = Pair(cutting, unsent_bytes_max=1500)
    session = pair.begin()
    link = pair.attach_sender(session)
    pair.server.receiver("out").grant(5)
    pair.pump()
    pair.client.put("out", [body(9000), body(30)])
    stuck = pair.client.connection
    begun = stuck.data_to_send(0.0)
    stuck.output_backlog(len(begun))
    session.detach(link)
    pair.server.take(begun)
    stuck.output_backlog(0)
    pair.pump()
    assert pair.server.bodies("out") == []
    assert pair.server.sessions[0].incoming.count == 0
    assert pair.server.happened("detached") == [("out", "detached", None, True)]
    return pair


@cut_anywhere
def test_a_full_socket_holds_deliveries_back(cutting: Cutting):
    """Bytes that wait for the socket count. When the socket takes them, deliveries go on where they stopped."""
    pair = Pair(cutting, unsent_bytes_max=2000)
    pair.attach_sender(pair.begin())
    pair.server.receiver("out").grant(40)
    pair.pump()
    connection = pair.client.connection
    connection.output_backlog(2000)
    pair.client.put("out", [body(300 + n) for n in range(40)])
    pair.pump()
    assert pair.server.bodies("out") == []
    for backlog in (1500, 600, 0):
        connection.output_backlog(backlog)
        written = connection.data_to_send(0.0)
        assert 0 < len(written) <= 2000 - backlog + MIN_MAX_FRAME_SIZE
        pair.server.take(written)
    pair.pump()
    assert pair.server.bodies("out") == [body(300 + n) for n in range(40)]
    return pair


@cut_anywhere
def test_a_message_larger_than_the_receiver_takes(cutting: Cutting):
    """A sender that knows the receiver's limit does not begin. A sender that does not know it is detached."""
    pair = Pair(cutting)
    pair.server.max_message_size = 1000
    session = pair.begin()
    link = pair.attach_sender(session)
    pair.server.receiver("out").grant(5)
    pair.pump()
    with pytest.raises(LinkFault, match="message-size-exceeded"):
        link.send_run(0, [body(10), body(1001)], b"")
    assert link.idle
    assert link.end.remote is not None
    link.end.remote.max_message_size = None
    pair.client.put("out", [body(1000), body(1001), body(10)])
    pair.pump()
    assert pair.server.bodies("out") == [body(1000)]
    condition = "amqp:link:message-size-exceeded"
    assert pair.client.happened("detached") == [("out", "detached", condition, True)]
    assert pair.client.connection.opened
    return pair


@cut_anywhere
def test_too_many_bytes_of_unfinished_deliveries(cutting: Cutting):
    """The bound applies to the connection. The link that goes beyond it is detached, and the bytes that it held are
    free again."""
    pair = Pair(cutting, partial_delivery_bytes_max=4000)
    session = pair.begin()
    pair.attach_sender(session)
    pair.server.receiver("out").grant(5)
    pair.client.put("out", [body(5000)])
    pair.pump()
    assert [line[2] for line in pair.client.happened("detached")] == ["amqp:resource-limit-exceeded"]
    pair.attach_sender(session, "again")
    pair.server.receiver("again").grant(5)
    pair.client.put("again", [body(3000), body(3000)])
    pair.pump()
    assert pair.server.bodies("again") == [body(3000)] * 2
    return pair


@pytest.mark.parametrize("reads", [(2**30,), (262_144,), (100_000, 7, 1_600), (131_080, 50_000)])
def test_large_frames_in_reads_of_several_sizes(reads: tuple[int, ...]):
    """Frames of 128 KiB that several reads bring are taken in parts. Two links take turns."""
    pair = Pair(Cutting(to_server=reads, eager=True), frame_size=131_072)
    session = pair.begin()
    bodies = {name: [body(size, name.encode()) for size in (2**20, 3, 131_000, 300_000)] for name in "ab"}
    for name in "ab":
        pair.attach_sender(session, name)
        pair.server.receiver(name).grant(10)
        pair.client.put(name, bodies[name])
    pair.pump()
    for name in "ab":
        assert pair.server.bodies(name) == bodies[name]

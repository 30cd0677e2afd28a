"""How things end between two engines: links, sessions and connections, by one side or both [2.4-2.6]."""

import pytest

from amqp10.errors import ConnectionFault, ErrorCondition, LinkFault, SessionFault
from amqp10.protocol.connection import Connection
from amqp10.protocol.handshake import NoHandshake
from amqp10.protocol.lifecycle import ConnectionState, LinkState, SessionState
from amqp10.protocol.session import Link
from amqp10.protocol.settings import ConnectionSettings, SessionLimits
from amqp10.wire.messaging import ACCEPTED
from tests.kit.peers import MIXED, SECOND, Cutting, Pair, cut_anywhere
from tests.kit.wire import numbered

LIMIT = ErrorCondition.RESOURCE_LIMIT_EXCEEDED


def linked(cutting: Cutting, **settings: object) -> Pair:
    """A session with a link each way, and three unsettled messages each way."""
    pair = Pair(cutting, **settings)  # type: ignore[arg-type]
    session = pair.begin()
    pair.attach_sender(session)
    pair.attach_receiver(session).grant(5)
    pair.server.receiver("out").grant(5)
    pair.pump()
    pair.client.put("out", numbered(3))
    pair.server.put("in", numbered(3))
    pair.pump()
    return pair


# --- links


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.parametrize("name", ["in", "out"])
@pytest.mark.parametrize("closed", [True, False])
@cut_anywhere
def test_detached_by_one_side(cutting: Cutting, by: str, name: str, closed: bool):
    pair = linked(cutting)
    one, other = (pair.client, pair.server) if by == "client" else (pair.server, pair.client)
    one.sessions[0].detach(one.links[name], closed=closed)
    pair.pump()
    assert other.happened("detached") == [(name, "detached", None, closed)]
    assert one.links[name].end.state is other.links[name].end.state is LinkState.GONE
    assert len(one.sessions[0].links) == len(other.sessions[0].links) == 1
    return pair


@cut_anywhere
def test_detached_with_an_error(cutting: Cutting):
    pair = linked(cutting)
    pair.server.sessions[0].detach(pair.server.links["out"], LinkFault(LIMIT, "enough"))
    pair.pump()
    assert pair.client.happened("detached") == [("out", "detached", LIMIT, True)]
    pair.server.put("in", numbered(2, first=3))
    pair.pump()
    assert pair.client.bodies("in") == numbered(5)
    return pair


@cut_anywhere
def test_detached_by_both_at_once(cutting: Cutting):
    """Each side takes the other's detach for the answer to its own."""
    pair = linked(cutting)
    for name in ("in", "out"):
        pair.client.sessions[0].detach(pair.client.links[name])
        pair.server.sessions[0].detach(pair.server.links[name])
    pair.cross()
    for side in (pair.client, pair.server):
        assert side.sessions[0].links == []
        assert side.happened("detached") == []
    return pair


@cut_anywhere
def test_transfers_and_flows_that_meet_a_detach_are_absorbed(cutting: Cutting):
    """The frames count in the session window and have no other effect [2.6.4]."""
    pair = linked(cutting)
    pair.server.sessions[0].detach(pair.server.links["out"], LinkFault(LIMIT, "enough"))
    pair.client.put("out", numbered(2, first=3))
    pair.client.sender("out").write_flow()
    pair.client.sessions[0].detach(pair.client.links["in"])
    pair.server.put("in", numbered(2, first=3))
    pair.server.sender("in").write_flow()
    pair.cross()
    assert pair.server.bodies("out") == pair.client.bodies("in") == numbered(3)
    assert pair.client.sessions[0].window.next_outgoing_id == 5
    assert pair.client.sessions[0].mapped
    return pair


@cut_anywhere
def test_refused_links(cutting: Cutting):
    """A refusal is an attach and a detach. Frames sent meanwhile on the link are absorbed, and the name is free."""
    pair = Pair(cutting)
    pair.server.refused = {"out", "in"}
    session = pair.begin()
    pair.attach_sender(session)
    pair.attach_receiver(session)
    assert pair.client.happened("detached") == [(name, "detached", "amqp:not-allowed", True) for name in ("out", "in")]
    assert session.links == pair.server.sessions[0].links == []
    pair.server.refused = set()
    pair.attach_sender(session)
    assert pair.client.links["out"].end.attached
    return pair


@cut_anywhere
def test_attached_again_and_again(cutting: Cutting):
    """Names and handles are free when both detaches have been sent."""
    pair = Pair(cutting)
    session = pair.begin()
    for n in range(4):
        link = pair.attach_receiver(session)
        assert (link.end.handle, link.credit.delivery_count) == (0, 0)
        link.grant(3)
        pair.server.put("in", numbered(3, first=3 * n))
        pair.pump()
        session.detach(link, closed=bool(n % 2))
        pair.pump()
    assert pair.client.bodies("in") == numbered(12)
    return pair


@cut_anywhere
def test_a_detach_before_the_answer_to_the_attach(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.begin()
    links: list[Link] = [session.new_sender("out"), session.new_receiver("in")]
    for link in links:
        pair.client.adopt(link)
        pair.client.send_attach(link, snd=MIXED, rcv=SECOND)
        session.detach(link)
    pair.pump()
    assert [link.end.state for link in links] == [LinkState.GONE] * 2
    assert session.links == pair.server.sessions[0].links == []
    return pair


@pytest.mark.parametrize("same_session", [True, False])
@pytest.mark.parametrize("name", ["in", "out"])
@cut_anywhere
def test_a_link_is_stolen(cutting: Cutting, same_session: bool, name: str):
    """A name and direction belong to one link of a connection: the newest [2.6.1]."""
    pair = linked(cutting)
    session = pair.client.sessions[0] if same_session else pair.begin()
    former = pair.client.links[name]
    if name == "in":
        pair.attach_receiver(session).grant(2)
    else:
        pair.attach_sender(session)
    pair.pump()
    assert pair.client.happened("detached") == [(name, "detached", ErrorCondition.STOLEN, True)]
    assert pair.server.happened("detached") == pair.client.happened("detached")
    assert former.end.state is LinkState.GONE
    assert pair.client.links[name].end.attached
    return pair


@cut_anywhere
def test_one_name_in_both_directions(cutting: Cutting):
    """Links of the same name in both directions are two links."""
    pair = Pair(cutting)
    session = pair.begin()
    sender, receiver = pair.attach_sender(session, "pair"), session.new_receiver("pair")
    pair.client.send_attach(receiver, snd=MIXED, rcv=SECOND)
    pair.pump()
    assert sender.end.attached
    assert receiver.end.attached
    assert pair.client.happened("detached") == []
    return pair


# --- sessions


@pytest.mark.parametrize("by", ["client", "server"])
@pytest.mark.parametrize("fault", [None, SessionFault(LIMIT, "enough")])
@cut_anywhere
def test_a_session_ended_by_one_side(cutting: Cutting, by: str, fault: SessionFault | None):
    """Output that is due is sent before the end. The channel is free after it."""
    pair = linked(cutting)
    one, other = (pair.client, pair.server) if by == "client" else (pair.server, pair.client)
    name = "out" if by == "client" else "in"
    one.put(name, [b"last"])
    session = one.sessions[0]
    session.end(fault)
    pair.pump()
    assert other.happened("ended") == [(0, "ended", None if fault is None else LIMIT)]
    assert other.bodies(name)[-1] == b"last"
    assert session.state is SessionState.ENDED
    assert one.connection.all_sessions == other.connection.all_sessions == []
    assert pair.begin().outgoing_channel == 0
    return pair


@cut_anywhere
def test_a_session_ended_by_both_at_once(cutting: Cutting):
    pair = linked(cutting)
    pair.client.sessions[0].end()
    pair.server.sessions[0].end(SessionFault(LIMIT, "enough"))
    pair.cross()
    assert pair.client.connection.all_sessions == pair.server.connection.all_sessions == []
    assert pair.client.connection.opened
    return pair


@cut_anywhere
def test_what_meets_an_end_is_passed_over(cutting: Cutting):
    pair = linked(cutting)
    pair.server.sessions[0].end()
    session = pair.client.sessions[0]
    pair.client.put("out", [b"y" * 900, b"late"])
    pair.client.settle("in", 0, 2, ACCEPTED)
    session.send_flow(echo=True)
    pair.client.send_attach(session.new_sender("new"), snd=MIXED, rcv=SECOND)
    session.detach(pair.client.links["in"])
    pair.cross()
    assert pair.server.bodies("out") == numbered(3)
    assert pair.server.happened("settled") == []
    assert pair.client.connection.opened
    return pair


@cut_anywhere
def test_one_session_ends_and_the_others_go_on(cutting: Cutting):
    pair = Pair(cutting)
    sessions = [pair.begin() for _ in range(3)]
    for session in sessions:
        name = f"out-{session.outgoing_channel}"
        pair.attach_sender(session, name)
        pair.server.receiver(name).grant(10)
    pair.pump()
    sessions[1].end()
    for channel in (0, 2):
        pair.client.put(f"out-{channel}", [b"z" * 1200, b"end"])
    pair.pump()
    assert [len(pair.server.bodies(f"out-{channel}")) for channel in range(3)] == [2, 0, 2]
    again = pair.begin()
    assert again.outgoing_channel == 1
    return pair


@cut_anywhere
def test_sessions_of_both_sides_making(cutting: Cutting):
    """Both sides begin on a channel 0 of their own. The answers come on other channels."""
    pair = Pair(cutting)
    sessions = [side.connection.new_session() for side in (pair.client, pair.server)]
    for session in sessions:
        session.begin()
    pair.cross()
    assert [session.state for session in sessions] == [SessionState.MAPPED] * 2
    assert len(pair.client.connection.sessions) == len(pair.server.connection.sessions) == 2
    pair.attach_sender(sessions[0])
    pair.server.receiver("out").grant(1)
    pair.client.put("out", [b"x"])
    pair.pump()
    assert pair.server.bodies("out") == [b"x"]
    return pair


@cut_anywhere
def test_an_end_before_the_answer_to_the_begin(cutting: Cutting):
    pair = Pair(cutting)
    session = pair.client.connection.new_session()
    session.begin()
    session.end()
    pair.pump()
    assert session.state is SessionState.ENDED
    assert pair.server.happened("ended") == [(0, "ended", None)]
    assert pair.client.connection.all_sessions == []
    return pair


@cut_anywhere
def test_more_sessions_than_channels(cutting: Cutting):
    pair = Pair(cutting, channel_max=1)
    for _ in range(2):
        pair.begin()
    with pytest.raises(ConnectionFault, match="2 sessions are begun"):
        pair.client.connection.new_session()
    return pair


@cut_anywhere
def test_more_links_than_handles(cutting: Cutting):
    pair = Pair(cutting, server=SessionLimits(handle_max=1))
    session = pair.begin()
    for n in range(2):
        pair.attach_sender(session, f"out-{n}")
    with pytest.raises(SessionFault, match="no handle is free"):
        session.new_sender("out-2")
    return pair


# --- connections


@pytest.mark.parametrize("by", ["client", "server"])
@cut_anywhere
def test_closed_by_one_side(cutting: Cutting, by: str):
    """Output that is due is sent before the close."""
    pair = linked(cutting)
    one, other = (pair.client, pair.server) if by == "client" else (pair.server, pair.client)
    name = "out" if by == "client" else "in"
    one.put(name, [b"last"])
    one.connection.close(monotonic=0.0)
    pair.pump()
    assert other.happened("closed") == [("connection", "closed", None, True)]
    assert one.happened("closed") == [("connection", "closed", None, False)]
    assert other.bodies(name)[-1] == b"last"
    assert one.connection.finished
    assert other.connection.finished
    return pair


@cut_anywhere
def test_closed_by_both_at_once(cutting: Cutting):
    pair = linked(cutting)
    pair.client.connection.close(monotonic=0.0)
    pair.server.connection.close(ConnectionFault(LIMIT, "enough"), monotonic=0.0)
    pair.cross()
    for side in (pair.client, pair.server):
        assert side.connection.state is ConnectionState.END
        assert side.happened("closed") == [("connection", "closed", side.happened("closed")[0][2], False)]
    return pair


@cut_anywhere
def test_what_meets_a_close_is_passed_over(cutting: Cutting):
    pair = linked(cutting)
    pair.server.connection.close(ConnectionFault(LIMIT, "enough"), monotonic=0.0)
    pair.client.put("out", numbered(2, first=3))
    pair.client.connection.new_session().begin()
    pair.cross()
    assert pair.server.bodies("out") == numbered(3)
    assert pair.client.happened("closed") == [("connection", "closed", LIMIT, True)]
    assert len(pair.server.happened("begun")) == 1
    return pair


@cut_anywhere
def test_the_socket_goes_in_the_middle_of_a_frame(cutting: Cutting):
    pair = linked(cutting)
    pair.client.put("out", [b"w" * 400, b"v" * 400])
    written = pair.client.output()
    pair.server.take(written[:-1])
    for side in (pair.client, pair.server):
        side.connection.receive_eof()
        side.take_events()
        assert side.happened("closed") == [("connection", "closed", None, True)]
        assert side.connection.finished
    assert pair.server.bodies("out") == [*numbered(3), b"w" * 400]
    return pair


@cut_anywhere
def test_without_a_handshake(cutting: Cutting):
    pair = linked(cutting, handshakes=(NoHandshake, NoHandshake))
    assert pair.server.bodies("out") == numbered(3)
    return pair


def test_open_and_everything_else_in_one_piece():
    """Open, begin, attach and close may be pipelined without waiting for answers [2.4.5]."""
    client = Connection(ConnectionSettings(container_id="client"), NoHandshake())
    client.open()
    session = client.new_session()
    session.begin()
    session.end()
    client.close(monotonic=0.0)
    server = Connection(ConnectionSettings(container_id="server"), NoHandshake())
    server.receive_data(client.data_to_send(0.0), 0.0)
    names = []
    while (event := server.next_event()) is not None:
        names.append(type(event).__name__)
        if names[-1] == "ConnectionOpened":
            server.open()
        elif names[-1] == "SessionBegun":
            server.sessions or event.session.begin()
    assert names == ["ConnectionOpened", "SessionBegun", "SessionEnded", "ConnectionClosed"]
    client.receive_data(server.data_to_send(0.0), 0.0)
    while client.next_event() is not None:
        pass
    assert client.finished
    assert client.state is server.state is ConnectionState.END

"""One connection: reading, writing, faults, deadlines, and the ways in which it ends."""

from math import inf

import pytest
import trio
from trio.testing import MockClock

from core.server.pump import ALLOWANCE_MIN, LITTLE_BYTES, allowance_for
from tests.kit.echo import HEADER
from tests.kit.serving import serving, settled

FLOOD = 20_000_000
"""More bytes than the socket buffers of both ends take."""


async def test_what_comes_in_is_answered():
    async with serving() as s:
        client = await s.connect()
        await client.send(HEADER + b"one\ntwo\n")
        await client.expect(HEADER + b"one\ntwo\n")


@pytest.mark.parametrize("cut", range(1, len(HEADER) + 3))
async def test_input_may_be_cut_anywhere(cut: int):
    async with serving() as s:
        client = await s.connect()
        data = HEADER + b"line\n"
        await client.send(data[:cut])
        await settled()
        await client.send(data[cut:])
        await client.expect(HEADER + b"line\n")


async def test_one_read_is_one_call_of_each():
    async with serving() as s:
        client, front_end = await s.open()
        front_end.calls.clear()
        await client.send(b"a\nb\nc\n")
        await client.expect(b"a\nb\nc\n")
        await settled()
        assert front_end.calls == ["receive_data", "take_actions", "pieces_to_send"]


async def test_a_read_that_calls_for_no_flush_has_none():
    async with serving() as s:
        client, front_end = await s.open()
        changes = s.server.changes()
        changes.take()
        front_end.calls.clear()
        await client.send(b"nothing\n")
        await settled()
        assert front_end.calls == ["receive_data"]
        assert changes.take() == ["c1"], "the connection has read, so its figures have changed"
        await client.send(b"a\n")
        await client.expect(b"a\n")


async def test_an_action_for_another_connection_goes_out_in_the_same_turn():
    async with serving() as s:
        sender, _ = await s.open()
        receiver, _ = await s.open()
        await sender.send(b"tell c2 news\n")
        await receiver.expect(b"told news\n")


CALLS = ["receive_data", "take_actions", "pieces_to_send", "connection_lost"]


@pytest.mark.parametrize("failing", CALLS)
async def test_a_failing_front_end_costs_its_connection_only(failing: str):
    async with serving() as s:
        victim, front_end = await s.open()
        other, _ = await s.open()
        front_end.crash_in = failing
        await victim.send(b"quit\n")
        assert await victim.rest() == (b"bye\n" if failing == "connection_lost" else b"sorry")
        await victim.stream.aclose()
        await settled()
        assert front_end.calls.count("connection_lost") == 1
        assert s.server.counters.faults == 1
        (line,) = s.logged("front-end-failed")
        assert line["connection"] == "c1"
        assert isinstance(line["exc_info"], RuntimeError)
        await other.send(b"still here\n")
        await other.expect(b"still here\n")
        assert len(s.server.snapshot("connections")) == 1


async def test_a_front_end_that_fails_in_anothers_turn_costs_its_own_connection():
    async with serving() as s:
        victim, front_end = await s.open()
        other, _ = await s.open()
        front_end.crash_in = "take_actions"
        await other.send(b"tell c1 news\nstill here\n")
        await other.expect(b"still here\n")
        assert await victim.rest() == b"sorry"
        assert front_end.calls.count("connection_lost") == 1
        assert s.logged("front-end-failed")[0]["connection"] == "c1"


async def test_a_front_end_that_fails_before_it_exists_is_a_closed_connection():
    async with serving() as s:
        s.broker.refuse_to_make = True
        client = await s.connect()
        await client.send(HEADER)
        assert await client.rest() == b""
        assert s.server.counters.faults == 1
        assert s.server.snapshot("connections") == []


async def test_a_peer_that_does_not_read_holds_up_no_other():
    async with serving() as s:
        slow, front_end = await s.open()
        await slow.send(b"flood %d\n" % FLOOD)
        await settled()
        assert 0 < front_end.backlogs[-1] <= FLOOD
        asked = front_end.calls.count("pieces_to_send")
        other, _ = await s.open()
        await other.send(b"tell c1 later\nhere\n")
        await other.expect(b"here\n")
        assert front_end.calls.count("pieces_to_send") == asked, "asked for more although the socket is full"
        await slow.expect(b"x" * FLOOD)
        await slow.expect(b"told later\n")
        assert front_end.backlogs[-1] == 0
        flood = front_end.backlogs[: front_end.backlogs.index(0) + 1]  # the line behind it may wait, too
        assert flood == sorted(flood, reverse=True)


def test_what_comes_from_one_of_many_is_kept_for_the_turn_unless_it_is_little():
    assert allowance_for(LITTLE_BYTES + 1, ALLOWANCE_MIN) == 0
    assert allowance_for(LITTLE_BYTES, ALLOWANCE_MIN) == ALLOWANCE_MIN
    assert allowance_for(LITTLE_BYTES + 1, ALLOWANCE_MIN + 1) == ALLOWANCE_MIN + 1


async def test_an_established_connection_is_not_woken_when_the_time_for_its_handshake_is_over():
    async with serving() as s:
        await s.connect()
        await s.open()
        await settled()
        pending, established = s.server._connections
        assert pending.timer_at < established.timer_at == inf


@pytest.mark.parametrize("how", ["reads", "leaves"])
async def test_the_time_that_a_socket_takes_nothing_is_counted(mock_clock: MockClock, how: str):
    async with serving() as s:
        slow, _ = await s.open()
        await slow.send(b"flood %d\n" % FLOOD)
        await settled()
        mock_clock.jump(3.0)
        if how == "reads":
            await slow.expect(b"x" * FLOOD)
        else:
            s.server.close_connection("c1", "test")
            slow.stream.socket.close()
        await settled()
        mock_clock.jump(3.0)
        assert s.server.counters.full_sockets.count == 0
        assert s.server.counters.full_sockets.seconds(trio.current_time()) == pytest.approx(3.0)


async def test_reading_goes_on_while_the_socket_is_full():
    async with serving() as s:
        slow, front_end = await s.open()
        await slow.send(b"flood %d\n" % FLOOD)
        await settled()
        reads = front_end.calls.count("receive_data")
        await slow.send(b"more\n")
        await settled()
        assert front_end.calls.count("receive_data") == reads + 1
        await slow.expect(b"x" * FLOOD + b"more\n")


async def test_a_failing_backlog_call_costs_its_connection_only():
    async with serving() as s:
        client, front_end = await s.open()
        front_end.crash_in = "output_backlog"
        await client.send(b"flood %d\n" % FLOOD)
        await settled()
        assert front_end.calls.count("connection_lost") == 1
        assert s.server.counters.faults == 1


async def test_a_finished_protocol_sends_its_last_bytes_and_closes():
    async with serving() as s:
        client, front_end = await s.open()
        await client.send(b"quit\nnot heard\n")
        assert await client.rest() == b"bye\n"
        assert front_end.calls[-1] == "connection_lost"
        await client.stream.aclose()
        await settled()
        assert s.server.snapshot("connections") == []


async def test_a_peer_that_does_not_close_after_our_close_is_cut_off(mock_clock: MockClock):
    async with serving(linger="2s") as s:
        client, _ = await s.open()
        await client.send(b"quit\n")
        assert await client.rest() == b"bye\n"
        await client.send(b"talking on\n")
        await settled()
        assert len(s.server.snapshot("connections")) == 1
        mock_clock.jump(2.0)
        await settled()
        assert s.server.snapshot("connections") == []


async def test_a_peer_that_never_reads_our_close_is_cut_off(mock_clock: MockClock):
    async with serving(linger="2s") as s:
        client, front_end = await s.open()
        await client.send(b"flood %d\nquit\n" % FLOOD)
        await settled()
        assert "connection_lost" not in front_end.calls
        mock_clock.jump(2.0)
        await settled()
        assert s.server.snapshot("connections") == []
        assert front_end.calls.count("connection_lost") == 1


async def test_a_half_closed_peer_gets_its_answer():
    async with serving() as s:
        client, front_end = await s.open()
        await client.send(b"last words\n")
        await client.stream.send_eof()
        assert await client.rest() == b"last words\n"
        assert "receive_eof" in front_end.calls
        assert front_end.calls[-1] == "connection_lost"


async def test_a_reset_gives_back_what_the_connection_held():
    async with serving() as s:
        client, front_end = await s.open()
        client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.stream.aclose()
        await settled()
        assert front_end.calls.count("connection_lost") == 1
        assert s.server.snapshot("connections") == []


async def test_a_protocol_that_pauses_is_not_read_until_it_resumes():
    async with serving() as s:
        client, front_end = await s.open()
        other, _ = await s.open()
        await client.send(b"pause\n")
        await settled()
        reads = front_end.calls.count("receive_data")
        await client.send(b"waiting\n")
        await settled()
        assert front_end.calls.count("receive_data") == reads
        await other.send(b"tell c1 go\n")
        await client.expect(b"told go\nwaiting\n")


async def test_a_foreign_protocol_is_answered_counted_and_explained():
    async with serving() as s:
        client = await s.connect()
        await client.send(b"GET / HTTP/1.1\r\n\r\n")
        assert await client.rest() == HEADER
        assert s.server.counters.wrong_headers == 1
        (line,) = s.logged("wrong-protocol-header")
        assert "HTTP" in str(line["hint"])


@pytest.mark.parametrize("sent", [b"", HEADER[:5], HEADER])
async def test_the_handshake_has_one_time_out_in_all(sent: bytes, mock_clock: MockClock):
    async with serving(handshake_time_out="5s") as s:
        other, _ = await s.open()
        client = await s.connect()
        for at in range(len(sent)):
            await client.send(sent[at : at + 1])
            await settled()
            mock_clock.jump(4.9 / len(sent))
        await settled()
        assert s.server.counters.handshake_time_outs == 0
        mock_clock.jump(0.11 if sent else 5.0)
        assert HEADER.startswith(await client.rest())
        assert s.server.counters.handshake_time_outs == 1
        await other.send(b"established ones stay\n")
        await other.expect(b"established ones stay\n")


async def test_what_was_in_the_socket_when_the_loop_was_late_is_heard(mock_clock: MockClock):
    async with serving(handshake_time_out="5s") as s:
        client = await s.connect()
        await settled()
        mock_clock.jump(5.2)
        await client.send(HEADER + b"one\n")
        await client.expect(HEADER + b"one\n")
        await settled()
        assert s.server.counters.handshake_time_outs == 0


async def test_a_late_loop_is_forgiven_once(mock_clock: MockClock):
    async with serving(handshake_time_out="5s") as s:
        client = await s.connect()
        await settled()
        for at in range(2):
            mock_clock.jump(5.2)
            await client.send(HEADER[at : at + 1])
            await settled()
        assert s.server.counters.handshake_time_outs == 1


async def test_a_deadline_ticks_when_its_time_has_come(mock_clock: MockClock):
    async with serving() as s:
        client, front_end = await s.open()
        await client.send(b"deadline 30\n")
        await settled()
        mock_clock.jump(29.9)
        await settled()
        assert "tick" not in front_end.calls
        mock_clock.jump(0.1)
        await client.expect(b"tick\n")


async def test_a_deadline_may_move_either_way(mock_clock: MockClock):
    async with serving() as s:
        client, front_end = await s.open()
        await client.send(b"deadline 10\n")
        await settled()
        await client.send(b"deadline 20\n")
        await settled()
        mock_clock.jump(10.0)
        await settled()
        assert "tick" not in front_end.calls
        await client.send(b"deadline 1\n")
        await settled()
        mock_clock.jump(1.0)
        await client.expect(b"tick\n")


async def test_a_deadline_that_stays_in_the_past_does_not_spin(mock_clock: MockClock):
    async with serving() as s:
        client, front_end = await s.open()
        await client.send(b"overdue\n")
        await settled()
        ticks = front_end.calls.count("tick")
        assert ticks <= 1
        mock_clock.jump(0.001)
        await settled()
        assert front_end.calls.count("tick") == ticks + 1


async def test_a_failing_tick_costs_its_connection_only(mock_clock: MockClock):
    async with serving() as s:
        client, front_end = await s.open()
        other, _ = await s.open()
        await client.send(b"deadline 1\n")
        await settled()
        front_end.crash_in = "tick"
        mock_clock.jump(1.0)
        assert await client.rest() == b"sorry"
        assert front_end.calls.count("connection_lost") == 1
        await other.send(b"here\n")
        await other.expect(b"here\n")

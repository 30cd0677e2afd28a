"""The server as a whole: what it shows, what an operator may do, and how it stops."""

import socket

import trio
from trio.testing import MockClock

from core.server.descriptors import RESERVED, sockets_limit, total_limit
from tests.kit.echo import HEADER
from tests.kit.serving import Serving, serving, settled


async def test_connections_show_what_the_server_and_the_protocol_know():
    async with serving() as s:
        await s.open()
        (row,) = s.server.snapshot("connections")
        assert row["identity"] == "c1"
        assert row["protocol"] == "echo"
        assert row["container_id"] == "echo-client"
        assert row["remote_host"] == "127.0.0.1"
        assert row["established"] is True
        assert row["bytes_in"] == row["bytes_out"] == len(HEADER + b"hello\n")
        assert row["unsent_bytes"] == 0


async def test_a_connection_without_a_protocol_is_shown_too():
    async with serving() as s:
        await s.connect()
        await settled()
        (row,) = s.server.snapshot("connections")
        assert row["protocol"] is None
        assert row["established"] is False


async def test_rows_of_the_front_ends_are_gathered_and_found_by_identity():
    async with serving() as s:
        await s.open()
        await s.open()
        assert [row["identity"] for row in s.server.snapshot("links")] == ["c1/1", "c2/1"]
        assert s.server.snapshot("links", "c2/1") == [{"identity": "c2/1"}]
        assert [row["identity"] for row in s.server.snapshot("connections", "c2")] == ["c2"]
        assert s.server.snapshot("connections", "c9") == []
        assert s.server.snapshot("unheard of") == []


async def test_listeners_and_descriptors_are_shown():
    async with serving(connections_max=7) as s:
        await s.open()
        (listener,) = s.server.snapshot("listeners")
        assert (listener["host"], listener["port"]) == s.server.listening_on[0]
        (row,) = s.server.snapshot("descriptors")
        assert row["total_limit"] == total_limit()
        assert row["sockets_limit"] == 7
        assert row["sockets_used"] == 1
        assert 4 < int(str(row["total_used"])) < total_limit()


async def test_totals_are_shown():
    async with serving(connections_max=1) as s:
        await s.open()
        refused = await s.connect()
        await refused.send(HEADER)
        await refused.rest()
        (row,) = s.server.snapshot("server")
        assert row == {
            "identity": "server",
            "accepted": 1,
            "refused": {"the limit of 1 connections is reached": 1},
            "wrong_headers": 0,
            "handshake_time_outs": 0,
            "tls_handshakes": 0,
            "tls_failures": 0,
            "faults": 0,
            "unauthenticated": 0,
            "bytes_in": 14,
            "bytes_out": 14,
        }


def test_connections_never_get_the_last_descriptors():
    assert sockets_limit(None) == min(total_limit() * 9 // 10 - 2, total_limit() - RESERVED)
    assert sockets_limit(10**9) == sockets_limit(None)
    assert sockets_limit(5) == 5


async def test_an_operator_may_close_a_connection():
    async with serving() as s:
        client, front_end = await s.open()
        other, _ = await s.open()
        assert s.server.close_connection("c1", "no longer wanted")
        assert not s.server.close_connection("c9", "no such one")
        await other.send(b"here\n")
        await other.expect(b"here\n")
        assert await client.rest() == b"closed: no longer wanted\n"
        assert front_end.calls[-1] == "connection_lost"


async def test_an_operator_may_close_a_connection_that_has_said_nothing():
    async with serving() as s:
        silent = await s.connect()
        other, _ = await s.open()
        assert s.server.close_connection("c1", "no longer wanted")
        await other.send(b"here\n")
        assert await silent.rest() == b""


async def test_a_stop_says_good_bye_and_ends_when_all_have_gone():
    async with serving() as s:
        clients = [(await s.open())[0] for _ in range(3)]
        s.server.stop("maintenance")
        for client in clients:
            assert await client.rest() == b"closed: maintenance\n"
            await client.stream.aclose()
        await settled()
        assert s.server.snapshot("connections") == []
        host, port = s.server.listening_on[0]
        try:
            (await trio.open_tcp_stream(host, port)).socket.close()
            raise AssertionError("still listening")
        except OSError:
            pass


async def test_a_stop_in_the_tick_in_which_a_client_connects_is_in_order():
    """A connecting client wakes the accept loop, which finds its socket closed when it runs. The loop or the stop runs
    first, at random."""
    for _ in range(20):
        async with serving() as s:
            stops = _StopsInTheSameTick(s)
            with socket.socket() as client:
                client.connect(s.server.listening_on[0])
                trio.lowlevel.add_instrument(stops)
                await settled()
                trio.lowlevel.remove_instrument(stops)
            assert s.server.stopping


class _StopsInTheSameTick(trio.abc.Instrument):
    """Stops the server when its accept loop is woken."""

    def __init__(self, running: Serving) -> None:
        self._running = running

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith("Listener.run"):
            self._running.server.stop("maintenance")


async def test_a_stop_does_not_wait_for_ever(mock_clock: MockClock):
    async with serving(stop_grace="3s", linger="60s") as s:
        _, front_end = await s.open()
        s.server.stop("maintenance")
        await settled()
        assert len(s.server.snapshot("connections")) == 1
        mock_clock.jump(3.0)
        await settled()
        assert s.server.snapshot("connections") == []
        assert front_end.calls.count("connection_lost") == 1


async def test_closes_of_a_stop_are_spread_over_time(mock_clock: MockClock):
    """Four connections and 3 s: the first is closed at once, each further one 0.75 s later. The others are served."""
    async with serving(stop_spread="3s", stop_grace="60s") as s:
        clients = [(await s.open())[0] for _ in range(4)]
        s.server.stop("maintenance")
        await settled()
        for place, client in enumerate(clients):
            await client.expect(b"closed: maintenance\n")
            await client.stream.aclose()
            for later in clients[place + 1 :]:
                await later.send(b"still here\n")
                await later.expect(b"still here\n")
            await settled()
            assert len(s.server.snapshot("connections")) == 3 - place
            mock_clock.jump(0.75)
            await settled()
        assert s.server.stopping


async def test_a_connection_that_ends_before_its_close_is_left_alone(mock_clock: MockClock):
    async with serving(stop_spread="3s") as s:
        clients = [(await s.open())[0] for _ in range(2)]
        s.server.stop("maintenance")
        await settled()
        for client in clients:
            await client.stream.aclose()
        await settled()
        mock_clock.jump(1.5)
        await settled()
        assert s.server.snapshot("connections") == []


async def test_cancelling_the_server_gives_back_what_connections_held():
    async with serving() as s:
        _, front_end = await s.open()
    assert front_end.calls.count("connection_lost") == 1

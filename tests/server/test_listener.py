"""Accepting connections: limits, refusals with a reason, addresses."""

import errno
import socket

import pytest
import trio
from trio.testing import MockClock

from core.server.connections import (
    HURRIED_PREFACE_SECONDS_MAX,
    HURRIED_READING_SECONDS_MAX,
    PREFACE_SECONDS_MAX,
    REFUSALS_MAX,
)
from core.server.listener import open_listeners
from tests.kit.echo import HEADER
from tests.kit.serving import Serving, serving, settled


async def refusal(s: Serving) -> bytes:
    client = await s.connect()
    await client.send(HEADER)
    return await client.rest()


async def test_above_the_limit_of_connections_a_peer_is_told_why():
    async with serving(connections_max=2) as s:
        first, _ = await s.open()
        await s.open()
        assert await refusal(s) == HEADER + b"refused: the limit of 2 connections is reached\n"
        assert s.server.counters.refused == {"the limit of 2 connections is reached": 1}
        assert s.logged("connection-refused")[0]["at_most_every"] == 1.0
        await first.stream.aclose()
        await settled()
        await s.open()


async def test_a_refused_peer_that_says_nothing_is_told_too(mock_clock: MockClock):
    async with serving(connections_max=1) as s:
        await s.open()
        client = await s.connect()
        await settled()
        mock_clock.jump(PREFACE_SECONDS_MAX)
        assert await client.rest() == HEADER + b"refused: the limit of 1 connections is reached\n"


async def test_a_refused_peer_that_does_not_close_is_closed_within_a_second(mock_clock: MockClock):
    async with serving(connections_max=1) as s:
        await s.open()
        client = await s.connect()
        await client.send(HEADER)
        await client.rest()
        await client.send(b"talking on")
        await settled()
        mock_clock.jump(1.0)
        await settled()
        await client.send(b"anyone there?")  # answered with a reset, as the server has closed
        await settled()
        with pytest.raises(trio.BrokenResourceError):
            await client.send(b"anyone there?")


async def test_refusals_under_way_are_bounded_and_hurried_when_others_wait(mock_clock: MockClock):
    reason = HEADER + b"refused: the limit of 1 connections is reached\n"
    async with serving(connections_max=1) as s:
        await s.open()
        waiting = [await s.connect() for _ in range(REFUSALS_MAX)]
        await settled()
        mock_clock.jump(HURRIED_PREFACE_SECONDS_MAX)
        await settled()
        assert len(s.server._connections.refusals) == REFUSALS_MAX, "nobody waits, so nobody is hurried"
        surplus = await s.connect()
        await surplus.send(HEADER)
        await settled()
        for client in waiting:
            assert await client.rest() == reason
        mock_clock.jump(HURRIED_READING_SECONDS_MAX)
        assert await surplus.rest() == reason
        assert s.server.counters.refused.total() == REFUSALS_MAX + 1


async def test_a_refused_client_that_does_not_close_is_hurried_too(mock_clock: MockClock):
    async with serving(connections_max=1) as s:
        await s.open()
        told = [await s.connect() for _ in range(REFUSALS_MAX)]
        for client in told:
            await client.send(HEADER)
            await client.rest()
        surplus = await s.connect()
        await surplus.send(HEADER)
        await settled()
        assert len(s.server._connections.refusals) == REFUSALS_MAX
        mock_clock.jump(HURRIED_READING_SECONDS_MAX)
        assert await surplus.rest() != b""


async def test_a_listener_that_is_closed_while_refusals_are_hurried_ends(mock_clock: MockClock):
    async with serving(connections_max=1) as s:
        await s.open()
        for _ in range(REFUSALS_MAX + 1):
            await s.connect()
        await settled()
        s.server.stop("test")
        await settled()
        mock_clock.jump(1.0)


async def test_half_open_connections_of_one_address_are_bounded():
    async with serving(unauthenticated_per_host_max=2) as s:
        await s.open()
        half_open = [await s.connect() for _ in range(2)]
        await settled()
        assert b"before authentication from one address" in await refusal(s)
        await half_open[0].stream.aclose()
        await settled()
        await s.open()


async def test_half_open_connections_are_bounded_in_all():
    async with serving(unauthenticated_max=1) as s:
        await s.open()
        await s.connect()
        await settled()
        assert b"limit of 1 connections before authentication is" in await refusal(s)


async def test_small_messages_are_not_delayed_by_the_kernel():
    async with serving() as s:
        await s.open()
        (peer,) = s.server._connections
        assert peer._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_name_with_several_addresses_is_listened_on_at_each():
    found = await trio.socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)
    sockets = await open_listeners(["localhost:0"], backlog=1)
    try:
        assert len(sockets) == len(dict.fromkeys(found))
        assert {s.family for s in sockets} == {entry[0] for entry in found}
    finally:
        for listening in sockets:
            listening.close()


async def test_an_address_in_use_is_named_and_nothing_stays_open():
    (taken,) = await open_listeners(["127.0.0.1:0"], backlog=1)
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    try:
        with pytest.raises(OSError, match=f"cannot listen on {address}") as caught:
            await open_listeners(["127.0.0.1:0", address], backlog=1)
        assert caught.value.errno == errno.EADDRINUSE
    finally:
        taken.close()

"""Hostile peers on real sockets, against a whole broker, while a bystander publishes and consumes without a pause."""

from collections import Counter
from contextlib import suppress

import pytest
import trio

from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL
from amqp10.wire.messaging import ACCEPTED, Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
    encode_performative,
)
from core.config.access import AccessSettings
from tests.kit.attacked_server import OPENING, AttackedServer, SocketPeer, attacked_server
from tests.kit.hostile import frame
from tests.kit.settings import make_settings
from tests.kit.wire import data_message, numbered

pytestmark = pytest.mark.slow

UNDISTURBED_SECONDS = 4.0
"""A round of the bystander never takes longer, on however busy a machine. Usually it takes a few milliseconds, and 50
in the worst of the storms, whose sender shares the processor."""
SMALL_BUFFER = 4096
LARGE = 100_000
"""The size of messages of which a few fill every buffer on the way."""


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"AMQP\x00\x00\x09\x01",
        PROTOCOL_HEADER_AMQP,
        b"\x00" * 8,
    ],
    ids=["TLS", "HTTP", "AMQP 0.9.1", "AMQP without SASL", "zeros"],
)
async def test_a_wrong_header_is_answered_by_the_right_one_and_the_end(data: bytes):
    async with attacked_server() as s:
        peer = await s.connect()
        await peer.stream.send_all(data)
        assert await peer.rest() == PROTOCOL_HEADER_SASL
        hints = [str(entry["hint"]) for entry in s.log.entries if entry["event"] == "wrong-protocol-header"]
        assert len(hints) == (data != PROTOCOL_HEADER_AMQP)


async def test_a_thousand_half_open_connections():
    """They are more than the limit: 600 are served, and the others are told the reason, 32 at a time."""
    async with attacked_server(handshake_time_out="60s", unauthenticated_max=600) as s:
        peers = [await s.connect() for _ in range(1000)]
        await s.until(lambda: refused(s) == 400)
        assert s.totals()["accepted"] == 601
        assert s.totals()["unauthenticated"] == 600
        last_words: list[bytes] = []
        async with trio.open_nursery() as nursery:
            for peer in peers[600:]:
                nursery.start_soon(hear_out, peer, last_words)
        assert sum(b"before authentication" in words for words in last_words) == 400
        for peer in peers[:600]:
            await peer.stream.aclose()
        await s.until(lambda: s.totals()["unauthenticated"] == 0)
        assert s.totals()["handshake_time_outs"] == 0
        assert s.longest_round < UNDISTURBED_SECONDS
        await s.log_in()


async def test_time_runs_out_for_all_that_say_nothing():
    async with attacked_server(handshake_time_out="1s") as s:
        peers = [await s.connect() for _ in range(300)]
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(hear_out, peer, [])
        await s.until(lambda: s.totals()["handshake_time_outs"] == 300)
        assert s.totals()["unauthenticated"] == 0
        assert s.longest_round < UNDISTURBED_SECONDS


async def hear_out(peer: SocketPeer, last_words: list[bytes]) -> None:
    """Everything that the server sends until it closes."""
    last_words.append(await peer.rest())
    await peer.stream.aclose()


def refused(s: AttackedServer) -> int:
    """How many connections were not served."""
    return sum(s.server.counters.refused.values())


async def test_half_open_connections_of_one_host_leave_room_for_others():
    async with attacked_server(unauthenticated_per_host_max=10) as s:
        peers = [await s.connect() for _ in range(10)]
        await s.until(lambda: s.totals()["unauthenticated"] == 10)
        late = await s.connect()
        assert b"from one address" in await late.rest()
        await peers[0].log_in()
        await s.log_in()


@pytest.mark.parametrize("steps", [1, 3, 100])
async def test_a_trickle_does_not_lengthen_the_handshake(steps: int):
    """The handshake has one time-out in all, however the bytes come."""
    async with attacked_server(handshake_time_out="600ms") as s:
        peer = await s.connect()
        began = trio.current_time()
        opening = OPENING + frame(encode_performative(Open(container_id="x")))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trickle, peer, opening[: min(steps, len(opening) - 1)])
            await peer.rest()
            nursery.cancel_scope.cancel()
        assert 0.5 < trio.current_time() - began < 1.5
        assert s.totals()["handshake_time_outs"] == 1


async def trickle(peer: SocketPeer, data: bytes) -> None:
    """Send one byte at a time, as long as the server takes them."""
    with suppress(trio.BrokenResourceError):
        for at in range(len(data)):
            await peer.stream.send_all(data[at : at + 1])
            await trio.sleep(0.05)


async def test_a_peer_that_never_reads():
    """Its socket fills, a bounded rest waits in the broker, and everything is in its queue again when the peer has
    gone."""
    async with attacked_server(make_settings(amqp10={"unsent_bytes_max": 200_000})) as s:
        bodies = [b"%06d" % n + bytes(LARGE) for n in range(200)]
        s.fill(bodies)
        peer = await s.connect(receive_buffer=SMALL_BUFFER)
        await peer.log_in()
        await peer.attach_receiver("/queues/q", 2**32 - 1)
        await s.until(lambda: unsent(s, "peer") > 0)
        await s.more_rounds(10)
        assert unsent(s, "peer") <= 200_000 + LARGE + 1000
        assert s.longest_round < UNDISTURBED_SECONDS
        await peer.reset()
        await s.until(lambda: s.ready() == 200)
        other = await s.log_in(max_frame_size=2**20)
        await other.attach_receiver("/queues/q", 200)
        assert await other.bodies(200) == bodies


def unsent(s: AttackedServer, container_id: str) -> int:
    """How many bytes wait for the socket of a connection."""
    rows = s.server.snapshot("connections")
    return sum(int(str(row["unsent_bytes"])) for row in rows if row.get("container_id") == container_id)


async def test_a_slow_reader_gets_everything_in_order():
    async with attacked_server(make_settings(amqp10={"unsent_bytes_max": 100_000})) as s:
        bodies = [b"%06d" % n + bytes(2000) for n in range(1000)]
        s.fill(bodies)
        peer = await s.connect(receive_buffer=SMALL_BUFFER)
        await peer.log_in()
        await peer.attach_receiver("/queues/q", 1000)
        received: list[bytes] = []
        for n in range(1000):
            received += await peer.bodies(1)
            if n % 100 == 0:
                await trio.sleep(0.03)
        assert received == bodies
        assert s.longest_round < UNDISTURBED_SECONDS


@pytest.mark.parametrize("gone", ["reset", "closed"])
async def test_a_consumer_that_breaks_off_gives_everything_back_in_order(gone: str):
    async with attacked_server() as s:
        s.fill(numbered(300))
        peer = await s.log_in()
        await peer.attach_receiver("/queues/q", 200)
        assert await peer.bodies(200) == numbered(200)
        await peer.send(Disposition(role=True, first=0, last=9, settled=True, state=ACCEPTED))
        await s.until(lambda: s.broker.queue_info("q", s).unacknowledged == 190)
        await (peer.reset() if gone == "reset" else peer.stream.aclose())
        await s.until(lambda: s.ready() == 290)
        other = await s.log_in()
        await other.attach_receiver("/queues/q", 300)
        assert await other.bodies(290) == numbered(290, 10)


async def test_a_publisher_that_breaks_off_in_a_message():
    """Messages that were whole are kept, and the message that was not is dropped."""
    async with attacked_server() as s:
        peer = await s.log_in()
        await peer.attach_sender("/queues/q")
        await peer.publish(numbered(3))
        await peer.expect(Disposition, lambda each: (each.last or each.first) == 2)
        half = Transfer(handle=0, delivery_id=3, delivery_tag=b"t", more=True)
        payload = data_message(bytes(LARGE))
        await peer.send(half, payload=payload[:50_000])
        whole = frame(encode_performative(Transfer(handle=0)) + payload[50_000:])
        await peer.stream.send_all(whole[:-1])
        await s.more_rounds()
        await peer.reset()
        await s.until(lambda: len(s.server.snapshot("connections")) == 1)
        assert s.ready() == 3
        assert len(s.broker.snapshot("publishers")) == 1


ATTACH = Attach(name="a", handle=0, role=True, source=Source(address="/queues/q"), target=Target())
BEGIN = Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0)
ECHO = Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True)
STORMS = {
    "attaches": frame(encode_performative(ATTACH)) + frame(encode_performative(Detach(handle=0, closed=True))),
    "sessions": frame(encode_performative(BEGIN), channel=1) + frame(encode_performative(End()), channel=1),
    "echoes": frame(encode_performative(ECHO)),
    "heartbeats": frame(b""),
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
async def test_a_storm_from_a_peer_that_does_not_read(storm: bytes):
    """The storm slows down its own sender only, and the broker keeps a bounded amount of answers."""
    limit = 100_000
    async with attacked_server(make_settings(amqp10={"unsent_bytes_max": limit})) as s:
        peer = await s.connect(receive_buffer=SMALL_BUFFER)
        await peer.log_in()
        chunk = storm * (60_000 // len(storm))
        with trio.move_on_after(0.5):
            while True:
                await peer.stream.send_all(chunk)
        (row,) = (row for row in s.server.snapshot("connections") if row["container_id"] == "peer")
        assert int(str(row["unsent_bytes"])) <= 30 * limit
        await s.more_rounds()
        assert s.longest_round < UNDISTURBED_SECONDS
        await peer.reset()
        await s.until(lambda: len(s.server.snapshot("connections")) == 1)


async def test_a_flood_of_wrong_passwords():
    """Each client is told after a second or more. Until then it uses a socket and nothing else.

    As many passwords as the limit of a user and an address are hashed. The other logins are put off without a hash.
    """
    hashed = AccessSettings().failed_logins_per_user_and_address
    async with attacked_server(unauthenticated_max=100) as s:
        wrong = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0wrong"))
        peers = [await s.connect() for _ in range(50)]
        for peer in peers:
            await peer.stream.send_all(PROTOCOL_HEADER_SASL + wrong + bytes(10_000))
        began = trio.current_time()
        await s.more_rounds(20)
        answers = Counter([(await peer.rest())[-8:] for peer in peers])
        outcome = b"\x00\x53\x44\xc0\x03\x01\x50"
        assert answers == {outcome + b"\x01": hashed, outcome + b"\x04": len(peers) - hashed}  # auth, sys-temp
        assert trio.current_time() - began < 4.0
        assert s.longest_round < UNDISTURBED_SECONDS


async def test_an_operator_closes_a_connection_that_does_not_read():
    async with attacked_server(make_settings(amqp10={"unsent_bytes_max": 100_000}), linger="300ms") as s:
        s.fill([bytes(LARGE)] * 100)
        peer = await s.connect(receive_buffer=SMALL_BUFFER)
        await peer.log_in(container_id="deaf")
        await peer.attach_receiver("/queues/q", 100)
        await s.until(lambda: unsent(s, "deaf") > 0)
        (row,) = (row for row in s.server.snapshot("connections") if row.get("container_id") == "deaf")
        s.server.close_connection(str(row["identity"]), "you do not listen")
        await s.until(lambda: s.ready() == 100)
        await s.more_rounds()

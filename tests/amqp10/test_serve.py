"""How the process is put together: every setting reaches its place, connections that cannot be served are told why, and
the others are served."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import trio

from amqp10.client import connect
from amqp10.conversion.converter import MessageConverter
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import ConnectionClosed, ConnectionOpened
from amqp10.protocol.handshake import ClientHandshake
from amqp10.protocol.sasl import (
    Anonymous,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_sasl_frame,
    encode_sasl_frame,
)
from amqp10.protocol.settings import ConnectionSettings
from amqp10.serve import (
    CAPABILITIES,
    CONTAINER_ID,
    amqp10_factory,
    connection_settings,
    refusal,
    serve,
)
from amqp10.wire.framing import (
    PROTOCOL_HEADER_AMQP,
    PROTOCOL_HEADER_SASL,
    PROTOCOL_HEADER_TLS,
    ReceiveBuffer,
    encode_frame,
)
from amqp10.wire.performatives import Begin, Open, encode_performative
from core.access.login import PasswordCheck
from core.clock import Now
from core.config import Settings
from core.config.access import UserSettings
from core.config.amqp10 import Amqp10Settings
from core.control_plane import BrokerControl
from core.counters.traffic import Traffic
from core.engine.broker import Broker
from core.observe.stalls import Stalls
from core.process import headgate_version
from core.server.drain import DRAINED
from core.server.frontends import FrontEnd, FrontEndFactory, PeerInfo
from core.server.signals import Signals
from tests.kit.logins import make_access, user

NOW = Now(100.0, 1_700_000_000.0)
PEER = PeerInfo("c-1", "127.0.0.1", 40000, "127.0.0.1", 5672)
NOT_ANNOUNCED = {"max_link_credit", "link_credit_top_up", "unconfirmed_limit", "management_link_credit"} | {
    *("max_queue_credit", "max_message_size", "flow_reason", "flow", "wanted_link_credit_max"),
    *("link_unconfirmed_bytes_max", "connection_unconfirmed_bytes_max", "unconfirmed_bytes_max"),
    *("connection_publish_rate", "connection_publish_rate_bytes", "queue_grant_min", "queue_grant_max"),
}
"""Settings that the front end reads itself; all others are of the connection."""


def configured(**amqp10: object) -> ConnectionSettings:
    """What a connection gets from a configuration."""
    return connection_settings(Amqp10Settings.model_validate(amqp10))


def another(value: object) -> object:
    """A value of the same type that is not the default, and is allowed beside the other defaults."""
    assert isinstance(value, int | float)
    return value + 1 if isinstance(value, int) else value * 1.5


def numbers(announced: ConnectionSettings) -> dict[str, object]:
    """The fields by name, those of its sessions among them."""
    return asdict(announced) | asdict(announced.session)


def changed(one: ConnectionSettings, other: ConnectionSettings) -> set[str]:
    """The fields in which two connections' settings differ."""
    left, right = numbers(one), numbers(other)
    return {name for name in left if left[name] != right[name]} - {"session"}


@pytest.mark.parametrize("key", sorted(set(Amqp10Settings.model_fields) - NOT_ANNOUNCED))
def test_every_key_of_the_connection_reaches_it(key):
    value = another(Amqp10Settings.model_fields[key].default)
    (field,) = changed(configured(), configured(**{key: value}))
    assert field.removesuffix("_ms") == key
    assert numbers(configured(**{key: value}))[field] in (value, round(float(str(value)) * 1000))


def test_the_defaults_of_the_library_and_of_the_configuration_agree():
    """Neither may import the other. A client with one connection needs no turns, and announces no capabilities."""
    own = {"properties", "offered_capabilities", "frames_per_turn_max"}
    assert changed(ConnectionSettings(container_id=CONTAINER_ID), configured()) == own


def test_what_is_announced_besides_numbers():
    announced = configured()
    assert announced.container_id == "headgate"
    assert announced.offered_capabilities == CAPABILITIES
    assert headgate_version() in str(announced.properties["information"])


# --- connections that cannot be served


@pytest.mark.parametrize("reason", ["no descriptors are left", "ä" * 1000])
def test_a_refusal_is_a_whole_handshake_that_ends_in_a_close(reason):
    data = refusal(configured(), reason)
    client = Connection(
        ConnectionSettings(container_id="client"),
        ClientHandshake([Anonymous()], hostname=None, frame_size_max=512),
    )
    assert client.data_to_send(0.0) == PROTOCOL_HEADER_SASL
    events = []
    for position in range(len(data)):
        client.receive_data(data[position : position + 1], 0.0)
        while (event := client.next_event()) is not None:
            events.append(event)
            if isinstance(event, ConnectionOpened):
                client.open()
    opened, closed = events
    assert isinstance(opened, ConnectionOpened)
    assert isinstance(closed, ConnectionClosed)
    assert closed.error is not None
    assert closed.error.condition == "amqp:resource-limit-exceeded"
    assert (closed.error.description or "")[:20] == reason[:20]
    assert closed.by_peer
    assert client.finished
    assert client.handshake.refused is None


def test_a_refusal_byte_by_byte():
    data = refusal(configured(), "enough")
    assert data.startswith(PROTOCOL_HEADER_SASL)
    buffer = ReceiveBuffer()
    buffer.feed(data[8:])
    performatives = []
    for _ in range(2):
        frame = buffer.next_frame(512)
        assert frame is not None
        performatives.append(decode_sasl_frame(buffer.data, frame))
    assert performatives == [
        SaslMechanisms(sasl_server_mechanisms=("PLAIN", "ANONYMOUS")),
        SaslOutcome(code=0),
    ]
    assert buffer.take(8) == PROTOCOL_HEADER_AMQP
    assert buffer.next_frame(65536) is not None
    assert buffer.next_frame(512) is not None
    assert len(buffer) == 0


# --- connections that are served


SOMEBODY = user("alice", "secret")


def factory(*users: UserSettings, anonymous: bool) -> FrontEndFactory:
    broker = Broker(Settings(), MessageConverter())
    stalls = Stalls(clock=lambda: NOW)
    return amqp10_factory(
        settings=Settings(),
        broker=broker,
        control=BrokerControl(broker, version="test", pid=0, stalls=stalls),
        converter=MessageConverter(),
        access=make_access(*users, anonymous=anonymous),
        stalls=stalls,
        traffic=Traffic(),
    )


def test_which_prefaces_are_taken():
    accepts = factory(anonymous=True).accepts
    assert accepts(PROTOCOL_HEADER_SASL)
    assert accepts(PROTOCOL_HEADER_AMQP)
    assert not accepts(PROTOCOL_HEADER_TLS)
    assert not accepts(b"AMQP\x00\x00\x09\x01")
    assert PROTOCOL_HEADER_SASL in factory(anonymous=True).refusal("enough")


@pytest.mark.parametrize(("anonymous", "bare"), [(True, PROTOCOL_HEADER_AMQP), (False, PROTOCOL_HEADER_SASL)])
def test_anonymous_peers_need_no_sasl_where_they_are_allowed(anonymous, bare):
    front_end = factory(SOMEBODY, anonymous=anonymous).make(PEER, lambda: None)
    front_end.receive_data(PROTOCOL_HEADER_AMQP, NOW)
    assert b"".join(front_end.pieces_to_send(NOW)) == bare
    assert front_end.finished is not anonymous
    front_end = factory(SOMEBODY, anonymous=anonymous).make(PEER, lambda: None)
    front_end.receive_data(PROTOCOL_HEADER_SASL, NOW)
    assert (b"ANONYMOUS" in b"".join(front_end.pieces_to_send(NOW))) is anonymous


def test_while_guest_is_the_only_user_a_local_peer_needs_no_name_but_sasl():
    make = factory(anonymous=False).make
    for peer, offered in [(PEER, True), (replace(PEER, remote_host="192.0.2.1"), False)]:
        front_end = make(peer, lambda: None)
        front_end.receive_data(PROTOCOL_HEADER_SASL, NOW)
        assert (b"ANONYMOUS" in b"".join(front_end.pieces_to_send(NOW))) is offered
        front_end = make(peer, lambda: None)
        front_end.receive_data(PROTOCOL_HEADER_AMQP, NOW)
        assert b"".join(front_end.pieces_to_send(NOW)) == PROTOCOL_HEADER_SASL, "no peer comes in without SASL"


def idle_front_end(make: Callable[[PeerInfo, Callable[[], None]], FrontEnd]) -> FrontEnd:
    """A connection that has logged in and has one session, without links."""
    front_end = make(PEER, lambda: None)
    front_end.receive_data(PROTOCOL_HEADER_SASL, NOW)
    front_end.receive_data(encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0alice\0secret")), NOW)
    front_end.receive_data(PROTOCOL_HEADER_AMQP, NOW)
    begin = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100)
    for performative in (Open(container_id="client"), begin):
        front_end.receive_data(encode_frame(0, encode_performative(performative)), NOW)
    front_end.take_actions(NOW)
    front_end.pieces_to_send(NOW)
    return front_end


def test_an_idle_connection_takes_little_memory_and_keeps_no_password():
    """The server adds a socket, a peer and entries in tables to it, 1.2 KiB; the goal is 10 KiB in all."""
    make = factory(SOMEBODY, anonymous=False).make
    idle_front_end(make)  # fills caches
    count = 50
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [idle_front_end(make) for _ in range(count)]
        each = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    rows = [front_end.snapshot("connections", NOW)[0] for front_end in kept]
    assert {row["user"] for row in rows} == {"alice"}
    assert {len(front_end.snapshot("sessions", NOW)) for front_end in kept} == {1}
    assert 1024 < each < 8 * 1024
    gc.collect()
    assert not [check for check in gc.get_objects() if isinstance(check, PasswordCheck)]


async def test_the_whole_broker_serves_on_a_socket(tmp_path):
    settings = Settings.model_validate(
        {
            "server": {"listen": ["127.0.0.1:0"]},
            "access": {"anonymous": True},
            "data": {"folder": str(tmp_path / "data")},
            "admin": {"enabled": False},
        }
    )
    addresses: list[tuple[str, int]] = []
    ready = trio.Event()

    def listening(where, _, __) -> None:
        addresses.extend(where)
        ready.set()

    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await serve(settings, ready=listening, signals=Signals(), read=lambda: settings)

        nursery.start_soon(run)
        await ready.wait()
        host, port = addresses[0]
        async with connect(f"amqp://{host}:{port}") as connection:
            assert connection.broker["information"] == f"Headgate {headgate_version()}"
            answer = await connection.request("PUT", "/queues/q", {})
            assert answer.status == 201
        nursery.cancel_scope.cancel()


def test_a_peer_that_comes_to_a_drained_broker_is_told_to_go_elsewhere():
    assert b"amqp:connection:forced" in refusal(configured(), DRAINED)
    assert b"amqp:connection:forced" not in refusal(configured(), "enough")

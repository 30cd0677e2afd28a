"""How the process is put together: every setting reaches its place, connections that cannot be served are told why, and
the others are served."""

from dataclasses import fields, replace

import pytest
import trio

from amqp10.client import connect
from amqp10.conversion.converter import MessageConverter
from amqp10.frontend.settings import Amqp10FrontEndSettings
from amqp10.protocol.connection import Connection, ConnectionSettings
from amqp10.protocol.events import ConnectionClosed, ConnectionOpened
from amqp10.protocol.handshake import ClientHandshake
from amqp10.protocol.sasl import Anonymous, SaslMechanisms, SaslOutcome, decode_sasl_frame
from amqp10.serve import (
    CAPABILITIES,
    amqp10_factory,
    connection_settings,
    front_end_settings,
    refusal,
    serve,
)
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, PROTOCOL_HEADER_TLS, ReceiveBuffer
from core.clock import Now
from core.config import Settings
from core.config.access import UserSettings
from core.config.amqp10 import Amqp10Settings, FlowReasonSettings
from core.control_plane import BrokerControl
from core.engine.broker import Broker
from core.engine.settings import VirtualHostSettings
from core.observe.stalls import Stalls
from core.process import headgate_version
from core.server.drain import DRAINED
from core.server.frontends import FrontEndFactory, PeerInfo
from core.server.signals import Signals
from tests.kit.logins import make_access, user

NOW = Now(100.0, 1_700_000_000.0)
PEER = PeerInfo("c-1", "127.0.0.1", 40000, "127.0.0.1", 5672)
SAME_NAME = {each.name for each in fields(Amqp10FrontEndSettings)} & {each.name for each in fields(ConnectionSettings)}


def configured(**amqp10: object) -> Amqp10FrontEndSettings:
    """The settings that the front end gets from a configuration."""
    return front_end_settings(Settings.model_validate({"amqp10": amqp10}))


def another(value: object) -> object:
    """A value of the same type that is not the default, and is allowed beside the other defaults."""
    if isinstance(value, bool):
        return not value
    assert isinstance(value, int | float)
    return value + 1 if isinstance(value, int) else value * 1.5


def changed(one: object, other: object) -> set[str]:
    """The fields in which two objects of settings differ."""
    return {each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)}  # type: ignore[arg-type]


@pytest.mark.parametrize("key", sorted(set(Amqp10Settings.model_fields) - {"flow_reason"}))
def test_every_key_reaches_the_front_end(key):
    value = another(Amqp10Settings.model_fields[key].default)
    differing = changed(configured(), configured(**{key: value}))
    if key == "management_link_credit":
        assert differing <= {"management_link_credit", "management_top_up"}
    else:
        assert len(differing) == 1
    (field, *_) = sorted(differing)
    got = getattr(configured(**{key: value}), field)
    if field == "session":
        assert value in {getattr(got, each.name) for each in fields(got)}
    else:
        assert got in (value, round(float(str(value)) * 1000))


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("enabled", False, "reasons", False),
        ("after", 0.2, "reason_after_ms", 200),
        ("per_second_max", 4, "reason_interval_ms", 250),
    ],
)
def test_every_key_about_reasons_reaches_the_front_end(key, value, field, expected):
    assert set(FlowReasonSettings.model_fields) == {"enabled", "after", "per_second_max"}
    settings = configured(flow_reason={key: value})
    assert changed(configured(), settings) == {field}
    assert getattr(settings, field) == expected


def test_the_defaults_agree():
    """The front end's own defaults, which tests use, are those of the configuration."""
    assert changed(Amqp10FrontEndSettings(), configured()) == {"properties"}


@pytest.mark.parametrize("field", sorted(SAME_NAME - {"session", "container_id", "properties"}))
def test_every_number_reaches_the_connection(field):
    settings = Amqp10FrontEndSettings()
    value = another(getattr(settings, field))
    assert getattr(connection_settings(replace(settings, **{field: value})), field) == value


def test_what_is_announced_besides_numbers():
    settings = configured()
    announced = connection_settings(settings)
    assert announced.session is settings.session
    assert announced.container_id == settings.container_id
    assert announced.offered_capabilities == CAPABILITIES
    assert dict(announced.properties) == dict(settings.properties)
    assert headgate_version() in str(announced.properties["information"])


# --- connections that cannot be served


@pytest.mark.parametrize("reason", ["no descriptors are left", "ä" * 1000])
def test_a_refusal_is_a_whole_handshake_that_ends_in_a_close(reason):
    data = refusal(connection_settings(configured()), reason)
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
    data = refusal(connection_settings(configured()), "enough")
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
    broker = Broker(VirtualHostSettings(), MessageConverter())
    stalls = Stalls(clock=lambda: NOW)
    return amqp10_factory(
        settings=configured(),
        broker=broker,
        control=BrokerControl(broker, version="test", pid=0, stalls=stalls),
        converter=MessageConverter(),
        access=make_access(*users, anonymous=anonymous),
        stalls=stalls,
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
    assert front_end.data_to_send(NOW) == bare
    assert front_end.finished is not anonymous
    front_end = factory(SOMEBODY, anonymous=anonymous).make(PEER, lambda: None)
    front_end.receive_data(PROTOCOL_HEADER_SASL, NOW)
    assert (b"ANONYMOUS" in front_end.data_to_send(NOW)) is anonymous


def test_while_guest_is_the_only_user_a_local_peer_needs_no_name_but_sasl():
    make = factory(anonymous=False).make
    for peer, offered in [(PEER, True), (replace(PEER, remote_host="192.0.2.1"), False)]:
        front_end = make(peer, lambda: None)
        front_end.receive_data(PROTOCOL_HEADER_SASL, NOW)
        assert (b"ANONYMOUS" in front_end.data_to_send(NOW)) is offered
        front_end = make(peer, lambda: None)
        front_end.receive_data(PROTOCOL_HEADER_AMQP, NOW)
        assert front_end.data_to_send(NOW) == PROTOCOL_HEADER_SASL, "without SASL nobody comes in"


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

    def listening(where, _) -> None:
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
    assert b"amqp:connection:forced" in refusal(connection_settings(configured()), DRAINED)
    assert b"amqp:connection:forced" not in refusal(connection_settings(configured()), "enough")

"""TLS on a port: handshakes, data in both directions, ends, and what peers may do wrong."""

import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from core.server.certificates import Certificates
from core.server.tls import PLAIN_ANSWER, TlsFailed, Tunnel
from tests.kit.certificates import Trial
from tests.kit.echo import HEADER
from tests.kit.serving import Client, Serving, serving, settled

LIVE = 100
"""Connections under which a certificate is changed."""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    made = Trial.make(tmp_path_factory.mktemp("tls"))
    made.write_client("alice")
    return made


async def failed(s: Serving, context: ssl.SSLContext, name: str = "localhost") -> str:
    """Why the broker says that a handshake has failed. In TLS 1.3 a client may learn of it after its own handshake."""
    answer = b""
    with suppress(trio.BrokenResourceError):
        client = await s.connect_tls(context, name)
        await client.send(HEADER)
        answer = await client.rest()
    assert not answer
    await settled()
    return str(s.logged("handshake-failed")[-1]["reason"])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_lines_go_to_and_fro_over_both_versions(trial: Trial, version: ssl.TLSVersion):
    context = trial.context()
    context.maximum_version = context.minimum_version = version
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_tls(context)
        await client.send(HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        (row,) = s.server.snapshot("connections")
        assert row["tls"] == version.name.replace("_", ".")
        assert s.server.counters.handshakes == 1
        await client.send(b"quit\n")
        assert await client.rest() == b"bye\n"
        await client.stream.aclose()
        await settled()
        assert not s.server.snapshot("connections")
        assert not s.logged("handshake-failed")


async def test_many_records_and_an_output_larger_than_the_socket_take(trial: Trial):
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_tls(trial.context())
        await client.send(HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        line = b"x" * 99_999 + b"\n"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, line * 100)
            await client.expect(line * 100)


async def test_a_port_without_tls_serves_beside_one_with_it(trial: Trial):
    async with serving(tls=trial.settings()) as s:
        await s.open()
        await s.connect_tls(trial.context())
        await settled()
        assert s.server.counters.handshakes == 1
        assert [row["tls"] for row in s.server.snapshot("listeners")] == [False, True]


async def test_a_handshake_may_come_byte_by_byte_and_first_data_with_its_end(trial: Trial):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trial.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_plain_to_tls()
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        for byte in outgoing.read():
            await client.send(bytes([byte]))
        while True:
            incoming.write(await client.stream.receive_some())
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                continue
            break
        tls.write(HEADER + b"hello\n")
        await client.send(outgoing.read())  # the client's last message and its first data in one piece
        received = b""
        while len(received) < len(HEADER) + 6:
            incoming.write(await client.stream.receive_some())
            try:
                received += tls.read()
            except ssl.SSLWantReadError:
                continue  # a ticket
        assert received == HEADER + b"hello\n"


async def test_a_client_without_a_certificate_is_refused_where_one_is_required(trial: Trial):
    async with serving(tls=trial.asking()) as s:
        reason = await failed(s, trial.context())
        assert reason == "the client sent no certificate, and tls.client_certificate is required"


async def test_an_optional_certificate_is_known_and_another_authority_s_is_refused(trial: Trial, tmp_path: Path):
    stranger = Trial.make(tmp_path)
    stranger.write_client("alice")
    mixed = trial.context()
    mixed.load_cert_chain(stranger.path("alice.pem"), stranger.path("alice.key"))
    async with serving(tls=trial.asking("optional")) as s:
        await s.connect_tls(trial.context())
        client = await s.connect_tls(trial.context("alice"))
        await client.send(HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        assert s.server.snapshot("connections")[1]["client_certificate"] == "CN=alice,O=Headgate trial"
        reason = await failed(s, mixed)
        assert reason.startswith("the certificate of the client is not accepted: ")


def refusal(trial: Trial, client: ssl.SSLContext, name: str | None = "localhost", **settings: object) -> str:
    """Why a handshake fails, as the broker tells it, for a client that sends its alert."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client.wrap_bio(incoming, outgoing, server_hostname=name)
    certificates = Certificates(trial.settings(**settings), wall=time.time, log=structlog.get_logger())
    tunnel = certificates.new_tunnel()

    def shake() -> None:
        for _ in range(3):
            with suppress(ssl.SSLError):
                tls.do_handshake()
            tunnel.receive_handshake(outgoing.read())
            tunnel.shake()
            incoming.write(tunnel.take_output())

    with pytest.raises(TlsFailed) as caught:
        shake()
    return str(caught.value)


def test_an_old_version_an_unknown_authority_and_a_wrong_host_are_told_apart(trial: Trial):
    old = trial.context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert "see tls.minimum" in refusal(trial, old, minimum="1.3")
    assert "does not trust the authority" in refusal(trial, trial.context(trust=False))
    assert "does not accept the certificate" in refusal(trial, trial.context(), name="other.example")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_asks_for_no_host_name_is_refused_where_one_is_required(trial: Trial, version: ssl.TLSVersion):
    nameless = trial.context()
    nameless.check_hostname = False
    nameless.minimum_version = nameless.maximum_version = version
    assert "tls.sni_required" in refusal(trial, nameless, name=None, sni_required=True)


async def test_a_client_that_asks_for_any_host_name_is_let_in_where_one_is_required(trial: Trial):
    async with serving(tls=trial.settings(sni_required=True)) as s:
        await s.connect_tls(trial.context())


@pytest.mark.parametrize(
    ("sent", "answer", "reason"),
    [
        (b"AMQP\x03\x01\x00\x00", PLAIN_ANSWER, "AMQP without TLS: this port needs TLS; connect with amqps://"),
        (b"AMQP\x00\x00\x09\x01", PLAIN_ANSWER, "AMQP without TLS: this port needs TLS; connect with amqps://"),
        (b"GET / HTTP/1.1\r\n\r\n", b"", "the bytes are no TLS; this port speaks AMQP with TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(70_000), None, None),
    ],
)
async def test_bytes_that_are_no_tls(trial: Trial, sent: bytes, answer: bytes | None, reason: str | None):
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_plain_to_tls()
        await client.send(sent)
        received = await client.rest()
        await settled()
        (line,) = s.logged("handshake-failed")
        if reason is not None:
            assert (received, line["reason"]) == (answer, reason)
        await s.connect_tls(trial.context())


async def test_tls_on_a_port_without_it_is_named_in_the_log(trial: Trial):
    async with serving(tls=trial.settings()) as s:
        host, port = s.server.listening_on[0]
        transport = await trio.open_tcp_stream(host, port)
        with pytest.raises(trio.BrokenResourceError):
            await trio.SSLStream(transport, trial.context(), server_hostname="localhost").do_handshake()
        await transport.aclose()
        assert "connect without TLS" in str(s.logged("wrong-protocol-header")[0]["hint"])


async def test_a_handshake_that_is_never_finished_ends_with_its_time(trial: Trial, mock_clock: trio.testing.MockClock):
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_plain_to_tls()
        await client.send(b"\x16\x03\x01\x02\x00")
        await settled()
        mock_clock.jump(3.0)
        await client.send(b"\x01")
        await settled()
        mock_clock.jump(2.1)
        assert await client.rest() == b""
        assert s.server.counters.handshake_time_outs == 1


async def test_a_peer_that_leaves_in_the_handshake_is_no_fault(trial: Trial):
    async with serving(tls=trial.settings()) as s:
        client = await s.connect_plain_to_tls()
        await client.send(b"\x16\x03\x01")
        await client.stream.aclose()
        await settled()
        assert s.logged("connection-closed")[0]["reason"] == "closed during the TLS handshake"
        assert s.server.counters.faults == 0


async def test_a_changed_record_ends_the_connection_alone(trial: Trial):
    async with serving(tls=trial.settings()) as s:
        bystander = await s.connect_tls(trial.context())
        await bystander.send(HEADER + b"hello\n")
        client = await s.connect_tls(trial.context())
        await client.send(HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        assert isinstance(client.stream, trio.SSLStream)
        await client.stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        await settled()
        assert s.logged("connection-not-encrypted")[0]["reason"] == "a record was changed on its way"
        await bystander.expect(HEADER + b"hello\n")
        assert s.server.counters.faults == 0


async def test_a_refused_connection_gets_no_handshake(trial: Trial):
    async with serving(tls=trial.settings(), connections_max=1) as s:
        await s.connect_tls(trial.context())
        with pytest.raises(trio.BrokenResourceError):
            await s.connect_tls(trial.context())
        assert s.server.counters.refused == {"the limit of 1 connections is reached": 1}


def test_more_than_the_allowed_bytes_end_a_handshake(trial: Trial):
    certificates = Certificates(trial.settings(), wall=time.time, log=structlog.get_logger())
    assert certificates.context.options & (ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION)
    tunnel = Tunnel(certificates.context, handshake_bytes_max=100)
    tunnel.receive_handshake(b"\x16" + bytes(99))
    with pytest.raises(TlsFailed, match="handshake_bytes_max"):
        tunnel.receive_handshake(b"\0")


@pytest.mark.slow
async def test_a_certificate_changes_under_live_connections_and_none_is_lost(tmp_path: Path):
    trial = Trial.make(tmp_path)
    context = trial.context()
    async with serving(tls=trial.settings(check_interval=3600)) as s:
        clients = [await s.connect_tls(context) for _ in range(LIVE)]
        for client in clients:
            await client.send(HEADER + b"before\n")
        before = serial(clients[0])
        new = trial.write_server()
        s.server.certificates.look()
        for client in clients:
            await client.expect(HEADER + b"before\n")
            await client.send(b"after\n")
        for client in clients:
            await client.expect(b"after\n")
        assert {serial(client) for client in clients} == {before}
        assert serial(await s.connect_tls(context)) == new.certificate.serial_number != before
        assert len(s.server.snapshot("connections")) == LIVE + 1
        assert s.server.counters.wrapping_failures == 0


def serial(client: Client) -> int:
    """The serial number of the certificate that the client was shown."""
    assert isinstance(client.stream, trio.SSLStream)
    return int(client.stream.getpeercert()["serialNumber"], 16)

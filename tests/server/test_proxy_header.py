"""The PROXY protocol: what a header says, and from whom it is read."""

import socket

import pytest
import trio

from core.server.proxy_header import ProxyHeader, ProxyHeaderWrong, parse_proxy_header
from tests.kit.certificates import Trial
from tests.kit.echo import HEADER
from tests.kit.serving import serving, settled

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 5671\r\n"
FROM_V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + b"\x12\x67\x16\x27"
V2 = SIGNATURE + b"\x21\x11\x00\x0c" + FROM_V4
V2_V6 = SIGNATURE + b"\x21\x21\x00\x24" + socket.inet_pton(socket.AF_INET6, "2001:db8::7") * 2 + b"\x12\x67\x16\x27"
V2_LOCAL = SIGNATURE + b"\x20\x00\x00\x00"


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (V1, ("192.0.2.7", 4711)),
        (b"PROXY TCP6 2001:db8::7 2001:db8::8 4711 5671\r\n", ("2001:db8::7", 4711)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None),
        (V2, ("192.0.2.7", 4711)),
        (V2_V6, ("2001:db8::7", 4711)),
        (V2_LOCAL, None),
        (SIGNATURE + b"\x21\x11\x00\x10" + FROM_V4 + b"\x04\x00\x01x", ("192.0.2.7", 4711)),
        (SIGNATURE + b"\x21\x00\x00\x00", None),
    ],
)
def test_what_a_header_says(header: bytes, source: tuple[str, int] | None):
    assert parse_proxy_header(header + b"AMQP") == ProxyHeader(source, len(header))
    assert all(parse_proxy_header(header[:length]) is None for length in range(len(header)))


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\0\1\0\0",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 4711\r\n",
        b"PROXY TCP4 somewhere 198.51.100.1 4711 5671\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 99999 5671\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 4711 5671\r\n",
        b"PROXY " + b"x" * 101,
        SIGNATURE + b"\x31\x11\x00\x0c" + FROM_V4,
        SIGNATURE + b"\x22\x11\x00\x0c" + FROM_V4,
        SIGNATURE + b"\x21\x11\x00\x04" + FROM_V4[:4],
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header(header: bytes):
    with pytest.raises(ProxyHeaderWrong):
        parse_proxy_header(header)


@pytest.mark.parametrize("header", [V1, V2])
async def test_a_proxy_tells_where_its_client_is(header: bytes):
    async with serving(proxy_from=["127.0.0.0/8"]) as s:
        client = await s.connect()
        await client.send(header[:9])
        await client.send(header[9:] + HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        (row,) = s.server.snapshot("connections")
        assert (row["remote_host"], row["remote_port"]) == ("192.0.2.7", 4711)


async def test_the_header_comes_before_tls(tmp_path):
    trial = Trial.make(tmp_path)
    async with serving(tls=trial.settings(), proxy_from=["127.0.0.1/32"]) as s:
        transport = await trio.open_tcp_stream(*s.server.tls_listening_on[0])
        await transport.send_all(V2)
        async with trio.SSLStream(
            transport, trial.context(), server_hostname="localhost", https_compatible=True
        ) as tls:
            await tls.send_all(HEADER + b"hello\n")
            assert await tls.receive_some() == HEADER + b"hello\n"
            (row,) = s.server.snapshot("connections")
            assert (row["remote_host"], row["tls"]) == ("192.0.2.7", "TLSv1.3")


async def test_a_proxy_that_speaks_for_itself_keeps_its_address():
    async with serving(proxy_from=["127.0.0.0/8"]) as s:
        client = await s.connect()
        await client.send(V2_LOCAL + HEADER + b"hello\n")
        await client.expect(HEADER + b"hello\n")
        assert s.server.snapshot("connections")[0]["remote_host"] == "127.0.0.1"


async def test_a_connection_without_a_header_is_closed_where_one_is_due_and_the_header_is_nothing_elsewhere():
    async with serving(proxy_from=["127.0.0.0/8"]) as s:
        client = await s.connect()
        await client.send(HEADER)
        assert await client.rest() == b""
        assert "does not begin with a header" in str(s.logged("handshake-failed")[0]["reason"])
    async with serving(proxy_from=["192.0.2.0/24"]) as s:
        client = await s.connect()
        await client.send(V1)
        await settled()
        assert s.server.counters.wrong_headers == 1


async def test_limits_of_an_address_apply_to_the_client_and_not_to_the_proxy():
    async with serving(proxy_from=["127.0.0.0/8"], unauthenticated_per_host_max=1) as s:
        for number, host in enumerate((b"192.0.2.7", b"192.0.2.8", b"192.0.2.7")):
            client = await s.connect()
            await client.send(b"PROXY TCP4 " + host + b" 198.51.100.1 4711 5671\r\n")
            await settled()
            assert len(s.server.snapshot("connections")) == min(number + 1, 2)
        assert await client.rest() == b""
        assert list(s.server.counters.refused) == [
            "the limit of 1 connections before authentication from one address is reached"
        ]

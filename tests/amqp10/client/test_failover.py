"""A client that knows several brokers: it goes on at the next one, and takes those that a broker announces."""

import logging
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from amqp10.client import Backoff, BadUrl, ConnectionLost, Message, NotLetIn, Unreachable, Url, connect
from amqp10.client.addresses import BrokerAddresses, urls_of
from amqp10.client_core.url import TlsFiles
from amqp10.protocol.failover_servers import FAILOVER_SERVER_LIST, FailoverServer, failover_property
from amqp10.wire.messaging import Accepted
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import PATIENT, StreamBroker, stream_broker

A, B, C = (f"amqp://guest:guest@{name}" for name in "abc")


class Brokers:
    """Three brokers that know nothing of each other."""

    def __init__(self, brokers: list[StreamBroker]) -> None:
        self.by_host = dict(zip("abc", brokers, strict=True))
        self.tried: list[str] = []

    async def open_stream(self, host, port):
        self.tried.append(f"{host}:{port}")
        return await self.by_host[host].open_stream(host, port)

    def settings(self, **chosen):
        return self["a"].settings(open_stream=self.open_stream, **{"reconnect": PATIENT, **chosen})

    def __getitem__(self, host) -> StreamBroker:
        return self.by_host[host]

    def lose(self, *hosts):
        for host in hosts:
            self[host].down = True
            self[host].cut()

    def announce(self, host, listed):
        inside = self[host].broker
        properties = {FAILOVER_SERVER_LIST: listed} if not isinstance(listed, dict) else listed
        inside.announced = replace(inside.announced, more_properties=lambda remote: properties)

    def announce_servers(self, host, *others, **more):
        self.announce(host, failover_property(FailoverServer(one, 5672, "amqp", **more) for one in others))


@asynccontextmanager
async def three_brokers():
    async with stream_broker() as a, stream_broker() as b, stream_broker() as c:
        yield Brokers([a, b, c])


async def test_the_next_address_is_tried_at_once_and_the_delay_comes_after_a_round(library):
    async with three_brokers() as brokers, connect([A, B, C], brokers.settings()) as connection:
        brokers.lose("a", "b", "c")
        await settle()
        assert brokers.tried == ["a:5672", "b:5672", "c:5672"], "each has failed once: the connection at a was lost"
        await anyio.sleep(1.1)
        assert brokers.tried[3:] == ["a:5672", "b:5672", "c:5672"]
        brokers["b"].down = False
        await anyio.sleep(2.1)
        assert brokers.tried[6:] == ["a:5672", "b:5672"]
        assert connection.status.up
        assert connection.url.host == "b"


async def test_links_go_on_at_another_broker(library):
    async with three_brokers() as brokers, connect([A, B], brokers.settings()) as connection:
        sender, receiver = await connection.open_sender("/queues/q"), await connection.open_receiver("/queues/q")
        brokers.lose("a")
        await settle()
        assert await sender.send(Message(b"one")) == Accepted()
        delivery = await receiver.receive()
        assert delivery.message.body == b"one"
        assert brokers.tried == ["a:5672", "b:5672"]


async def test_the_first_connection_is_made_to_the_first_broker_that_is_there(library):
    async with three_brokers() as brokers:
        brokers.lose("a", "b")
        async with connect([A, B, C], brokers.settings(reconnect=None)) as connection:
            assert connection.url.host == "c"
            brokers.lose("c")
            with pytest.raises(ConnectionLost):
                await (await connection.begin_session()).open_sender("/queues/q")
        assert brokers.tried == ["a:5672", "b:5672", "c:5672"]


async def test_the_error_of_the_first_connection_names_all_addresses(library):
    async with three_brokers() as brokers:
        brokers.lose("a", "b")
        with pytest.raises(Unreachable) as error:
            async with connect([A, B], brokers.settings()):
                pass
        assert "a:5672" in error.value.text
        assert "b:5672" in error.value.text


async def test_a_wrong_password_is_not_tried_at_the_next_broker(library):
    async with three_brokers() as brokers:
        with pytest.raises(NotLetIn):
            async with connect(["amqp://guest:wrong@a", B], brokers.settings()):
                pass
        assert brokers.tried == ["a:5672"]


async def test_rounds_count_as_attempts(library):
    backoff = Backoff(first_s=1.0, longest_s=8.0, attempts_max=1)
    async with three_brokers() as brokers, connect([A, B], brokers.settings(reconnect=backoff)) as connection:
        brokers.lose("a", "b")
        await anyio.sleep(20)
        assert brokers.tried == ["a:5672", "b:5672", "a:5672", "b:5672"]
        assert connection.status.over


async def test_a_broker_that_lets_in_and_ends_is_not_tried_without_delays(library):
    async with three_brokers() as brokers, connect([A, B], brokers.settings()):
        for _ in range(4):
            brokers["a"].cut()
            brokers["b"].cut()
            await settle()
        assert len(brokers.tried) == 2


async def test_announced_brokers_are_tried_with_the_login_and_virtual_host_of_the_url(library):
    async with three_brokers() as brokers:
        brokers.announce_servers("a", "b", "c", hostname="vhost:another")
        async with connect(A, brokers.settings()) as connection:
            brokers.lose("a", "b")
            await settle()
            assert brokers.tried == ["a:5672", "b:5672", "c:5672"]
            assert connection.url == Url.parse(C)
            sender = await connection.open_sender("/queues/q")
            assert await sender.send(Message(b"one")) == Accepted()


async def test_the_newest_list_counts_and_the_urls_that_were_given_stay(library):
    async with three_brokers() as brokers:
        brokers.announce_servers("a", "b")
        brokers.announce_servers("b", "c")
        async with connect(A, brokers.settings()) as connection:
            brokers.lose("a")
            await settle()
            assert connection.url.host == "b"
            brokers.lose("b")
            await settle()
            assert connection.url.host == "c"
            brokers["a"].down = False
            brokers.lose("c")
            await anyio.sleep(1.1)
            assert connection.url.host == "a"


async def test_settings_can_say_that_announced_brokers_are_not_used(library):
    async with three_brokers() as brokers:
        brokers.announce_servers("a", "b")
        async with connect(A, brokers.settings(use_failover_servers=False)):
            brokers.lose("a")
            await anyio.sleep(1.1)
        assert brokers.tried == ["a:5672", "a:5672"]


async def test_an_announced_broker_that_refuses_the_login_is_forgotten(library):
    async with three_brokers() as brokers:
        brokers.announce_servers("a", "b")
        brokers["b"].change_users()
        async with connect(A, brokers.settings()) as connection:
            brokers.lose("a")
            await settle()
            assert brokers.tried == ["a:5672", "b:5672"]
            brokers["a"].down = False
            await anyio.sleep(5)
            assert connection.status.up
            assert brokers.tried == ["a:5672", "b:5672", "a:5672"]


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("b", "it is no list"),
        (["b:5672"], "no map"),
        ([{"network-host": "b", "port": 0}], "the port of b"),
        ([{"network-host": "b", "port": 5672}] * 17, "it has 17 entries"),
    ],
)
async def test_a_list_that_is_nonsense_is_ignored_with_a_line_in_the_log(library, listed, why, caplog):
    async with three_brokers() as brokers:
        brokers.announce("a", listed)
        with caplog.at_level(logging.WARNING, "amqp10.client"):
            async with connect(A, brokers.settings()) as connection:
                brokers.lose("a")
                await anyio.sleep(1.1)
                assert not connection.status.up
        assert "the failover-server-list of the broker at a:5672 is ignored" in caplog.text
        assert why in caplog.text
        assert brokers.tried == ["a:5672", "a:5672"]


def test_urls_are_one_or_several_each_once():
    one = Url.parse(A)
    assert urls_of(A) == urls_of(one) == urls_of([A, one]) == [one]
    with pytest.raises(BadUrl):
        urls_of([])


def test_announced_addresses_keep_what_the_url_has_and_change_no_kind():
    files = TlsFiles(ca="ca.pem")
    own = Url(host="a", port=5671, user="u", password="p", virtual_host="v", tls=files)
    addresses = BrokerAddresses([own])
    addresses.heard([FailoverServer("b", 5672, "amqp"), FailoverServer("c", 5673, "amqps"), FailoverServer("A", 5671)])
    assert not addresses.next()
    assert addresses.current == replace(own, host="c", port=5673)
    assert addresses.next(), "the one without TLS and the one that was given do not count"
    assert addresses.current == own

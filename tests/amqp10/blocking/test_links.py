"""The blocking connection and its links, against a broker in a process of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from amqp10.blocking.connection import BlockingConnection, BlockingSettings
from amqp10.blocking.links import ReceivingLink, SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.client_core.errors import ConnectionLost, LinkRefused, NotLetIn, RequestRefused, TimedOut, Unreachable
from amqp10.client_core.outcomes import FateRange
from amqp10.client_core.url import Url
from amqp10.wire.messaging import Accepted, Rejected, Released
from tests.kit.broker_process import BrokerAddress

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
NAMES = count()
BODY = b"\x00\x53\x75\xa0\x02"
WITHIN_S = 10.0


@pytest.fixture
def url(broker: BrokerAddress) -> Url:
    """The URL of the broker."""
    return Url.parse(broker.url())


@pytest.fixture
def connection(url: Url) -> Iterator[BlockingConnection]:
    """Open for the test."""
    with BlockingConnection.open(url) as opened:
        yield opened


@pytest.fixture
def queue(declare: Declare) -> str:
    """The address of an empty queue."""
    return declare(f"links-{next(NAMES)}", "x-sequence=true")


def messages(first: int, n: int) -> list[bytes]:
    return [BODY + number.to_bytes(2, "big") for number in range(first, first + n)]


def fill(connection: BlockingConnection, address: str, n: int) -> None:
    sending = SendingLink.open(connection, address)
    sent = sending.send(messages(0, n), within_s=WITHIN_S)
    assert sending.confirm(sent, within_s=WITHIN_S) == []
    assert sent.so_far() == [FateRange(0, n - 1, Accepted())]
    sending.close()


def bodies(runs: list) -> list[int]:
    return [int.from_bytes(entry[-2:], "big") for run in runs for entry in run.entries]


def test_a_fetch_ends_at_its_link_credit_and_there_is_none_afterwards(connection: BlockingConnection, queue: str):
    fill(connection, queue, 100)
    link = ReceivingLink.open(connection, queue)
    assert bodies(link.fetch(30, within_s=WITHIN_S)) == list(range(30))
    link.sync()
    assert link.arrived(within_s=0.0) == [], "nothing comes that nobody has asked for"
    assert link.ready() == 70


def test_a_fetch_ends_with_the_queue(connection: BlockingConnection, queue: str):
    fill(connection, queue, 5)
    link = ReceivingLink.open(connection, queue)
    assert bodies(link.fetch(1000, within_s=WITHIN_S)) == [0, 1, 2, 3, 4]
    assert link.fetch(1000, within_s=WITHIN_S) == []


def test_what_is_settled_is_gone_and_the_rest_comes_again(connection: BlockingConnection, queue: str):
    fill(connection, queue, 10)
    link = ReceivingLink.open(connection, queue)
    first = link.fetch(10, within_s=WITHIN_S)[0].first
    link.settle(first, first + 3)
    link.settle(first + 4, first + 4, Rejected())
    link.settle(first + 5, first + 5, Released())
    link.sync()
    assert bodies(link.fetch(10, within_s=WITHIN_S)) == [5], "what was released"
    link.close()
    again = ReceivingLink.open(connection, queue)
    assert bodies(again.fetch(10, within_s=WITHIN_S)) == [5, 6, 7, 8, 9], "what the closed link held, in its order"


def test_a_stream_of_deliveries_stops_by_itself(connection: BlockingConnection, queue: str):
    fill(connection, queue, 500)
    link = ReceivingLink.open(connection, queue)
    link.stream(64, messages=300)
    came: list[int] = []
    while len(came) < 300:
        runs = link.arrived(within_s=WITHIN_S)
        assert runs
        came += bodies(runs)
    assert came == list(range(300))
    link.sync()
    assert link.arrived(within_s=0.0) == []


def test_more_messages_than_link_credit_and_window_are_sent_and_confirmed(connection: BlockingConnection, queue: str):
    fill(connection, queue, 20_000)
    link = ReceivingLink.open(connection, queue)
    assert len(bodies(link.fetch(30_000, within_s=WITHIN_S))) == 20_000


def test_a_large_message_goes_in_pieces(connection: BlockingConnection, queue: str):
    large = b"\x00\x53\x75\xb0" + (300_000).to_bytes(4, "big") + bytes(300_000)
    sending = SendingLink.open(connection, queue)
    sent = sending.send([large], within_s=WITHIN_S)
    assert sending.confirm(sent, within_s=WITHIN_S) == []
    (run,) = ReceivingLink.open(connection, queue).fetch(5, within_s=WITHIN_S)
    assert run.entries[0].endswith(large)


def test_what_the_broker_rejects_is_told_by_number(connection: BlockingConnection, declare: Declare):
    full = declare(f"links-{next(NAMES)}", "x-max-length=3", "x-overflow=reject-publish")
    sending = SendingLink.open(connection, full)
    sent = sending.send(messages(0, 5), within_s=WITHIN_S)
    (refused,) = sending.confirm(sent, within_s=WITHIN_S)
    assert (refused.first, refused.last) == (3, 4)
    assert isinstance(refused.fate, Rejected)


def test_a_queue_that_does_not_exist(connection: BlockingConnection):
    for open_link in (ReceivingLink.open, SendingLink.open):
        with pytest.raises(
            LinkRefused, match=r"/queues/none closed the link: there is no queue 'none' \(amqp:not-found\)"
        ):
            open_link(connection, "/queues/none")


def test_a_queue_that_is_deleted_meanwhile(connection: BlockingConnection, declare: Declare):
    address = declare(name := f"links-{next(NAMES)}")
    link = ReceivingLink.open(connection, address)
    BlockingManagement(connection).request("DELETE", f"/queues/{name}")
    with pytest.raises(LinkRefused, match="amqp:resource-deleted"):
        link.fetch(1, within_s=WITHIN_S)
    assert not link.attached


def test_the_management_node_answers(connection: BlockingConnection, queue: str):
    fill(connection, queue, 3)
    management = BlockingManagement(connection)
    shown = management.request("GET", f"/headgate{queue}").body
    assert isinstance(shown, dict)
    assert shown["messages_ready"] == 3
    with pytest.raises(RequestRefused, match="none"):
        management.request("GET", "/headgate/queues/none")


def test_wrong_credentials(broker: BrokerAddress):
    with pytest.raises(NotLetIn, match="wrong credentials"):
        BlockingConnection.open(Url(host=broker.host, port=broker.port, user="nobody", password="guest"))


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unreachable, match=r"cannot connect to 127\.0\.0\.1:.*Connection refused"):
        BlockingConnection.open(Url(host="127.0.0.1", port=port))


def test_somebody_listens_who_speaks_no_amqp():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"SSH-2.0-OpenSSH_9\r\n")
                peer.recv(100)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NotLetIn, match=r"the server answered with b'SSH-2\.0-'"):
            BlockingConnection.open(Url(host="127.0.0.1", port=server.getsockname()[1]))
        thread.join()


def test_somebody_listens_and_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = Url(host="127.0.0.1", port=server.getsockname()[1])
        with pytest.raises(TimedOut, match=r"did not answer within .* s: the open of the connection"):
            BlockingConnection.open(url, BlockingSettings(connect_time_out_s=0.2))


def test_a_connection_that_is_closed_is_of_no_use(url: Url, queue: str):
    connection = BlockingConnection.open(url)
    link = ReceivingLink.open(connection, queue)
    connection.close()
    assert not link.attached
    with pytest.raises(ConnectionLost):
        link.fetch(1, within_s=WITHIN_S)
    connection.close()


def test_heartbeats_are_answered_while_nobody_waits(url: Url, queue: str):
    """The broker's own come while the caller does other things, and the connection's thread takes them in."""
    connection = BlockingConnection.open(url, BlockingSettings(idle_time_out_ms=400))
    link = ReceivingLink.open(connection, queue)
    ended = threading.Event()
    assert not ended.wait(1.2), "three times as long as the broker may be silent"
    assert link.fetch(1, within_s=WITHIN_S) == []
    connection.close()

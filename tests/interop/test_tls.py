"""Clients over TLS, with verification of the broker's certificate: messages both ways, and logins by certificate."""

import importlib
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from amqp10 import client
from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.client import Message, NotEncrypted, NotLetIn, Url
from core.access.passwords import hash_password
from tests.interop.certificate_swap import declare, served, swap
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

LARGE = b"x" * 200_000
"""Larger than a frame, a record and a socket's buffer."""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    made = Trial.make(tmp_path_factory.mktemp("tls"))
    for user in ("alice", "mallory"):
        made.write_client(user)
    return made


@pytest.fixture(scope="module")
def tls_broker(trial: Trial) -> Iterator[BrokerAddress]:
    """A broker with one user, alice, which asks for certificates."""
    keys = hash_password("wonderland", salt=b"salt of the test", iterations=4096)
    with broker_process("--config", trial.write_broker_config(keys)) as address:
        yield address


@pytest.fixture
def url(tls_broker: BrokerAddress, trial: Trial) -> str:
    return alice(trial, tls_broker)


@pytest.fixture
def certified(tls_broker: BrokerAddress, trial: Trial) -> str:
    """A URL of a client that logs in with the certificate of alice."""
    files = f"ca={trial.path('ca.pem')}&certificate={trial.path('alice.pem')}&key={trial.path('alice.key')}"
    return f"amqps://localhost:{tls_broker.tls_port}/?{files}"


@pytest.fixture
def queue(url: str, queue_name: str) -> str:
    with BlockingConnection.open(Url.parse(url)) as connection:
        BlockingManagement(connection).request("PUT", f"/queues/{queue_name}", {})
    return f"/queues/{queue_name}"


async def test_the_trio_client_sends_and_receives(url: str, certified: str, queue: str):
    for one in (url, certified):
        async with client.connect(one) as connection:
            sender = await connection.open_sender(queue)
            for body in (b"small", LARGE):
                await sender.send(Message(body))
            receiver = await connection.open_receiver(queue)
            for body in (b"small", LARGE):
                delivery = await receiver.receive()
                assert bytes(delivery.message.body) == body
                delivery.accept()


async def test_a_certificate_of_another_user_or_an_unknown_broker_is_refused(certified: str, tls_broker: BrokerAddress):
    with pytest.raises(NotLetIn, match="wrong credentials"):
        async with client.connect(certified.replace("alice.", "mallory.")):
            pass
    with pytest.raises(NotEncrypted, match="certificate is not accepted"):
        async with client.connect(f"amqps://localhost:{tls_broker.tls_port}"):
            pass
    with pytest.raises(NotEncrypted, match=r"not valid for '127\.1'"):
        async with client.connect(certified.replace("localhost", "127.1")):  # another name of this machine
            pass
    with pytest.raises(NotLetIn, match="the port needs TLS"):
        async with client.connect(f"amqp://alice:wonderland@localhost:{tls_broker.tls_port}"):
            pass
    with pytest.raises(NotEncrypted, match="speaks no TLS"):
        async with client.connect(certified.replace(str(tls_broker.tls_port), str(tls_broker.port))):
            pass


def test_the_blocking_client_says_the_same(url: str, certified: str, tls_broker: BrokerAddress):
    with BlockingConnection.open(Url.parse(certified)) as connection:
        rows = BlockingManagement(connection).request("GET", "/headgate/connections").body
        assert isinstance(rows, dict)
        (row,) = rows["items"]
        assert (row["user"], row["tls"], row["client_certificate"]) == ("alice", "TLSv1.3", "CN=alice,O=Headgate trial")
    with pytest.raises(NotEncrypted, match="certificate is not accepted"):
        BlockingConnection.open(Url.parse(f"amqps://localhost:{tls_broker.tls_port}"))
    with pytest.raises(NotEncrypted, match="speaks no TLS"):
        BlockingConnection.open(Url.parse(url.replace(str(tls_broker.tls_port), str(tls_broker.port))))


def test_pika_publishes_and_consumes(trial: Trial, tls_broker: BrokerAddress, queue_name: str):
    pika = importlib.import_module("pika")
    external = pika.credentials.ExternalCredentials()
    for credentials, user in ((pika.PlainCredentials("alice", "wonderland"), None), (external, "alice")):
        options = pika.SSLOptions(trial.context(user), "localhost")
        parameters = pika.ConnectionParameters(
            "localhost", tls_broker.tls_port, ssl_options=options, credentials=credentials
        )
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.queue_declare(queue_name, durable=True)
        channel.confirm_delivery()
        for body in (b"small", LARGE):
            channel.basic_publish("", queue_name, body)
        assert [channel.basic_get(queue_name, auto_ack=True)[2] for _ in range(2)] == [b"small", LARGE]
        connection.close()


def test_kombu_publishes_and_consumes(trial: Trial, tls_broker: BrokerAddress, queue_name: str):
    kombu = importlib.import_module("kombu")
    encrypted = {"ca_certs": trial.path("ca.pem"), "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost"}
    own = {"certfile": trial.path("alice.pem"), "keyfile": trial.path("alice.key")}
    ways = ((encrypted, "alice:wonderland@", "PLAIN"), (encrypted | own, "", "EXTERNAL"))
    for options, user, mechanism in ways:
        target = f"amqp://{user}localhost:{tls_broker.tls_port}//"
        with kombu.Connection(target, ssl=options, login_method=mechanism) as connection:
            queue = connection.SimpleQueue(queue_name)
            for body in ("small", LARGE.decode()):
                queue.put(body)
                message = queue.get(timeout=20)
                assert message.payload == body
                message.ack()
            queue.close()


def test_rabbitmqs_client_publishes_and_consumes(trial: Trial, tls_broker: BrokerAddress, queue: str):
    rabbit = importlib.import_module("rabbitmq_amqp_python_client")
    bodies = [b"small", LARGE]

    class Enough(Exception):
        pass

    class Taker(rabbit.AMQPMessagingHandler):
        def __init__(self) -> None:
            super().__init__()
            self.got: list[bytes] = []

        def on_amqp_message(self, event) -> None:
            self.got.append(bytes(event.message.body))
            self.delivery_context.accept(event)
            if len(self.got) == len(bodies):
                raise Enough

    own = rabbit.PosixClientCert(client_cert=trial.path("alice.pem"), client_key=trial.path("alice.key"))
    for user, certificate in (("alice:wonderland@", None), ("", own)):
        context = rabbit.PosixSslConfigurationContext(ca_cert=trial.path("ca.pem"), client_cert=certificate)
        environment = rabbit.Environment(f"amqps://{user}localhost:{tls_broker.tls_port}/", ssl_context=context)
        connection = environment.connection()
        connection.dial()
        publisher, taker = connection.publisher(queue), Taker()
        for body in bodies:
            assert publisher.publish(rabbit.Message(body=body)).remote_state == rabbit.OutcomeState.ACCEPTED
        consumer = connection.consumer(queue, message_handler=taker)
        with pytest.raises(Enough):
            consumer.run()
        assert taker.got == bodies
        environment.close()


def alice(trial: Trial, tls_broker: BrokerAddress) -> str:
    return f"amqps://alice:wonderland@localhost:{tls_broker.tls_port}/?ca={trial.path('ca.pem')}"


def test_proton_sends_and_receives(connect, proton, trial: Trial, tls_broker: BrokerAddress, queue: str):
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(trial.path("ca.pem"))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
    password = connect(f"amqps://alice:wonderland@localhost:{tls_broker.tls_port}", ssl_domain=domain).opened()
    exchange(proton, password, queue)
    domain.set_credentials(trial.path("alice.pem"), trial.path("alice.key"), None)
    certificate = connect(f"amqps://localhost:{tls_broker.tls_port}", ssl_domain=domain, allowed_mechs="EXTERNAL")
    exchange(proton, certificate.opened(), queue)


def exchange(proton, peer, queue: str) -> None:
    sender, receiver = peer.sender(queue), peer.receiver(queue)
    receiver.flow(2)
    for body in (b"small", LARGE):
        sender.send(proton.Message(body=body))
    arrived = peer.received.setdefault(receiver.name, [])
    peer.until(lambda: len(arrived) == 2, "two messages")
    assert [bytes(got.message.body) for got in arrived] == [b"small", LARGE]
    for got in arrived:
        got.delivery.update(proton.Delivery.ACCEPTED)
        got.delivery.settle()


@pytest.mark.slow
def test_a_hundred_connections_begin_at_once(url: str):
    async def one() -> None:
        async with client.connect(url):
            pass

    async def all_of_them() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(one)

    trio.run(all_of_them)
    with BlockingConnection.open(Url.parse(url)) as connection:
        assert BlockingManagement(connection).request("GET", "/headgate/status").status == 200


def test_a_ticket_saves_the_certificates_of_the_next_handshake(trial: Trial, tls_broker: BrokerAddress):
    context = trial.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in TLS 1.3 Python's client has the ticket only after a read
    session = None
    for expected in (False, True):
        plain = socket.create_connection(("127.0.0.1", tls_broker.tls_port))
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as encrypted:
            assert encrypted.session_reused is expected
            session = encrypted.session


def test_new_files_are_used_after_a_command_and_after_a_signal(
    trial: Trial, tls_broker: BrokerAddress, url: str, capsys: pytest.CaptureFixture[str]
):
    for reload in (
        lambda: run(["tls", "reload", "--url", url]),
        lambda: os.kill(tls_broker.pid, signal.SIGHUP),
    ):
        new = trial.write_server().certificate.serial_number
        assert reload() in (0, None)
        until = time.monotonic() + 20
        while served(trial, tls_broker.tls_port) != new:
            assert time.monotonic() < until
    Path(trial.path("server.key")).write_text("no key")
    assert run(["tls", "reload", "--url", url]) == Exit.REFUSED
    assert "are no PEM files of a certificate and its key" in capsys.readouterr().err
    assert served(trial, tls_broker.tls_port) == new
    assert run(["tls", "status", "--url", url]) == 0
    assert "CN=localhost" in capsys.readouterr().out
    trial.write_server()
    assert run(["tls", "reload", "--url", url]) == 0


@pytest.mark.slow
async def test_a_certificate_is_replaced_under_connections_that_publish(
    trial: Trial, tls_broker: BrokerAddress, url: str
):
    """The long form is ``python -m tests.interop.certificate_swap``."""
    declare(url)
    done = await swap(trial, tls_broker, url, connections=20)
    assert (done.lost, done.others) == (0, 0)
    assert done.after != done.before

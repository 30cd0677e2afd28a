"""Nodes that prove their names to each other with certificates: real brokers, real TLS, and what is refused."""

import json
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.free_ports import free_ports
from amqp10.client import Message, Url, connect
from amqp10.client_core.opening import open_if_let_in
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend.far_clients import NODE_KEY
from amqp10.protocol.connection import Connection
from amqp10.protocol.events import ConnectionClosed, ConnectionOpened, LinkDetached, SessionBegun
from amqp10.protocol.handshake import ClientHandshake
from amqp10.protocol.sasl import Anonymous, Credentials, External
from amqp10.protocol.settings import ConnectionSettings
from amqp10.wire.messaging import Source, Target
from core.amqp091.connection import PROTOCOL_HEADER as PROTOCOL_HEADER_091
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial

FAR = "/queues/far-orders"
LONG_AGO = datetime.now(UTC) - timedelta(days=100)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """The authority of the cluster, with certificates of the nodes a and b, and one of a that has expired."""
    made = Trial.make(tmp_path_factory.mktemp("cluster"))
    made.write_node("a")
    made.write_node("b")
    made.write_node("expired", days=1, now=LONG_AGO)
    return made


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Another authority that has made a certificate of the node a."""
    made = Trial.make(tmp_path_factory.mktemp("strangers"))
    made.write_node("a")
    return made


class Home:
    """Node b, and the port on which it listens for nodes."""

    def __init__(self, address: BrokerAddress, port: int, audit: Path) -> None:
        self.address = address
        self.port = port
        self.audit = audit


@pytest.fixture(scope="module")
def home(trial: Trial, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home")
    (port,) = free_ports(1)
    audit = folder / "audit.log"
    file = folder / "b.toml"
    file.write_text(
        f'[admin]\nenabled = false\n[audit]\nfile = "{audit}"\n'
        f'[cluster]\nnode = "b"\nlisten = ["127.0.0.1:{port}"]\n{files(trial, "b")}'
    )
    with broker_process("--config", str(file)) as address:
        with BlockingConnection.open(Url.parse(address.url())) as connection:
            requests = BlockingManagement(connection)
            assert requests.request("PUT", FAR, {"durable": False}).status == 201
        yield Home(address, port, audit)


def files(trial: Trial, name: str) -> str:
    paths = {"certificate": f"{name}.pem", "key": f"{name}.key", "ca": "ca.pem"}
    return "".join(f'{key} = "{trial.path(path)}"\n' for key, path in paths.items())


def entry_file(folder: Path, own: str, home_name: str, port: int) -> Path:
    """The configuration of node a, in front of a node on this port."""
    path = folder / "a.toml"
    path.write_text(
        f'[admin]\nenabled = false\n[cluster]\nnode = "a"\n{own}'
        f'[[cluster.nodes]]\nname = "{home_name}"\naddress = "127.0.0.1:{port}"\nqueues = ["far*"]\n'
    )
    return path


# --- from node to node ------------------------------------------------------------------------------------------


def test_a_message_goes_to_the_other_node_and_comes_back(trial: Trial, home: Home, tmp_path: Path):
    with broker_process("--config", str(entry_file(tmp_path, files(trial, "a"), "b", home.port))) as entry:
        assert trio.run(carried, entry.url()) == b"over TLS"


async def carried(url: str) -> object:
    """What comes back of a message that is published to the queue of the other node."""
    async with connect(url) as connection:
        sender = await connection.open_sender(FAR)
        await sender.send(Message(b"over TLS"))
        receiver = await connection.open_receiver(FAR)
        (delivery,) = await receiver.receive_batch(1)
        delivery.accept()
        return delivery.message.body


@pytest.mark.parametrize("case", ["other authority", "expired", "another node"])
def test_an_entry_that_is_not_believed_is_told_why(
    trial: Trial, strangers: Trial, home: Home, tmp_path: Path, case: str
):
    own = {
        "other authority": files(strangers, "a").replace(strangers.path("ca.pem"), trial.path("ca.pem")),
        "expired": files(trial, "expired"),
        "another node": files(trial, "b"),
    }[case]
    why = {
        "other authority": "the node does not trust the authority that signed the certificate of this node",
        "expired": "to the node, the certificate of this node has expired",
        "another node": "the certificate is that of b, and not of node a",
    }[case]
    with broker_process("--config", str(entry_file(tmp_path, own, "b", home.port))) as entry:
        assert why in refusal_of(entry)


@pytest.mark.parametrize("case", ["other authority", "another node", "without TLS"])
def test_a_home_that_is_not_believed_is_named(trial: Trial, strangers: Trial, home: Home, tmp_path: Path, case: str):
    own, name, port = files(trial, "a"), "b", home.port
    if case == "other authority":
        own = own.replace(trial.path("ca.pem"), strangers.path("ca.pem"))
        why = "the certificate of the node is not accepted: "
    elif case == "another node":
        name = "c"
        why = "its certificate is that of b, and this address is to be that of node c"
    else:
        port = home.address.port
        why = "the address answers without TLS; is it in cluster.listen of that node?"
    with broker_process("--config", str(entry_file(tmp_path, own, name, port))) as entry:
        assert why in refusal_of(entry)


def refusal_of(entry: BrokerAddress) -> str:
    """Why a consumer of a queue of the other node cannot be served."""
    with socket.create_connection((entry.host, entry.port), 20) as stream:
        client = Peer(stream, {}, Anonymous())
        assert client.opened() is None
        return client.attached_to(FAR)


# --- what the address for nodes refuses ---------------------------------------------------------------------------


class Peer:
    """One end of a connection, over a blocking socket."""

    def __init__(self, stream: socket.socket, properties: dict[str, object], credentials: Credentials) -> None:
        handshake = ClientHandshake([credentials], hostname="home", frame_size_max=2**17)
        self._engine = Connection(ConnectionSettings(container_id="peer", properties=properties), handshake)
        self._stream = stream

    def opened(self) -> str | None:
        """Open, and begin a session. Returns the reason of a refusal, None if the session has begun."""
        while True:
            match self._next():
                case ConnectionOpened():
                    self._session = self._engine.new_session()
                    self._session.begin()
                case SessionBegun():
                    return None
                case ConnectionClosed(error):
                    return "" if error is None else str(error.description)

    def attached_to(self, address: str) -> str:
        """Why a link to a source is detached."""
        link = self._session.new_receiver("in")
        link.attach(
            source=Source(address=address),
            target=Target(),
            snd_settle_mode=0,
            rcv_settle_mode=0,
            credit=ReceiverCredit(),
        )
        while True:
            match self._next():
                case LinkDetached(_, error) if error is not None:
                    return str(error.description)

    def _next(self) -> object:
        while True:
            event = self._engine.next_event()
            open_if_let_in(self._engine)
            self._stream.sendall(b"".join(self._engine.pieces_to_send(time.monotonic())))
            if event is not None:
                return event
            data = self._stream.recv(65536)
            assert data, f"closed: {self._engine.handshake.refused}"
            self._engine.receive_data(data, time.monotonic())


def connected(home: Home, context: ssl.SSLContext) -> ssl.SSLSocket:
    context.check_hostname = False
    return context.wrap_socket(socket.create_connection(("127.0.0.1", home.port), 20))


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (None, "certificate required"),
        ("expired", "certificate expired"),
        ("a of strangers", "unknown ca"),
    ],
)
def test_a_handshake_without_a_certificate_of_the_cluster_fails(
    trial: Trial, strangers: Trial, home: Home, user: str | None, why: str
):
    context = trial.context(user if user != "a of strangers" else None)
    if user == "a of strangers":
        context.load_cert_chain(strangers.path("a.pem"), strangers.path("a.key"))
    with connected(home, context) as stream, pytest.raises(ssl.SSLError, match=why):
        stream.recv(8)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({}, "other nodes connect here, and no clients"),
        ({NODE_KEY: "b"}, "the certificate is that of a, and not of node b"),
        ({NODE_KEY: 7}, "the certificate is that of a, and not of node 7"),
        ({NODE_KEY: "a"}, None),
    ],
)
def test_a_connection_is_believed_to_be_of_the_node_in_its_certificate_only(
    trial: Trial, home: Home, properties: dict[str, object], why: str | None
):
    with connected(home, trial.context("a")) as stream:
        assert Peer(stream, properties, External()).opened() == why


def test_a_node_logs_in_with_its_certificate_and_nothing_else_and_the_audit_log_has_it(trial: Trial, home: Home):
    with connected(home, trial.context("a")) as stream:
        anonymous = Peer(stream, {NODE_KEY: "a"}, Anonymous())
        with pytest.raises(AssertionError, match="for which there are no credentials: 'EXTERNAL'"):
            anonymous.opened()
    with connected(home, trial.context("a")) as stream:
        assert Peer(stream, {NODE_KEY: "a"}, External()).opened() is None
    text = home.audit.read_text()
    logins = [json.loads(line) for line in text.splitlines() if '"login"' in line]
    assert {"user": "node a", "result": "done"}.items() <= logins[-1].items()
    assert "PRIVATE" not in text


def test_a_client_of_amqp_091_is_refused_with_the_header_that_is_served(trial: Trial, home: Home):
    with connected(home, trial.context("a")) as stream:
        stream.sendall(PROTOCOL_HEADER_091)
        assert stream.recv(8)[:4] == b"AMQP"
        assert not stream.recv(8)


def test_a_node_without_a_certificate_is_not_believed_on_the_clients_address(home: Home):
    stream = socket.create_connection((home.address.host, home.address.port), 20)
    with stream:
        refused = Peer(stream, {NODE_KEY: "a"}, Anonymous()).opened()
    assert refused == "this connection may not call itself one of another node"

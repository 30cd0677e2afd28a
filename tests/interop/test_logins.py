"""Configured users, with whole processes.

proton and pika log in with PLAIN, our command with SCRAM. Keys of an earlier version are derived anew, and a stop does
not wait for a hash.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.protocol.sasl import SaslInit, encode_sasl_frame
from amqp10.wire.framing import PROTOCOL_HEADER_SASL
from core.amqp091.framing import PROTOCOL_HEADER as PROTOCOL_HEADER_091
from core.amqp091.framing import method_frame
from core.amqp091.methods import ConnectionStartOk
from core.config import load
from core.config.access import ITERATIONS, ITERATIONS_MIN, ScramKeys, UserSettings
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial
from tests.kit.command_line import run_here
from tests.kit.logins import user

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def configured(folder: Path, *users: UserSettings) -> Path:
    file = folder / "broker.toml"
    file.write_text("".join(f'[[users]]\nname = "{one.name}"\nscram = "{one.scram.render()}"\n' for one in users))
    return file


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of users whose keys are those of an earlier version."""
    return configured(tmp_path_factory.mktemp("config"), user("alice", "wonderland"), user("bob", "builder"))


@pytest.fixture(scope="module")
def broker(config: Path) -> Iterator[BrokerAddress]:
    """A broker with these users."""
    with broker_process("--config", str(config), "--admin", "off") as address:
        yield address


def iterations(config: Path, name: str) -> int:
    (found,) = [one.scram.iterations for one in load(config).users if one.name == name]
    return found


def test_scram_lets_in_with_old_keys_and_leaves_them(broker, config):
    ran = run_here("status", url=broker.url("bob:builder"))
    assert ran.code == 0, ran.err
    assert iterations(config, "bob") == ITERATIONS_MIN


def test_protons_plain_makes_old_keys_anew_and_scram_goes_on_with_them(connect, broker, config):
    assert iterations(config, "alice") == ITERATIONS_MIN
    connect(broker.url("alice:wonderland"), allowed_mechs="PLAIN").opened()
    assert iterations(config, "alice") == ITERATIONS
    assert run_here("status", url=broker.url("alice:wonderland")).code == 0


def test_keys_of_sha512_let_our_command_in(tmp_path):
    config = configured(tmp_path, user("alice", "wonderland", hash_name="sha512"))
    with broker_process("--config", str(config), "--admin", "off") as broker:
        with socket.create_connection((broker.host, broker.port), timeout=20) as peer:
            peer.sendall(PROTOCOL_HEADER_SASL)
            offer = peer.recv(1024)
            while b"PLAIN" not in offer:
                offer += peer.recv(1024)
        assert b"SCRAM-SHA-512" in offer, "our command prefers it"
        assert b"SCRAM-SHA-256" not in offer
        assert run_here("status", url=broker.url("alice:wonderland")).code == Exit.DONE
        assert run_here("status", url=broker.url("alice:guess")).code == Exit.NOT_LET_IN


def test_pikas_plain_and_its_wrong_password(broker):
    pika = pytest.importorskip("pika")

    def opened(password: str):
        credentials = pika.PlainCredentials("alice", password)
        return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, credentials=credentials))

    opened("wonderland").close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        opened("Wonderland")


def test_a_stop_does_not_wait_for_a_hash(tmp_path):
    slow = ScramKeys(5_000_000, b"salt for the tests", bytes(32), bytes(32))
    config = configured(tmp_path, UserSettings(name="slow", scram=slow))
    init = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=b"\0slow\0guess"))
    with (
        broker_process("--config", str(config), "--admin", "off") as broker,
        socket.create_connection((broker.host, broker.port)) as peer,
    ):
        peer.sendall(PROTOCOL_HEADER_SASL + init)
        assert peer.recv(8) == PROTOCOL_HEADER_SASL
        began = time.monotonic()
    assert time.monotonic() - began < 9.0, "with exit code 0: broker_process looks"


FROM_AFAR = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 5672\r\n"
"""With it a connection comes from another machine, as a proxy on this one says."""
WITHHELD = "set access.plain_without_tls"


def told(broker: BrokerAddress, sent: bytes) -> bytes:
    """What the broker answers to a client elsewhere that says this and no more."""
    answer = b""
    with socket.create_connection((broker.host, broker.port), timeout=20) as peer:
        peer.sendall(FROM_AFAR + sent)
        peer.shutdown(socket.SHUT_WR)
        while data := peer.recv(65_536):
            answer += data
    return answer


def test_a_client_elsewhere_needs_tls_for_its_password(tmp_path: Path):
    trial = Trial.make(tmp_path)
    tls = f'[tls]\ncertificate = "{trial.path("server.pem")}"\nkey = "{trial.path("server.key")}"\n'
    server = '[server]\nproxy_from = ["127.0.0.0/8"]\ntls_listen = ["127.0.0.1:0"]\n'
    config = configured(tmp_path, user("alice", "wonderland"))
    users = config.read_text()
    config.write_text(server + tls + users)
    with broker_process("--config", str(config), "--admin", "off") as broker:
        offer = told(broker, PROTOCOL_HEADER_SASL)
        assert b"SCRAM-SHA-256" in offer
        assert b"PLAIN" not in offer
        refused = told(broker, PROTOCOL_HEADER_091)
        assert b"AMQPLAIN" not in refused
        assert WITHHELD.encode() in refused, "connection.close says why"
        encrypted = offered_over_tls(broker, trial)
        assert b"PLAIN" in encrypted
        config.write_text(server + tls + "[access]\nplain_without_tls = true\n" + users)
        os.kill(broker.pid, signal.SIGHUP)
        until = time.monotonic() + 20
        while b"PLAIN" not in told(broker, PROTOCOL_HEADER_SASL):
            assert time.monotonic() < until, "the setting is taken without a restart"
        assert b"PLAIN AMQPLAIN" in told(broker, PROTOCOL_HEADER_091)


def test_a_mechanism_that_is_not_offered_is_in_the_audit_log_for_both_protocols(tmp_path: Path):
    log = tmp_path / "audit.log"
    config = configured(tmp_path, user("alice", "wonderland"))
    config.write_text(f'[audit]\nfile = "{log}"\n' + config.read_text())
    with broker_process("--config", str(config), "--admin", "off") as broker, ExitStack() as peers:
        refused = []  # both at once, because each refusal is late on purpose
        for sent in (
            PROTOCOL_HEADER_SASL + encode_sasl_frame(SaslInit(mechanism="GSSAPI", initial_response=b"secret")),
            PROTOCOL_HEADER_091 + method_frame(0, ConnectionStartOk(mechanism="GSSAPI", response=b"secret")),
        ):
            peer = peers.enter_context(socket.create_connection((broker.host, broker.port), timeout=20))
            peer.sendall(sent)
            refused.append(peer)
        for peer in refused:
            while peer.recv(65_536):
                pass
    records = [json.loads(line) for line in log.read_text().splitlines()]
    told = {(one["protocol"], one["mechanism"], one["reason"]) for one in records if one["event"] == "logins"}
    assert told == {(protocol, "GSSAPI", "not offered") for protocol in ("amqp-1.0", "amqp-0-9-1")}
    assert "secret" not in log.read_text()


def offered_over_tls(broker: BrokerAddress, trial: Trial) -> bytes:
    """The offer to a client elsewhere that uses TLS."""
    peer = socket.create_connection((broker.host, broker.tls_port), timeout=20)
    peer.sendall(FROM_AFAR)
    offer = b""
    with trial.context().wrap_socket(peer, server_hostname="localhost") as encrypted:
        encrypted.sendall(PROTOCOL_HEADER_SASL)
        while b"SCRAM-SHA-256" not in offer:
            offer += encrypted.recv(65_536)
        while b"PLAIN" not in offer:
            offer += encrypted.recv(65_536)
    return offer

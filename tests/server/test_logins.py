"""Logins are counted by what becomes of them, for both protocols."""

from collections import Counter

from amqp10.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL
from amqp10.frontend.authentication import Mechanism
from amqp10.sasl import SaslInit, encode_sasl_frame
from core.access.exchange import SaslMechanism
from core.access.mechanisms import Anonymous, Plain
from core.access.passwords import hash_password
from core.access.users import Users
from core.amqp091.framing import PROTOCOL_HEADER, method_frame
from core.amqp091.methods import ConnectionStartOk
from core.config.access import UserSettings
from core.server.logins import Logins
from tests.kit.scraped import Scraped
from tests.kit.wire import InProcessBroker, WirePeer
from tests.kit.wire091 import Wire091Peer

ALICE = UserSettings(name="alice", scram=hash_password("wonderland", salt=b"salt for the tests"))
RIGHT, WRONG = b"\0alice\0wonderland", b"\0alice\0nonsense"


USERS = Users((ALICE,), cache_seconds=10.0, monotonic=lambda: 0.0, random_bytes=bytes)


def plain() -> SaslMechanism:
    return Plain(USERS, loopback=True)


def test_attempts_successes_and_failures():
    logins = Logins()
    mechanisms = {mechanism.name: mechanism for mechanism in logins.counting([plain(), Anonymous(USERS, True, True)])}
    assert mechanisms["PLAIN"].start().respond(RIGHT) == ("success", b"alice")
    for _ in range(2):
        assert mechanisms["PLAIN"].start().respond(WRONG) == ("failure", b"")
    assert mechanisms["PLAIN"].start().respond(b"")[0] == "challenge"  # and leaves
    assert mechanisms["ANONYMOUS"].start().respond(b"") == ("success", b"anonymous")
    assert (logins.attempts, logins.succeeded, logins.failed) == (5, 2, Counter(PLAIN=2))


def log_in(broker: InProcessBroker, response: bytes, mechanism: str = "PLAIN") -> None:
    counted = broker.traffic["amqp10"].logins.counting([plain()])
    peer = WirePeer(broker, [Mechanism(each) for each in counted])
    init = encode_sasl_frame(SaslInit(mechanism=mechanism, initial_response=response))
    peer.send_bytes(PROTOCOL_HEADER_SASL + init + PROTOCOL_HEADER_AMQP)


def log_in_091(broker: InProcessBroker, response: bytes) -> None:
    peer = Wire091Peer(broker, mechanisms=broker.traffic["amqp091"].logins.counting([plain()]))
    start_ok = ConnectionStartOk(client_properties={}, mechanism="PLAIN", response=response, locale="en_US")
    peer.send_bytes(PROTOCOL_HEADER + method_frame(0, start_ok))


def test_both_protocols_in_the_metrics():
    broker = InProcessBroker()
    log_in(broker, RIGHT)
    log_in(broker, WRONG)
    log_in(broker, b"", mechanism="MADE-UP")
    log_in_091(broker, RIGHT)
    log_in_091(broker, RIGHT)
    log_in_091(broker, WRONG)
    found = Scraped(broker)()
    assert found["rabbitmq_auth_attempts_total"] == {("amqp10",): 2, ("amqp091",): 3}
    assert found["rabbitmq_auth_attempts_succeeded_total"] == {("amqp10",): 1, ("amqp091",): 2}
    assert found["rabbitmq_auth_attempts_failed_total"] == {("amqp10",): 1, ("amqp091",): 1}
    assert found["headgate_auth_failures_total"] == {("PLAIN",): 2}
    assert found["headgate_connections_refused_total"][("auth",)] == 2

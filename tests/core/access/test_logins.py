"""Logins are counted by their result, for both protocols."""

from collections import Counter

import pytest
from structlog.testing import LogCapture

from amqp10.protocol.sasl import OUTCOME_AUTH, OUTCOME_SYS_TEMP, SaslInit, SaslOutcome, encode_sasl_frame
from amqp10.serve import Mechanism
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, encode_frame
from amqp10.wire.performatives import Open, encode_performative
from core.access.exchange import SaslMechanism
from core.access.login import Access
from core.access.logins import Logins
from core.access.mechanisms import AnonymousMechanism, PlainMechanism
from core.amqp091.framing import PROTOCOL_HEADER, method_frame
from core.amqp091.methods import ConnectionClose, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from core.amqp091.table import FieldTable
from tests.kit.cases import case
from tests.kit.logins import Held, from_here, make_access, user
from tests.kit.scraped import Scraped
from tests.kit.wire import InProcessBroker, WirePeer
from tests.kit.wire091 import Wire091Peer

ACCESS = make_access(user("alice", "wonderland"), anonymous=True)
RIGHT, WRONG = b"\0alice\0wonderland", b"\0alice\0nonsense"


def plain() -> SaslMechanism:
    return PlainMechanism(ACCESS, from_here())


def test_attempts_successes_and_failures():
    logins = Logins()
    mechanisms = {
        mechanism.name: mechanism for mechanism in logins.counting([plain(), AnonymousMechanism(ACCESS, from_here())])
    }
    assert mechanisms["PLAIN"].start().respond(RIGHT) == ("success", b"alice")
    for _ in range(2):
        assert mechanisms["PLAIN"].start().respond(WRONG) == ("failure", b"")
    assert mechanisms["PLAIN"].start().respond(b"")[0] == "challenge"  # and closes
    assert mechanisms["ANONYMOUS"].start().respond(b"") == ("success", b"anonymous")
    assert (logins.attempts, logins.succeeded, logins.failed) == (5, 2, Counter(PLAIN=2))


@case("amqp_auth_SUITE", "authn_failure_event")
def test_a_failed_login_is_logged_with_its_user_and_address_and_without_its_password():
    """authn_failure_event (amqp_auth_SUITE)"""
    log = LogCapture()
    access = make_access(user("alice", "wonderland"), log=log)
    assert PlainMechanism(access, from_here(host="192.0.2.9")).start().respond(WRONG) == ("failure", b"")
    (line,) = log.entries
    assert line == {
        "event": "login-failed",
        "log_level": "warning",
        "peer": "192.0.2.9",
        "mechanism": "PLAIN",
        "user": "alice",
    }


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


# --- while a password is hashed ----------------------------------------------------------------------------------


class Waiting10:
    """A client of AMQP 1.0 that has sent its login, and everything up to the open, in one piece."""

    protocol = "amqp10"

    def __init__(self, broker: InProcessBroker, access: Access, response: bytes) -> None:
        self.peer = WirePeer(
            broker, [Mechanism(PlainMechanism(access, from_here(wake=lambda: broker.touch(self.peer))))]
        )
        init = encode_sasl_frame(SaslInit(mechanism="PLAIN", initial_response=response))
        opening = encode_frame(0, encode_performative(Open(container_id="c")))
        self.peer.send_bytes(PROTOCOL_HEADER_SASL + init + PROTOCOL_HEADER_AMQP + opening)

    def refused_with(self) -> str:
        """The code of the SASL outcome: the last byte but one of a list of two."""
        code = next(code for code in range(5) if encode_sasl_frame(SaslOutcome(code=code)) in self.peer.raw)
        return {OUTCOME_AUTH: "wrong", OUTCOME_SYS_TEMP: "later"}[code]


class Waiting091:
    """A client of AMQP 0.9.1 that has sent its login, and tune-ok and open behind it."""

    protocol = "amqp091"

    def __init__(self, broker: InProcessBroker, access: Access, response: bytes) -> None:
        self.peer = Wire091Peer(broker, mechanisms=[PlainMechanism(access, from_here(wake=lambda: self.peer.touch()))])
        properties: FieldTable = {"capabilities": {"authentication_failure_close": True}}
        methods = (
            ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=response, locale="en_US"),
            ConnectionTuneOk(channel_max=10, frame_max=131_072, heartbeat=0),
            ConnectionOpen(virtual_host="/"),
        )
        self.peer.send_bytes(PROTOCOL_HEADER + b"".join(method_frame(0, method) for method in methods))

    def refused_with(self) -> str:
        """The code of the close."""
        (close,) = [method for _, method, _ in self.peer.received if isinstance(method, ConnectionClose)]
        return {403: "wrong", 506: "later"}[close.reply_code]


BOTH = pytest.mark.parametrize("client", [Waiting10, Waiting091])


@BOTH
def test_nothing_is_read_until_the_password_is_hashed_and_then_all_that_has_come(client):
    broker, held = InProcessBroker(), Held()
    waiting = client(broker, make_access(user("alice", "wonderland"), submit=held.submit), RIGHT)
    front_end = waiting.peer.front_end
    assert not front_end.reading
    assert not front_end.established
    broker.run()
    assert not front_end.established
    held.run()
    broker.run()
    assert front_end.established
    assert front_end.reading


@BOTH
def test_a_wrong_password_is_told_after_the_hash_and_the_delay(client):
    broker, held = InProcessBroker(), Held()
    waiting = client(broker, make_access(user("alice", "wonderland"), submit=held.submit), WRONG)
    held.run()
    broker.run()
    broker.advance(5.0)
    assert waiting.refused_with() == "wrong"
    assert not waiting.peer.front_end.established


@BOTH
def test_a_login_that_is_put_off_is_told_so_and_counted(client):
    broker = InProcessBroker()
    access = make_access(user("alice", "wonderland"), submit=lambda check: False)
    waiting = client(broker, access, RIGHT)
    broker.advance(5.0)
    assert waiting.refused_with() == "later"


@BOTH
@pytest.mark.parametrize("end", ["shut down", "lost", "closed by the peer"])
def test_a_connection_may_end_while_its_password_is_hashed(client, end):
    broker, held = InProcessBroker(), Held()
    waiting = client(broker, make_access(user("alice", "wonderland"), submit=held.submit), RIGHT)
    front_end = waiting.peer.front_end
    match end:
        case "shut down":
            front_end.shut_down("the broker stops", broker.now)
            broker.touch(waiting.peer)
            broker.run()
            assert front_end.finished or front_end.reading, "its answer to our close is read"
        case "lost":
            waiting.peer.disconnect()
        case "closed by the peer":
            front_end.receive_eof(broker.now)
            assert front_end.finished
    assert held.run() == 1
    broker.run()
    broker.advance(10.0)
    assert not front_end.established
    assert broker.engine.snapshot("consumers") == []


def test_logins_that_are_put_off_are_in_the_metrics():
    broker = InProcessBroker()
    logins = broker.traffic["amqp10"].logins
    access = make_access(user("alice", "wonderland"), submit=lambda check: False)
    (mechanism,) = logins.counting([PlainMechanism(access, from_here())])
    assert mechanism.start().respond(RIGHT)[0] == "later"
    found = Scraped(broker)()
    assert found["headgate_logins_put_off_total"] == {("PLAIN",): 1}
    assert found["rabbitmq_auth_attempts_failed_total"] == {("amqp10",): 0, ("amqp091",): 0}

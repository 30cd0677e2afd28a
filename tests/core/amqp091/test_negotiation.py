"""From the protocol header to connection.open-ok, and every way in which that can fail."""

import pytest
from pydantic import ValidationError

from core.access.exchange import SaslMechanism
from core.amqp091.errors import Amqp091ConnectionFault, ReplyCode
from core.amqp091.framing import FRAME_MIN_SIZE
from core.amqp091.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from core.amqp091.negotiation import CAPABILITIES, Negotiation, NegotiationStage
from core.config.amqp091 import Amqp091Settings
from tests.kit.amqp091_peer import MECHANISMS, PASSWORD, PROPERTIES, Password

START_OK = ConnectionStartOk(client_properties=PROPERTIES, mechanism="PLAIN", response=PASSWORD)
TUNE_OK = ConnectionTuneOk(channel_max=10, frame_max=8192, heartbeat=7)
OPEN = ConnectionOpen(virtual_host="/")


def negotiation(
    *methods: Method, settings: Amqp091Settings | None = None, mechanisms: tuple[SaslMechanism, ...] = (), **rules
) -> Negotiation:
    """A negotiation that has taken the header and these methods."""
    made = Negotiation(settings or Amqp091Settings(), mechanisms or tuple(MECHANISMS), **rules)
    made.start()
    for method in methods:
        made.method_received(method, 0.0)
    return made


def refused(started: Negotiation, method: Method) -> Amqp091ConnectionFault:
    with pytest.raises(Amqp091ConnectionFault) as raised:
        started.method_received(method, 0.0)
    return raised.value


def test_start_names_the_product_and_its_capabilities():
    properties = {"cluster_name": "C", "information": "I", "platform": "F", "product": "P", "version": "V"}
    mechanisms = (Password("AMQPLAIN"), Password())
    start = Negotiation(Amqp091Settings(), mechanisms, server_properties=properties).start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == b"AMQPLAIN PLAIN"
    assert start.locales == b"en_US"
    assert start.server_properties == {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": "C",
        "information": "I",
        "platform": "F",
        "product": "P",
        "version": "V",
    }


def test_a_peer_that_does_everything_right_gets_in():
    settings = Amqp091Settings(channel_max=65535, frame_max=131_072, heartbeat=60)
    under_way = negotiation(settings=settings)
    assert under_way.method_received(START_OK, 0.0) == ConnectionTune(
        channel_max=65535, frame_max=131_072, heartbeat=60
    )
    assert under_way.identity == "alice"
    assert under_way.client_properties == PROPERTIES
    assert under_way.client_capabilities == PROPERTIES["capabilities"]
    assert under_way.frame_max == FRAME_MIN_SIZE
    assert under_way.method_received(TUNE_OK, 0.0) is None
    assert under_way.method_received(OPEN, 0.0) == ConnectionOpenOk()
    assert (under_way.channel_max, under_way.frame_max, under_way.heartbeat_s) == (10, 8192, 7)
    assert under_way.virtual_host == "/"
    assert under_way.stage is NegotiationStage.DONE


def test_a_mechanism_may_ask_back():
    under_way = negotiation()
    answer = under_way.method_received(ConnectionStartOk(mechanism="PLAIN", response=b""), 0.0)
    assert answer == ConnectionSecure(challenge=b"who are you?")
    assert under_way.identity == ""
    assert isinstance(under_way.method_received(ConnectionSecureOk(response=PASSWORD), 0.0), ConnectionTune)
    assert under_way.identity == "alice"


def test_a_mechanism_that_was_not_offered_is_command_invalid():
    fault = refused(negotiation(), ConnectionStartOk(mechanism="EXTERNAL"))
    assert fault.code is ReplyCode.COMMAND_INVALID
    assert "EXTERNAL" in fault.text


def test_a_refused_login_is_told_after_the_delay_to_peers_that_understand():
    under_way = negotiation(refusal_delay_s=lambda: 2.5)
    wrong = ConnectionStartOk(client_properties=PROPERTIES, mechanism="PLAIN", response=b"wrong")
    assert under_way.method_received(wrong, 10.0) is None
    assert under_way.refuse_at == 12.5
    fault = under_way.refusal()
    assert fault is not None
    assert fault.code is ReplyCode.ACCESS_REFUSED
    assert fault.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    )
    assert refused(under_way, wrong).code is ReplyCode.COMMAND_INVALID


@pytest.mark.parametrize(
    "capabilities", [{}, {"authentication_failure_close": False}, {"authentication_failure_close": 1}, "all", None]
)
def test_other_peers_are_not_told_that_their_login_was_refused(capabilities):
    wrong = ConnectionStartOk(client_properties={"capabilities": capabilities}, mechanism="PLAIN", response=b"wrong")
    under_way = negotiation(wrong)
    assert under_way.refuse_at is not None
    assert under_way.refusal() is None


def test_zero_is_no_limit_of_the_peers():
    settings = Amqp091Settings(channel_max=100, frame_max=10_000)
    under_way = negotiation(START_OK, ConnectionTuneOk(channel_max=0, frame_max=0, heartbeat=0), settings=settings)
    assert (under_way.channel_max, under_way.frame_max, under_way.heartbeat_s) == (100, 10_000, 0)


@pytest.mark.parametrize(
    ("tune_ok", "text"),
    [
        (
            ConnectionTuneOk(channel_max=101, frame_max=4096),
            "NOT_ALLOWED - negotiated channel_max = 101 is higher than the maximum allowed value (100)",
        ),
        (
            ConnectionTuneOk(channel_max=1, frame_max=10_001),
            "NOT_ALLOWED - negotiated frame_max = 10001 is higher than the maximum allowed value (10000)",
        ),
        (
            ConnectionTuneOk(channel_max=1, frame_max=4095),
            "NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
    ],
)
def test_limits_that_were_not_offered_are_not_allowed(tune_ok, text):
    under_way = negotiation(START_OK, settings=Amqp091Settings(channel_max=100, frame_max=10_000))
    fault = refused(under_way, tune_ok)
    assert fault.code is ReplyCode.NOT_ALLOWED
    assert fault.reply_text == text


def test_the_edges_of_what_was_offered_are_allowed():
    settings = Amqp091Settings(channel_max=100, frame_max=10_000)
    highest = negotiation(START_OK, ConnectionTuneOk(channel_max=100, frame_max=10_000), settings=settings)
    lowest = negotiation(START_OK, ConnectionTuneOk(channel_max=1, frame_max=4096), settings=settings)
    assert (highest.channel_max, highest.frame_max) == (100, 10_000)
    assert (lowest.channel_max, lowest.frame_max) == (1, 4096)


def test_an_unknown_virtual_host_is_not_allowed():
    fault = refused(negotiation(START_OK, TUNE_OK), ConnectionOpen(virtual_host="other"))
    assert (fault.code, fault.text) == (ReplyCode.NOT_ALLOWED, "vhost other not found")


def test_the_rule_for_virtual_hosts_is_handed_in():
    asked = []

    def refuse(virtual_host: str, identity: str) -> str | None:
        asked.append((virtual_host, identity))
        return "no"

    assert refused(negotiation(START_OK, TUNE_OK, refuse_virtual_host=refuse), OPEN).text == "no"
    assert asked == [("/", "alice")]


@pytest.mark.parametrize("taken", range(4))
def test_a_method_out_of_order_is_command_invalid(taken):
    in_order: list[Method] = [START_OK, TUNE_OK, OPEN]
    for method in [START_OK, ConnectionSecureOk(response=PASSWORD), TUNE_OK, OPEN]:
        if method in in_order[taken : taken + 1]:
            continue
        fault = refused(negotiation(*in_order[:taken]), method)
        assert fault.code is ReplyCode.COMMAND_INVALID
        assert (fault.class_id, fault.method_id) == method.ID


@pytest.mark.parametrize(
    "numbers",
    [
        {"frame_max": 4095},
        {"channel_max": 0},
        {"channel_max": 65536},
        {"max_message_size": 2000, "partial_content_bytes_max": 1999},
    ],
)
def test_settings_that_cannot_work_are_refused(numbers):
    with pytest.raises(ValidationError):
        Amqp091Settings(**numbers)


def test_a_mechanism_that_is_withheld_is_refused_with_the_remedy():
    plain, external = Password(), Password("EXTERNAL")
    withheld = {plain.name: "use amqps://, or set access.plain_without_tls"}
    under_way = negotiation(mechanisms=(external,), withheld=withheld)
    assert under_way.impossible() is None
    fault = refused(under_way, START_OK)
    assert (fault.code, fault.text) == (ReplyCode.ACCESS_REFUSED, withheld["PLAIN"])


def test_a_peer_without_any_mechanism_is_told_why():
    impossible = Negotiation(Amqp091Settings(), (), withheld={"PLAIN": "no TLS"}).impossible()
    assert impossible is not None
    assert (impossible.code, impossible.text) == (ReplyCode.ACCESS_REFUSED, "no TLS")

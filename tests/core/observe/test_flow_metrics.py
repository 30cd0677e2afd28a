"""Flow control as metrics: a test makes each thing happen on a broker in this process, and reads its figure."""

import pytest

from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import End
from core.amqp091.properties import BasicProperties
from core.observe.stalls import OTHER, Stalls
from tests.kit.scraped import Scraped
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, WirePeer, numbered
from tests.kit.wire091 import Wire091Peer, connect

FEW = make_settings(amqp10={"max_link_credit": 10, "link_credit_top_up": 5, "unconfirmed_limit": 10})
DURABLE = bytes([0x00, 0x53, 0x70, 0xC0, 0x02, 0x01, 0x41])
"""A header section with durable = true."""


@pytest.fixture
def broker() -> InProcessBroker:
    return InProcessBroker(FEW)


@pytest.fixture
def scrape(broker: InProcessBroker) -> Scraped:
    return Scraped(broker)


@pytest.fixture
def peer(broker: InProcessBroker) -> WirePeer:
    """A client with a session."""
    peer = broker.connect()
    peer.begin()
    return peer


# --- stalls


def test_a_blocked_publisher_is_seen_while_it_lasts_and_its_seconds_stay(
    broker: InProcessBroker, peer: WirePeer, scrape: Scraped
):
    peer.attach_sender(broker.queue())
    broker.raise_alarm("memory")
    broker.go_round(3.0)
    where = ("/queues/q", "in", "memory")
    assert scrape()["headgate_link_blocked_seconds_total"] == {where: pytest.approx(3.0)}
    assert scrape()["headgate_links_blocked"] == {where: 1}
    broker.clear_alarm("memory")
    broker.go_round(5.0)
    assert scrape()["headgate_link_blocked_seconds_total"] == {where: pytest.approx(3.0)}
    assert scrape()["headgate_links_blocked"] == {where: 0}


def test_a_stall_too_short_to_be_listed_counts_in_seconds_only(
    broker: InProcessBroker, peer: WirePeer, scrape: Scraped
):
    peer.attach_sender(broker.queue())
    broker.raise_alarm("memory")
    broker.advance(0.04)
    where = ("/queues/q", "in", "memory")
    assert (broker.stalls.snapshot(), scrape()["headgate_links_blocked"]) == ([], {where: 0})
    assert scrape()["headgate_link_blocked_seconds_total"] == {where: pytest.approx(0.04)}
    broker.advance(0.02)
    assert [row["reason"] for row in broker.stalls.snapshot()] == ["memory"]
    assert scrape()["headgate_links_blocked"] == {where: 1}


def test_blocked_consumers(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    address = broker.queue()
    peer.attach_receiver(address, handle=0)
    peer.attach_receiver(address, handle=1)
    broker.fill(numbered(1))
    broker.go_round(1.2)
    assert scrape()["headgate_links_blocked"] == {(address, "out", "link-credit"): 2}


def test_addresses_beyond_the_limit_are_added_up(broker: InProcessBroker, scrape: Scraped):
    broker.stalls = Stalls(clock=lambda: broker.now, addresses_max=1)
    scrape = Scraped(broker)
    peer = broker.connect()
    peer.begin()
    for handle in range(3):
        peer.attach_sender(broker.queue(f"q{handle}"), handle=handle)
    broker.raise_alarm("disk")
    broker.advance(1.0)
    assert scrape()["headgate_links_blocked"] == {("/queues/q0", "in", "disk"): 1, (OTHER, "in", "disk"): 2}
    assert scrape()["headgate_link_blocked_seconds_total"][OTHER, "in", "disk"] == pytest.approx(2.0)


# --- windows and readers


@pytest.mark.parametrize("how", ["alarm", "session", "socket"])
def test_the_brokers_window_is_closed_by_an_alarm(broker: InProcessBroker, peer: WirePeer, scrape: Scraped, how: str):
    peer.attach_sender(broker.queue())
    broker.raise_alarm("disk")
    broker.advance(2.0)
    match how:
        case "alarm":
            broker.clear_alarm("disk")
        case "session":
            peer.send(End())
        case "socket":
            peer.disconnect()
    broker.advance(4.0)
    assert scrape()["headgate_session_window_closed_seconds_total"] == {("in", "disk"): pytest.approx(2.0)}


def test_another_alarm_keeps_the_window_closed(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    broker.raise_alarm("disk")
    peer.attach_sender(broker.queue())
    broker.advance(1.0)
    broker.raise_alarm("memory")
    broker.clear_alarm("disk")
    broker.advance(2.0)
    assert scrape()["headgate_session_window_closed_seconds_total"] == {
        ("in", "disk"): pytest.approx(1.0),
        ("in", "memory"): pytest.approx(2.0),
    }


def test_the_clients_window_is_closed_while_something_waits(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_receiver(broker.queue())
    peer.grant(10, incoming_window=2)
    broker.go_round(2.0)
    assert scrape().get("headgate_session_window_closed_seconds_total", {}) == {}
    broker.fill(numbered(5))
    broker.go_round(4.0)
    peer.flow(incoming_window=100)
    broker.go_round(4.0)
    (seconds,) = scrape()["headgate_session_window_closed_seconds_total"].values()
    assert seconds == pytest.approx(4.0, abs=0.5)  # found at the next look


@pytest.mark.parametrize("how", ["goes on", "leaves"])
def test_a_reader_of_amqp091_that_is_paused_by_an_alarm(broker: InProcessBroker, scrape: Scraped, how: str):
    channel = connect(broker, 1)
    channel.declare()
    broker.raise_alarm("memory")
    channel.publish(1, numbered(1), routing_key="q")
    broker.advance(3.0)
    assert scrape()["headgate_connection_read_paused_seconds_total"] == {("amqp091", "memory"): pytest.approx(3.0)}
    if how == "leaves":
        channel.disconnect()
    else:
        broker.clear_alarm("memory")
    broker.advance(3.0)
    assert scrape()["headgate_connection_read_paused_seconds_total"] == {("amqp091", "memory"): pytest.approx(3.0)}


def test_a_reader_of_amqp091_without_stage_credit(broker: InProcessBroker, scrape: Scraped):
    channel = connect(broker, 1)
    channel.declare()
    broker.stall()
    for _ in range(10):
        channel.publish(1, numbered(100), routing_key="q")
    broker.advance(2.0)
    assert scrape()["headgate_connection_read_paused_seconds_total"] == {
        ("amqp091", "stage-credit"): pytest.approx(2.0)
    }


# --- the balance of link credit


def balance(scrape: Scraped, direction: str) -> dict[str, float]:
    found = scrape()
    return {
        what: found[f"headgate_link_credit_{what}_total"][(direction,)]
        for what in ("granted", "consumed", "drained", "withdrawn")
    }


def test_a_publishers_link_credit(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(4))
    assert balance(scrape, "in") == {"granted": 10, "consumed": 4, "drained": 0, "withdrawn": 0}
    peer.publish(numbered(2))
    assert balance(scrape, "in") == {"granted": 16, "consumed": 6, "drained": 0, "withdrawn": 0}
    peer.detach(0)
    assert balance(scrape, "in") == {"granted": 16, "consumed": 6, "drained": 0, "withdrawn": 10}


def test_a_publisher_that_advances_its_delivery_count(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    peer.flow(handle=0, delivery_count=3, available=0)
    assert balance(scrape, "in") == {"granted": 10, "consumed": 0, "drained": 3, "withdrawn": 0}


def test_a_consumers_link_credit(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_receiver(broker.queue())
    broker.fill(numbered(4))
    peer.grant(100)
    assert balance(scrape, "out") == {"granted": 100, "consumed": 4, "drained": 0, "withdrawn": 0}
    peer.grant(50)
    assert balance(scrape, "out") == {"granted": 100, "consumed": 4, "drained": 0, "withdrawn": 46}
    peer.grant(50, drain=True)
    assert balance(scrape, "out") == {"granted": 100, "consumed": 4, "drained": 50, "withdrawn": 46}


@pytest.mark.parametrize("how", ["detach", "end", "socket", "forced"])
def test_what_links_did_stays_counted_when_they_are_gone(
    broker: InProcessBroker, peer: WirePeer, scrape: Scraped, how: str
):
    address = broker.queue()
    peer.attach_sender(address)
    peer.attach_receiver(address)
    peer.grant(20)
    peer.publish(numbered(4))
    before = {direction: balance(scrape, direction) for direction in ("in", "out")}
    match how:
        case "detach":
            peer.detach(0)
            peer.detach(1)
        case "end":
            peer.send(End())
        case "socket":
            peer.disconnect()
        case "forced":
            peer.front_end.shut_down("test", broker.now)
    after = {direction: balance(scrape, direction) for direction in ("in", "out")}
    assert after["in"] == before["in"] | {"withdrawn": 6}
    assert after["out"] == before["out"] | {"withdrawn": 16}
    assert set(scrape()["headgate_credit_invariant_violations_total"].values()) == {0}


def test_a_total_does_not_go_down_when_a_link_goes_during_the_walk(
    broker: InProcessBroker, peer: WirePeer, scrape: Scraped
):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(4))
    before = balance(scrape, "in")
    broker.traffic["amqp10"].flow.link_credit["in"].granted -= 1  # as if the row had been read too early
    assert balance(scrape, "in") == before


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(("handle", "kind"), [(0, "link-credit-in"), (1, "link-credit-out")])
def test_link_credit_from_nowhere_is_a_violation(
    broker: InProcessBroker, peer: WirePeer, scrape: Scraped, handle: int, kind: str, gone: bool
):
    address = broker.queue()
    peer.attach_sender(address)
    peer.attach_receiver(address)
    assert scrape()["headgate_credit_invariant_violations_total"] == {
        ("link-credit-in",): 0,
        ("link-credit-out",): 0,
    }
    peer.link(handle).credit.link_credit += 1
    if gone:
        peer.disconnect()
    assert scrape()["headgate_credit_invariant_violations_total"][(kind,)] == 1
    assert sum(scrape()["headgate_credit_invariant_violations_total"].values()) == 1


def test_a_message_without_link_credit(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    broker.stall()
    peer.publish(numbered(12))
    assert peer.detached_with("amqp:link:transfer-limit-exceeded")
    assert scrape()["headgate_transfers_over_credit_total"] == {(): 2}


# --- flows


def test_flow_frames_by_what_they_are_for(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    address = broker.queue()
    peer.attach_sender(address)  # the broker's flow with link credit
    peer.attach_receiver(address)
    peer.grant(5)
    peer.grant(5, echo=True)  # and the answer, which says the same
    peer.grant(5, drain=True)  # and the answer
    peer.flow(echo=True)  # and the answer
    assert scrape()["headgate_flow_frames_total"] == {
        ("in", "grant"): 1,
        ("out", "grant"): 2,
        ("out", "echo"): 1,
        ("out", "drain"): 2,
        ("out", "window"): 1,
        ("in", "window"): 1,
    }


def test_the_brokers_window_takes_flows(scrape: Scraped):
    broker = InProcessBroker(make_settings(amqp10={"max_incoming_window": 4, "window_top_up": 2}))
    scrape = Scraped(broker)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue())
    peer.publish(numbered(2))
    assert scrape()["headgate_flow_frames_total"][("in", "window")] == 1


# --- how long answers take


def buckets(scrape: Scraped, protocol: str, durable: str) -> dict[str, float]:
    """The bounds of the buckets that hold a value which the bucket before does not."""
    found = scrape()["headgate_settle_latency_seconds_bucket"]
    cumulated = {le: count for (its, of, le), count in found.items() if (its, of) == (protocol, durable)}
    counts, before = {}, 0.0
    for le, count in cumulated.items():
        if count > before:
            counts[le] = count - before
        before = count
    return counts


def test_from_the_arrival_to_the_answer(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(3))
    broker.stall()
    peer.publish(numbered(2))
    broker.advance(0.3)
    broker.recover()
    assert buckets(scrape, "amqp10", "false") == {"0.0005": 3, "0.5": 2}
    assert scrape()["headgate_settle_latency_seconds_sum"]["amqp10", "false"] == pytest.approx(0.6)
    assert buckets(scrape, "amqp10", "true") == {}


def test_messages_that_come_settled_get_no_answer(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    peer.publish(numbered(2), settled=True)
    peer.publish(numbered(1))
    peer.publish(numbered(2), settled=True)
    assert buckets(scrape, "amqp10", "false") == {"0.0005": 1}


def test_durable_messages_have_their_own(peer: WirePeer, broker: InProcessBroker, scrape: Scraped):
    peer.attach_sender(broker.queue())
    payload = DURABLE + b"\x00\x53\x75\xa0\x01x"
    peer.transfer(payload=payload)
    assert buckets(scrape, "amqp10", "true") == {"0.0005": 1}


def test_publisher_confirms_of_amqp091(broker: InProcessBroker, scrape: Scraped):
    channel: Wire091Peer = connect(broker, 1)
    channel.declare()
    channel.publish(1, numbered(7), routing_key="q")  # no flow asked for an answer
    channel.select_confirms()
    broker.stall()
    channel.publish(1, numbered(2), routing_key="q", properties=BasicProperties(delivery_mode=2))
    broker.advance(1.5)
    broker.recover()
    assert buckets(scrape, "amqp091", "true") == {"2.0": 2}
    assert buckets(scrape, "amqp091", "false") == {}


# --- the age of what waits


def test_the_oldest_message_of_a_publisher(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    address = broker.queue()
    peer.attach_sender(address)
    broker.stall()
    peer.publish(numbered(1))
    broker.advance(2.0)
    peer.publish(numbered(1))
    broker.advance(1.0)
    assert scrape()["headgate_unsettled_oldest_age_seconds"] == {(address, "in"): 3.0}
    broker.recover()
    assert scrape()["headgate_unsettled_oldest_age_seconds"] == {(address, "in"): 0.0}


def test_the_oldest_message_of_a_consumer(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_receiver(broker.queue())
    broker.fill(numbered(3))
    peer.grant(10)
    broker.go_round(4.0)
    age = scrape()["headgate_unsettled_oldest_age_seconds"]["q", "out"]
    assert age == pytest.approx(4.0, abs=0.5)
    peer.dispose(1, 2, state=ACCEPTED)
    assert scrape()["headgate_unsettled_oldest_age_seconds"]["q", "out"] == age
    peer.dispose(0, state=ACCEPTED)
    assert scrape()["headgate_unsettled_oldest_age_seconds"]["q", "out"] == 0.0


# --- consumers that are idle


def test_the_share_of_time_with_idle_consumers(broker: InProcessBroker, scrape: Scraped):
    scrape.idle["q"] = 0.25
    assert scrape()["headgate_consumer_idle_ratio"] == {("q",): 0.25}


# --- frames that are not understood


def test_frames_that_make_no_sense(broker: InProcessBroker, scrape: Scraped):
    early, late = WirePeer(broker), broker.connect()
    early.send_bytes(b"AMQP\x03\x01\x00\x00" + b"\x00\x00\x00\x03\x02\x01\x00\x00")
    late.send_bytes(b"\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x53")
    unopened = WirePeer(broker)
    unopened.handshake()
    unopened.send_bytes(b"\xff\xff\xff\xff\x02\x00\x00\x00")
    found = scrape()["headgate_decode_errors_total"]
    assert found == {
        ("pre_auth", "framing-error"): 1,
        ("open", "decode-error"): 1,
        ("pre_open", "framing-error"): 1,
    }
    assert scrape()["headgate_connections_refused_total"][("decode_error",)] == 2


def test_a_message_that_makes_no_sense(broker: InProcessBroker, peer: WirePeer, scrape: Scraped):
    peer.attach_sender(broker.queue())
    peer.transfer(payload=b"\x00\x53")
    assert scrape()["headgate_decode_errors_total"] == {("message", "decode-error"): 1}


def test_frames_of_amqp091_that_make_no_sense(broker: InProcessBroker, scrape: Scraped):
    peer = connect(broker, 1)
    peer.send_bytes(b"\x09\x00\x00\x00\x00\x00\x00\xce")
    assert scrape()["headgate_decode_errors_total"] == {("open", "frame-error"): 1}

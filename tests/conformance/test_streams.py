"""Streams as AMQP 1.0 consumers see them: where a reader begins, filter values, any number of readers, settling."""

import pytest

from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Rejected, Source
from amqp10.wire.performatives import Detach, Disposition, Flow
from amqp10.wire.sections import MESSAGE_ANNOTATIONS, decode_map_section, encode_section, scan
from amqp10.wire.types import Described, Symbol, Timestamp, ULong
from tests.kit.cases import case
from tests.kit.queue_types import OFFSET, from_first
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered

VALUES, UNFILTERED = "rabbitmq:stream-filter", "rabbitmq:stream-match-unfiltered"


class Streaming:
    """A broker with one stream, and a client."""

    def __init__(self) -> None:
        self.broker = InProcessBroker(durable=True)
        self.address = self.broker.queue(x_queue_type="stream")
        self.peer: WirePeer = self.broker.connect()
        self.peer.begin()

    def publish(self, body: bytes, filter_value: str | None = None) -> None:
        """Publish one message, with or without a filter value."""
        annotations = b""
        if filter_value is not None:
            annotations = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-stream-filter-value"): filter_value})
        self.peer.transfer(payload=annotations + data_message(body))
        assert self.peer.pick(Disposition).state == ACCEPTED

    def read(self, handle: int = 1, link_credit: int = 10_000, **filters: object) -> list[bytes]:
        """What a new reader with these filters gets. The broker's attach must say that all of them are in force."""
        wanted = {name: Described(Symbol(name), value) for name, value in filters.items()}
        attached = self.peer.attach_receiver(
            self.address, handle=handle, source=Source(address=self.address, filter=wanted)
        )
        assert attached.source.filter == wanted or not wanted
        assert attached.source.distribution_mode == "copy"
        self.peer.grant(link_credit, handle=handle)
        return self.peer.bodies()


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("first", numbered(9)),
        ("last", numbered(3, first=6)),
        ("next", []),
        (ULong(0), numbered(9)),
        (ULong(4), numbered(5, first=4)),
        (ULong(8), [b"8"]),
        (ULong(9), []),
        (Timestamp(1_700_000_000_000), numbered(9)),
        (Timestamp(1_700_000_010_000), numbered(6, first=3)),
        (Timestamp(1_700_000_011_000), numbered(3, first=6)),
        (Timestamp(1_800_000_000_000), []),
        ("25s", numbered(6, first=3)),
        ("1h", numbered(9)),
    ],
    ids=str,
)
@case("amqp_dotnet_SUITE", "streams")
def test_where_a_reader_begins(begin: object, expected: list[bytes]):
    """streams (amqp_dotnet_SUITE): three messages now, three 10 s later, three 20 s later; the reader comes after
    30 s. A time means the first chunk that is not older."""
    c = Streaming()
    for first in (0, 3, 6):
        c.broker.fill(numbered(3, first=first))
        c.broker.advance(10)
    assert c.read(**{OFFSET: begin}) == expected
    c.broker.fill([b"new"])
    assert c.peer.bodies() == [b"new"]


def test_a_reader_begins_behind_what_is_there_unless_it_says_otherwise():
    """The default offset is ``next``, as in RabbitMQ."""
    c = Streaming()
    c.broker.fill(numbered(3))
    assert c.read() == []
    c.broker.fill([b"new"])
    assert c.peer.bodies() == [b"new"]


@pytest.mark.parametrize("wrong", ["middle", "5 minutes", True, -0.5, ["first"]], ids=str)
def test_an_invalid_offset(wrong: object):
    """An offset specification that cannot be understood is refused, on the link."""
    c = Streaming()
    attached = c.peer.attach_receiver(
        c.address, source=Source(address=c.address, filter={OFFSET: Described(Symbol(OFFSET), wrong)})
    )
    assert attached.source is None
    assert c.peer.expect(Detach).error.condition == "amqp:invalid-field"


@case("amqp_client_SUITE", "stream_bloom_filter")
def test_filter_values():
    """stream_bloom_filter (amqp_client_SUITE): one value, several, and messages without one. RabbitMQ's filter is
    approximate and may let others through; this one does not."""
    c = Streaming()
    c.peer.attach_sender(c.address)
    for round_number in range(4):
        for value in ("apple", "pear", "plum", None):
            c.publish(b"%s %d" % (str(value).encode(), round_number), value)
    every = [f"{value} {number}".encode() for number in range(4) for value in ("apple", "pear", "plum", None)]

    def kinds(*names: str) -> list[bytes]:
        return [body for body in every if body.split()[0].decode() in names]

    begin = {OFFSET: "first"}
    assert c.read(1, **begin) == every
    assert c.read(2, **begin, **{VALUES: "apple"}) == kinds("apple")
    assert c.read(3, **begin, **{VALUES: ["apple", "plum"]}) == kinds("apple", "plum")
    assert c.read(4, **begin, **{VALUES: ["pear"], UNFILTERED: True}) == kinds("pear", "None")
    assert c.read(5, **begin, **{VALUES: "cherry"}) == []


def test_a_filter_uses_link_credit_for_what_matches_only():
    """Link credit counts deliveries [2.6.7]. A drain passes over messages that do not match, and is answered."""
    c = Streaming()
    c.peer.attach_sender(c.address)
    for number in range(300):
        c.publish(b"%d" % number, "rare" if number % 100 == 0 else "common")
    c.peer.frames.clear()
    assert c.read(link_credit=2, **{OFFSET: "first", VALUES: "rare"}) == [b"0", b"100"]
    c.peer.grant(5, drain=True)
    assert c.peer.bodies() == [b"200"]
    flow = c.peer.expect(Flow)
    assert (flow.link_credit, flow.drain, flow.available, flow.delivery_count) == (0, True, 0, 7)


def test_readers_do_not_take_from_each_other():
    """Each reader gets everything, at its own pace. Deliveries carry their offsets."""
    c = Streaming()
    c.broker.fill(numbered(600))
    assert c.read(1, link_credit=100, **{OFFSET: "first"}) == numbered(100)
    assert c.read(2, **{OFFSET: "first"}) == numbered(600)
    c.peer.grant(500, handle=1)
    received = c.peer.deliveries()
    assert [body_of(payload) for _, payload in received] == numbered(500, first=100)
    offsets = [
        decode_map_section(payload, *scan(payload).message_annotations)[Symbol("x-stream-offset")]
        for _, payload in received
    ]
    assert offsets == [ULong(number) for number in range(100, 600)]
    assert c.broker.ready() == 600


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True)], ids=repr)
def test_settling_takes_nothing_and_brings_nothing_back(outcome: object):
    """With every outcome the message stays in the stream and is not delivered again on this link."""
    c = Streaming()
    c.broker.fill(numbered(3))
    assert c.read(link_credit=3, **{OFFSET: "first"}) == numbered(3)
    assert c.broker.unacknowledged() == 3
    c.peer.dispose(0, 2, state=outcome)
    assert (c.broker.ready(), c.broker.unacknowledged()) == (3, 0)
    c.peer.grant(9)
    assert c.peer.nothing_came()
    c.peer.detach(1)
    c.peer.frames.clear()
    assert c.read(2, **{OFFSET: "first"}) == numbered(3)


def test_what_waits_behind_a_closed_window_is_not_lost():
    """Deliveries that were never sent go back when the link credit shrinks; the reader continues where the
    client is."""
    c = Streaming()
    c.broker.fill(numbered(1000))
    c.peer.attach_receiver(c.address, source=from_first(c.address))
    c.peer.grant(500, incoming_window=10)
    assert c.peer.bodies() == numbered(10)
    c.peer.grant(0, incoming_window=10_000, delivery_count=10)
    assert c.peer.bodies() == []
    c.peer.grant(2000)
    assert c.peer.bodies() == numbered(990, first=10)

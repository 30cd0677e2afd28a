"""Streams over the wire: where consumers begin, what they filter, the offsets they get, drain, and the stream's end."""

import pytest

from amqp10.conversion.converter import MessageConverter
from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Rejected, Source
from amqp10.wire.performatives import Detach, Disposition, Flow
from amqp10.wire.sections import (
    MESSAGE_ANNOTATIONS,
    Header,
    decode_header,
    decode_map_section,
    encode_header,
    encode_section,
    scan,
)
from amqp10.wire.types import Described, Symbol, Timestamp, ULong
from tests.kit.stored_broker import StoredBroker
from tests.kit.wire import WirePeer, body_of, data_message, numbered

OFFSET_SPEC = "rabbitmq:stream-offset-spec"
FILTER = "rabbitmq:stream-filter"
MATCH_UNFILTERED = "rabbitmq:stream-match-unfiltered"


def described(**filters: object) -> dict[str, object]:
    names = {"offset": OFFSET_SPEC, "values": FILTER, "unfiltered": MATCH_UNFILTERED}
    return {names[key]: Described(Symbol(names[key]), value) for key, value in filters.items()}


class Stream:
    """A broker with one stream, and a client that publishes at handle 0 and may consume at others."""

    def __init__(self, n: int = 0, **arguments: object) -> None:
        self.broker = StoredBroker(MessageConverter())
        self.address = self.broker.wire.queue("s", x_queue_type="stream", **arguments)
        self.peer: WirePeer = self.broker.wire.connect()
        self.peer.begin()
        self.peer.attach_sender(self.address)
        self.broker.wire.fill(numbered(n), "s")
        self.broker.settle_down()
        self.peer.frames.clear()

    def publish(self, *bodies: bytes, value: str | None = None, header: bytes = b"") -> None:
        annotations = {} if value is None else {Symbol("x-stream-filter-value"): value}
        section = encode_section(MESSAGE_ANNOTATIONS, annotations) if annotations else b""
        for body in bodies:
            self.peer.transfer(payload=header + section + data_message(body))
        self.broker.settle_down()

    def consume(self, link_credit: int = 0, *, handle: int = 1, drain: bool = False, **filters: object) -> Source:
        """Attach a consumer; returns the source that the broker answered."""
        source = Source(address=self.address, filter=described(**filters) or None)
        answer = self.peer.attach_receiver(self.address, handle=handle, source=source)
        self.peer.frames.clear()
        if link_credit:
            self.peer.grant(link_credit, handle=handle, drain=drain)
            self.broker.settle_down()
        assert isinstance(answer.source, Source)
        return answer.source

    def received(self) -> list[tuple[int, bytes]]:
        """The offsets and bodies of all deliveries so far."""
        found = []
        for _, payload in self.peer.deliveries():
            bounds = scan(payload)
            assert bounds.message_annotations is not None
            offset = decode_map_section(payload, *bounds.message_annotations)[Symbol("x-stream-offset")]
            assert isinstance(offset, ULong)
            found.append((offset.value, body_of(payload)))
        return found


def offsets(found: list[tuple[int, bytes]]) -> list[int]:
    return [offset for offset, _ in found]


def test_published_messages_are_accepted_and_every_consumer_reads_them():
    stream = Stream()
    stream.publish(*numbered(10))
    accepted = stream.peer.take(Disposition)
    assert all(one.state == ACCEPTED and one.settled for one in accepted)
    assert sum((one.last if one.last is not None else one.first) - one.first + 1 for one in accepted) == 10
    for handle in (1, 2):
        stream.consume(100, handle=handle, offset="first")
        assert stream.received() == list(enumerate(numbered(10)))


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        ("last", 9),
        ("next", 10),
        (None, 10),
        (0, 0),
        (7, 7),
        (ULong(7), 7),
        (Timestamp(1_700_000_000_000), 0),
        (Timestamp(1_700_000_000_001), 10),
        ("1h", 0),
        ("0s", 0),
    ],
)
def test_where_a_consumer_begins(offset, first):
    stream = Stream()
    for body in numbered(10):
        stream.publish(body)
    source = stream.consume(100, **({} if offset is None else {"offset": offset}))
    stream.publish(b"new")
    assert stream.received() == list(enumerate([*numbered(10), b"new"]))[first:]
    assert source.distribution_mode == "copy"
    assert source.filter == (None if offset is None else described(offset=offset))


def test_only_what_the_filter_lets_through():
    stream = Stream()
    stream.publish(b"0", b"1", value="apple")
    stream.publish(b"2")
    stream.publish(b"3", b"4", value="pear")
    stream.consume(100, handle=1, offset="first", values=["apple"])
    assert stream.received() == [(0, b"0"), (1, b"1")]
    stream.consume(100, handle=2, offset="first", values="pear", unfiltered=True)
    assert stream.received() == [(2, b"2"), (3, b"3"), (4, b"4")]
    stream.consume(100, handle=3, offset="first", values=["plum"])
    assert stream.received() == []


def test_the_annotations_of_a_message_stay():
    stream = Stream()
    stream.publish(b"x", value="apple")
    stream.consume(1, offset="first")
    ((_, payload),) = stream.peer.deliveries()
    bounds = scan(payload)
    assert bounds.message_annotations is not None
    assert decode_map_section(payload, *bounds.message_annotations) == {
        Symbol("x-stream-offset"): ULong(0),
        Symbol("x-stream-filter-value"): "apple",
    }


@pytest.mark.parametrize("durable", [True, False, None])
def test_durable_field(durable):
    stream = Stream()
    stream.publish(b"x", header=b"" if durable is None else encode_header(Header(durable=durable)))
    stream.consume(1, offset="first")
    ((_, payload),) = stream.peer.deliveries()
    bounds = scan(payload)
    header = decode_header(payload, *bounds.header) if bounds.header else Header()
    assert header.durable is (durable or False)
    assert header.delivery_count == 0


@pytest.mark.parametrize(
    ("filters", "name"),
    [({"offset": "nowhere"}, OFFSET_SPEC), ({"values": 7}, FILTER), ({"unfiltered": "yes"}, MATCH_UNFILTERED)],
)
def test_a_filter_with_a_bad_value_refuses_the_link(filters, name):
    stream = Stream()
    answer = stream.peer.attach_receiver(
        stream.address, source=Source(address=stream.address, filter=described(**filters))
    )
    assert answer.source is None
    detach = stream.peer.pick(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert name in str(detach.error.description)


def test_other_filters_are_refused_and_other_queues_have_none():
    stream = Stream(3)
    selecting = Source(address=stream.address, filter=described(offset="first") | {"jms-selector": "a = 1"})
    answer = stream.peer.attach_receiver(stream.address, source=selecting)
    assert answer.source is None
    assert stream.peer.detached_with("amqp:not-implemented")
    classic = stream.broker.wire.queue("c")
    source = Source(address=classic, filter=described(offset="first"))
    answer = stream.peer.attach_receiver(classic, handle=2, source=source)
    assert isinstance(answer.source, Source)
    assert (answer.source.filter, answer.source.distribution_mode) == (None, "move")


# --- link credit


def test_roundtrip_with_drain():
    stream = Stream(1)
    stream.consume(2, offset="first", drain=True)
    assert stream.received() == [(0, numbered(1)[0])]
    flow = stream.peer.pick(Flow)
    assert (flow.link_credit, flow.drain, flow.available) == (0, True, 0)
    stream.publish(b"later")
    assert stream.received() == []


def test_drain_many():
    stream = Stream(5000)
    stream.consume(4999, offset="first", drain=True)
    assert offsets(stream.received()) == list(range(4999))
    stream.peer.grant(2, drain=True)
    stream.broker.settle_down()
    assert offsets(stream.received()) == [4999]
    stream.peer.take(Flow)
    stream.peer.grant(2_000_000_000, drain=True)
    stream.broker.settle_down()
    assert stream.peer.take(Flow)[-1].link_credit == 0


FIVE_FLOWS = ((0, False), (1, False), (500, False), (1000, False), (1000, True))


def test_five_flows_in_a_row():
    stream = Stream(1000)
    stream.consume(offset="first")
    frames = [stream.peer.grant_frame(n, delivery_count=0, drain=drain) for n, drain in FIVE_FLOWS]
    stream.peer.send_all(frames)
    stream.broker.settle_down()
    assert offsets(stream.received()) == list(range(1000))


def test_available_is_what_is_between_the_reader_and_the_end():
    stream = Stream(50)
    stream.consume(10, offset="first")
    stream.peer.take(Flow)
    stream.peer.grant(0, echo=True)
    stream.broker.settle_down()
    assert stream.peer.take(Flow)[-1].available == 40


@pytest.mark.parametrize("state", [ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True)])
def test_whatever_the_outcome_nothing_comes_back(state):
    stream = Stream(3)
    stream.consume(100, offset="first")
    assert offsets(stream.received()) == [0, 1, 2]
    assert stream.broker.wire.unacknowledged("s") == 3
    stream.peer.dispose(0, 2, state=state)
    stream.broker.settle_down()
    assert stream.received() == []
    assert stream.broker.wire.unacknowledged("s") == 0
    assert stream.broker.wire.ready("s") == 3


def test_messages_that_were_withdrawn_before_they_were_sent_come_again():
    stream = Stream(10)
    stream.consume(offset="first")
    stream.peer.grant(10, incoming_window=3)
    stream.broker.settle_down()
    assert offsets(stream.received()) == [0, 1, 2]
    stream.peer.grant(2, incoming_window=100)
    stream.broker.settle_down()
    assert offsets(stream.received()) == [3, 4]
    stream.peer.grant(100)
    stream.broker.settle_down()
    assert offsets(stream.received()) == [5, 6, 7, 8, 9]
    assert stream.broker.wire.unacknowledged("s") == 10


def test_server_closes_link():
    stream = Stream(3)
    stream.consume(100, offset="first")
    stream.broker.wire.engine.delete_queue("s", stream.broker.wire)
    stream.broker.settle_down()
    detached = stream.peer.take(Detach)
    assert [each.error.condition for each in detached if each.error] == ["amqp:resource-deleted"] * 2

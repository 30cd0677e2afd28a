"""A queue that several read at once: a link holds messages, requests give them to it and settle them, and others read
copies of them."""

from typing import cast

import pytest

from amqp10.wire.messaging import ACCEPTED, Source
from amqp10.wire.performatives import Flow
from amqp10.wire.sections import decode_map_section, scan
from amqp10.wire.types import Described, Symbol, ULong
from core.access.rights import Permission, Rights
from core.held import HOLD_BYTES_MAX, HOLD_MESSAGES_MAX
from tests.kit.fates import does
from tests.kit.management import Answer, decode_answer, encode_request, respond
from tests.kit.queue_types import for_each_queue_type
from tests.kit.wire import InProcessBroker, WirePeer, body_of, numbered

INVALID_FIELD, NOT_IMPLEMENTED = "amqp:invalid-field", "amqp:not-implemented"
HELD = "headgate:held"
HOLDER = {"headgate:holder": "h"}


def annotations_of(payload: bytes) -> dict[object, object]:
    """The message annotations, by the texts of their keys."""
    bounds = scan(payload).message_annotations
    found = {} if bounds is None else decode_map_section(payload, *bounds)
    return {key.value: value for key, value in found.items() if isinstance(key, Symbol)}


class Reading:
    """A broker with a queue of ten messages, and a client."""

    def __init__(self, **arguments: object) -> None:
        self.broker = InProcessBroker(durable=True)
        self.address = self.broker.queue(x_sequence=True, **arguments)
        self.broker.fill(numbered(10))
        self.peer = self.client()

    def client(self) -> WirePeer:
        peer = self.broker.connect()
        peer.begin()
        return peer

    def ask(self, method: str, body: object, *, path: str = "/queues/q/held", rights: Rights | None = None) -> Answer:
        request = encode_request(method, path, body)
        answer = respond(self.broker.node, self.broker.engine, request, rights=rights, turn=self.broker.run)
        self.broker.run()
        return decode_answer(answer)

    def hold(self, **fields: object) -> object:
        answer = self.ask("PUT", {"holder": "h", **fields})
        assert answer.status == 200, answer.body
        return cast("dict[str, object]", answer.body)["ranges"]

    def settle(self, **fields: object) -> object:
        answer = self.ask("POST", {"holder": "h", "outcome": "accepted", **fields})
        assert answer.status == 200, answer.body
        return cast("dict[str, object]", answer.body)["message_count"]

    def reader(self, first: object, last: object, *, handle: int = 5, holder: object = "h") -> Source | None:
        wanted = Described(Symbol(HELD), [holder, first, last])
        source = Source(address=self.address, distribution_mode="copy", filter={HELD: wanted})
        answer = self.peer.attach_receiver(self.address, handle=handle, source=source, snd_settle_mode=1)
        return cast("Source | None", answer.source)


@does(
    "attach",
    "properties (headgate:holder)",
    "the name under which requests give the consumer messages to hold; it gets none by link credit. Not a string of 1"
    " to 255 bytes: `amqp:invalid-field`; of a stream, or a queue of another node: `amqp:not-implemented`",
)
@does(
    "source",
    "filter (headgate:held, of a queue)",
    "with distribution-mode copy: copies of messages that a consumer holds; in the answer. An invalid value, or another"
    " mode: `amqp:invalid-field`",
)
@for_each_queue_type
def test_a_link_holds_and_others_read_copies(kind: str):
    one = Reading(x_queue_type=kind, x_enqueued_time=True)
    assert one.peer.attach_receiver(one.address, properties=HOLDER).source is not None
    one.peer.grant(100)
    assert one.peer.nothing_came()
    assert one.hold(messages=6) == [[0, 5]]
    one.peer.grant(7, drain=True)
    answer = one.peer.pick(Flow)
    assert (answer.link_credit, answer.available) == (0, 4)
    source = one.reader(ULong(2), ULong(4))
    assert source is not None
    assert source.distribution_mode == "copy"
    assert source.filter == {HELD: Described(Symbol(HELD), ["h", ULong(2), ULong(4)])}
    one.peer.grant(100, handle=5, drain=True)
    came = one.peer.deliveries()
    assert [body_of(payload) for _, payload in came] == [b"2", b"3", b"4"]
    assert all(transfer.settled for transfer, _ in came)
    told = [annotations_of(payload) for _, payload in came]
    assert [one_of["x-opt-sequence"] for one_of in told] == [ULong(2), ULong(3), ULong(4)]
    assert all("x-opt-enqueued-time" in one_of for one_of in told)
    assert one.peer.pick(Flow).link_credit == 0
    assert (one.broker.ready(), one.broker.unacknowledged()) == (4, 6)
    assert one.settle(last=ULong(5)) == 6
    assert (one.broker.ready(), one.broker.unacknowledged()) == (4, 0)


def test_what_a_link_holds_is_ready_again_when_it_ends():
    one = Reading()
    one.peer.attach_receiver(one.address, properties=HOLDER)
    one.hold()
    one.peer.detach(1)
    assert (one.broker.ready(), one.broker.unacknowledged()) == (10, 0)
    assert one.ask("PUT", {"holder": "h"}).status == 404
    assert one.ask("POST", {"holder": "h", "outcome": "accepted", "last": 3}).status == 404
    one.peer.attach_receiver(one.address, handle=2, properties=HOLDER)
    one.hold()
    one.peer.disconnect()
    assert (one.broker.ready(), one.broker.unacknowledged()) == (10, 0)


def test_an_unsettled_copy_is_settled_without_effect():
    one = Reading()
    one.peer.attach_receiver(one.address, properties=HOLDER)
    one.hold()
    wanted = {HELD: Described(Symbol(HELD), ["h", ULong(0), ULong(9)])}
    one.peer.attach_receiver(
        one.address, handle=5, source=Source(address=one.address, distribution_mode="copy", filter=wanted)
    )
    one.peer.grant(3, handle=5)
    assert one.peer.bodies() == numbered(3)
    one.peer.dispose(0, 1, state=ACCEPTED, settled=True)
    one.peer.detach(5)
    assert one.broker.unacknowledged() == 10
    assert one.settle(last=9) == 10


def test_held_messages_that_time_out_are_ready_again():
    one = Reading(x_consumer_timeout=1000)
    one.peer.attach_receiver(one.address, properties=HOLDER)
    one.hold(messages=4)
    one.broker.advance(5)
    assert (one.broker.ready(), one.broker.unacknowledged()) == (10, 0)
    assert one.settle(last=9) == 0
    assert one.hold() == [[0, 9]]


@pytest.mark.parametrize("name", ["", "x" * 256, 5, True])
def test_a_name_of_a_holder_that_cannot_be(name: object):
    one = Reading()
    assert one.peer.attach_receiver(one.address, properties={"headgate:holder": name}).source is None
    assert one.peer.detached_with(INVALID_FIELD)


def test_a_link_that_sends_settled_holds_nothing():
    one = Reading()
    assert one.peer.attach_receiver(one.address, properties=HOLDER, snd_settle_mode=1).source is None
    assert one.peer.detached_with(INVALID_FIELD)


@pytest.mark.parametrize(
    "wanted",
    ["h", [], ["h", ULong(1)], ["", ULong(0), ULong(1)], ["h", ULong(2), ULong(1)], ["h", "a", "b"], [5, 0, 1]],
)
def test_a_filter_of_copies_that_cannot_be(wanted: object):
    one = Reading()
    source = Source(address=one.address, distribution_mode="copy", filter={HELD: Described(Symbol(HELD), wanted)})
    assert one.peer.attach_receiver(one.address, source=source).source is None
    assert one.peer.detached_with(INVALID_FIELD)


def test_copies_are_of_queues_in_mode_copy_and_with_no_other_filter():
    one = Reading()
    stream = one.broker.queue("s", x_queue_type="stream")
    wanted = Described(Symbol(HELD), ["h", ULong(0), ULong(1)])
    cases = (
        (Source(address=one.address, filter={HELD: wanted}), INVALID_FIELD),
        (Source(address=stream, distribution_mode="copy", filter={HELD: wanted}), NOT_IMPLEMENTED),
        (Source(address=one.address, distribution_mode="copy", filter={HELD: wanted, "x": "y"}), NOT_IMPLEMENTED),
    )
    for handle, (source, condition) in enumerate(cases, start=1):
        assert one.peer.attach_receiver(one.address, handle=handle, source=source).source is None
        assert one.peer.detached_with(condition)
    assert one.peer.attach_receiver(stream, handle=9, properties=HOLDER).source is None
    assert one.peer.detached_with(NOT_IMPLEMENTED)


def test_a_name_is_held_once():
    one = Reading()
    one.peer.attach_receiver(one.address, properties=HOLDER)
    assert one.client().attach_receiver(one.address, handle=7, properties=HOLDER).source is None


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("PUT", None),
        ("PUT", {}),
        ("PUT", {"holder": ""}),
        ("PUT", {"holder": "x" * 256}),
        ("PUT", {"holder": 5}),
        ("PUT", {"holder": "h", "messages": 0}),
        ("PUT", {"holder": "h", "messages": HOLD_MESSAGES_MAX + 1}),
        ("PUT", {"holder": "h", "messages": True}),
        ("PUT", {"holder": "h", "bytes": HOLD_BYTES_MAX + 1}),
        ("PUT", {"holder": "h", "through": -1}),
        ("PUT", {"holder": "h", "through": "5"}),
        ("PUT", {"holder": "h", "other": 5}),
        ("POST", {"holder": "h", "outcome": "accepted"}),
        ("POST", {"holder": "h", "outcome": "eaten", "last": 5}),
        ("POST", {"holder": "h", "last": 5}),
        ("POST", {"holder": "h", "outcome": "accepted", "first": -1, "last": 5}),
        ("POST", {"holder": "h", "outcome": "accepted", "last": ULong(2**63)}),
    ],
)
def test_a_request_that_cannot_be(method: str, body: object):
    one = Reading()
    one.peer.attach_receiver(one.address, properties=HOLDER)
    one.hold()
    assert one.ask(method, body).status == 400
    assert one.broker.unacknowledged() == 10


def test_a_request_about_a_queue_that_is_not_there():
    one = Reading()
    assert one.ask("PUT", {"holder": "h"}, path="/queues/none/held").status == 404
    assert one.ask("DELETE", None).status == 405


def test_the_permission_to_read_is_needed():
    one = Reading()
    one.peer.attach_receiver(one.address, properties=HOLDER)
    for method, body in (("PUT", {"holder": "h"}), ("POST", {"holder": "h", "outcome": "accepted", "last": 5})):
        assert one.ask(method, body, rights=Rights("me", Permission(configure=".*", write=".*"))).status == 403
        assert one.ask(method, body, rights=Rights("me", Permission(read="^q$"))).status == 200

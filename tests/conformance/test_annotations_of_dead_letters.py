"""Annotations that consumers add with modified, on messages that are dead-lettered afterwards [3.4.5]."""

import pytest

from amqp10.wire.codec import format_codes as code
from amqp10.wire.messaging import Modified, Rejected
from amqp10.wire.sections import MESSAGE_ANNOTATIONS, decode_header, decode_map_section, encode_section, scan
from amqp10.wire.types import Array, Symbol
from core.interface import Binding, ExchangeDeclaration, ExchangeType
from tests.kit.cases import case
from tests.kit.queue_types import for_each_queue_type
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message

HEADERS, ALTERNATE = "dead.headers", "dead.others"


def annotations_of(payload: bytes) -> dict[object, object]:
    bounds = scan(payload).message_annotations
    assert bounds is not None
    return decode_map_section(payload, *bounds)


def first_acquirer(payload: bytes) -> bool:
    bounds = scan(payload).header
    assert bounds is not None
    return decode_header(payload, *bounds).first_acquirer


def modify_and_reject(peer: WirePeer, handle: int, annotations: dict[str, object]) -> None:
    """Take the next message, give it back with annotations, take it again and reject it."""
    for state in (Modified(message_annotations=annotations), Rejected()):
        peer.grant(1, handle=handle)
        ((transfer, _),) = peer.deliveries()
        peer.dispose(transfer.delivery_id, state=state)


def with_headers_exchange(kind: str) -> InProcessBroker:
    """A queue q whose dead letters are routed by their annotation x-colour: red ones to "red", all others to
    "others"."""
    broker = InProcessBroker(durable=True)
    engine = broker.engine
    engine.declare_exchange(ExchangeDeclaration(name=ALTERNATE, type=ExchangeType.FANOUT, arguments={}))
    engine.declare_exchange(
        ExchangeDeclaration(name=HEADERS, type=ExchangeType.HEADERS, arguments={"alternate-exchange": ALTERNATE})
    )
    for name, source, arguments in (
        ("red", HEADERS, {"x-match": "all-with-x", "x-colour": "red"}),
        ("others", ALTERNATE, {}),
    ):
        broker.queue(name)
        engine.bind(
            Binding(source=source, destination=name, destination_is_queue=True, binding_key="", arguments=arguments),
            broker,
        )
    broker.queue("q", x_queue_type=kind, x_dead_letter_exchange=HEADERS)
    return broker


@for_each_queue_type
@pytest.mark.parametrize(("colour", "leads_to"), [("red", "red"), ("blue", "others")])
@case("amqp_client_SUITE", "modified_dead_letter_headers_exchange")
def test_what_was_added_decides_where_a_dead_letter_goes(colour: str, leads_to: str, kind: str):
    """modified_dead_letter_headers_exchange (amqp_client_SUITE)"""
    broker = with_headers_exchange(kind)
    broker.fill([b"m"])
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver("/queues/q", handle=1)
    modify_and_reject(peer, 1, {"x-colour": colour})
    peer.attach_receiver(f"/queues/{leads_to}", handle=2)
    peer.grant(1, handle=2)
    ((_, payload),) = peer.deliveries()
    assert (annotations_of(payload)[Symbol("x-colour")], body_of(payload)) == (colour, b"m")
    assert not first_acquirer(payload)


@for_each_queue_type
@case("amqp_client_SUITE", "modified_dead_letter_history")
def test_lists_maps_and_arrays_outlive_two_deaths(kind: str):
    """modified_dead_letter_history (amqp_client_SUITE): values of every AMQP type are kept, beside the annotations that
    were there."""
    broker = InProcessBroker(durable=True)
    for name, dead_letters in (("q1", "q2"), ("q2", "q3")):
        broker.queue(name, x_queue_type=kind, x_dead_letter_exchange="", x_dead_letter_routing_key=dead_letters)
    broker.queue("q3", x_queue_type=kind)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender("/queues/q1")
    own = encode_section(MESSAGE_ANNOTATIONS, {Symbol("x-own"): "stays"})
    peer.transfer(payload=own + data_message(b"m"))
    added: dict[object, object] = {Symbol("x-own"): "stays"}
    for handle, name in ((1, "q1"), (2, "q2")):
        step: dict[str, object] = {
            f"x-list-{name}": ["l1", "l2"],
            f"x-map-{name}": {"k1": "v1", Symbol("k2"): True},
            f"x-array-{name}": Array(code.STRING_8, ("a1", "a2")),
        }
        added |= {Symbol(key): value for key, value in step.items()}
        peer.frames.clear()
        peer.attach_receiver(f"/queues/{name}", handle=handle)
        modify_and_reject(peer, handle, step)
    peer.attach_receiver("/queues/q3", handle=3)
    peer.grant(1, handle=3)
    ((_, payload),) = peer.deliveries()
    told = annotations_of(payload)
    assert {key: told[key] for key in added} == added
    assert (told[Symbol("x-first-death-queue")], told[Symbol("x-last-death-queue")]) == ("q1", "q2")

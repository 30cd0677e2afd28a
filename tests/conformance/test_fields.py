"""Each field that a client of AMQP 1.0 may set: the broker does what it says, refuses it, or ignores it.

The marks are the rows of ``docs/protocol/fields.md``; ``tests/conformance/fields.py`` writes it. This module has open,
begin, attach and the termini; ``test_fields_of_frames.py`` has the frames after the attach.
"""

import pytest

from amqp10.wire.messaging import RELEASED, Coordinator, Modified, Source, Target
from amqp10.wire.performatives import Attach, Begin, Close, Detach, Flow, Open
from amqp10.wire.types import Array, Described, Symbol, ULong
from tests.conformance.fields import FILES, PAGE, ROOT, missing, render
from tests.kit.asking_client import AskingClient
from tests.kit.fates import does, ignores, refuses, rows
from tests.kit.wire import InProcessBroker, WirePeer, numbered

NOT_IMPLEMENTED, INVALID_FIELD = "amqp:not-implemented", "amqp:invalid-field"
OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
DELETE_ON_CLOSE = Described(ULong(0x2B), [])
FIRST = {"rabbitmq:stream-offset-spec": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}


# --- open ------------------------------------------------------------------------------------------------------------


def opened(**fields: object) -> tuple[WirePeer, Open]:
    """A client that has opened, and the broker's open."""
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    return peer, peer.open(**fields)


@does("open", "container-id", "names the client in rows and logs, and its dynamic nodes")
def test_the_container_id_names_dynamic_nodes():
    c = AskingClient(container_id="warehouse")
    answer = c.source(address=None, dynamic=True)
    assert answer is not None
    assert "warehouse" in str(answer.address)


@does("open", "hostname (vhost:…)", "selects the virtual host; one that does not exist: close, `amqp:not-found`")
def test_a_hostname_may_select_a_virtual_host():
    _, answer = opened(hostname="vhost:/")
    assert answer.container_id
    peer, _ = opened(hostname="vhost:other")
    assert peer.closed_with("amqp:not-found")


@ignores("open", "hostname (any other)", "names the machine; the virtual host is the default one [2.7.1]")
@ignores("open", "outgoing-locales, incoming-locales", "the answer has none, so texts are in en-US [2.7.1]")
@ignores(
    "open",
    "offered-capabilities, desired-capabilities",
    "the answer offers all that there is: `LINK_PAIR_V1_0`, `ANONYMOUS-RELAY`. Others, such as"
    " `sole-connection-for-container`, `SHARED-SUBS` and `DELAYED_DELIVERY`, are not offered [2.7.1]",
)
@ignores("open", "properties", "information about the client [2.7.1]")
def test_what_an_open_may_say_and_the_answer_shows():
    peer, answer = opened(
        hostname="broker.example",
        outgoing_locales=("de",),
        incoming_locales=("de",),
        offered_capabilities=("mine",),
        desired_capabilities=("sole-connection-for-container", "SHARED-SUBS", "DELAYED_DELIVERY"),
        properties={"sole-connection-enforcement-policy": ULong(1), "product": "x"},
    )
    assert (answer.outgoing_locales, answer.incoming_locales) == ((), ())
    assert answer.offered_capabilities == ("LINK_PAIR_V1_0", "ANONYMOUS-RELAY")
    assert not peer.take(Close)


@does("open", "max-frame-size", "no larger frame is sent; below 512: close, `amqp:connection:framing-error`")
def test_the_largest_frame_of_the_client():
    c = AskingClient(max_frame_size=512)
    c.broker.fill([b"x" * 1000])
    c.source()
    c.peer.grant(4)
    assert [transfer.more for transfer, _ in c.peer.deliveries()] == [False] * 3 + [True, True, False]
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    peer.send(Open(container_id="c", max_frame_size=511))
    assert peer.closed_with("amqp:connection:framing-error")


@does("open", "channel-max", "the broker uses no higher channel; a session beyond that: close")
def test_the_highest_channel_of_the_client():
    peer, _ = opened(channel_max=0)
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=5)
    assert [channel for channel, frame, _ in peer.frames if isinstance(frame, Begin)] == [0]
    peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=6)
    assert peer.closed_with("amqp:resource-limit-exceeded")


@does(
    "open",
    "idle-time-out",
    "an empty frame each half of it; below `amqp10.idle_time_out_min`: close, `amqp:not-allowed`",
)
def test_the_idle_time_out_of_the_client():
    peer, _ = opened(idle_time_out=1000)
    before = peer.front_end.connection.frames_sent
    peer.broker.advance(2.1)
    assert peer.front_end.connection.frames_sent == before + 4
    peer = WirePeer(InProcessBroker())
    peer.handshake()
    peer.send(Open(container_id="c", idle_time_out=99))
    assert peer.closed_with("amqp:not-allowed")


# --- begin -----------------------------------------------------------------------------------------------------------


@refuses("begin", "remote-channel", "would answer a begin of the broker, which sends none: close, `amqp:invalid-field`")
def test_a_begin_that_answers_none():
    peer, _ = opened()
    peer.send(Begin(remote_channel=3, next_outgoing_id=0, incoming_window=1, outgoing_window=1))
    assert peer.closed_with(INVALID_FIELD)


@does("begin", "next-outgoing-id", "the id of the first transfer")
@does("begin", "incoming-window", "the broker sends no more transfer frames")
@ignores("begin", "outgoing-window", "the broker's own window limits transfers; this one is only shown in rows")
@ignores("begin", "offered-capabilities, desired-capabilities", "the answer offers none [2.7.2]")
@ignores("begin", "properties", "information about the session [2.7.2]")
def test_what_a_begin_says():
    c = AskingClient()
    c.peer.send(
        Begin(
            next_outgoing_id=7,
            incoming_window=1,
            outgoing_window=0,
            offered_capabilities=("x",),
            desired_capabilities=("y",),
            properties={"z": 1},
        ),
        channel=1,
    )
    answer = c.peer.pick(Begin)
    assert (answer.offered_capabilities, answer.desired_capabilities) == ((), ())
    c.peer.attach_receiver(c.address, channel=1)
    given = {"next_incoming_id": 0, "incoming_window": 1, "next_outgoing_id": 7, "outgoing_window": 0}
    c.peer.send(Flow(**given, handle=1, delivery_count=0, link_credit=3), channel=1)  # type: ignore[arg-type]
    assert len(c.peer.bodies()) == 1
    c.peer.attach_sender(c.address, channel=1)
    c.peer.transfer(channel=1)
    c.peer.frames.clear()
    c.peer.flow(channel=1, echo=True)
    assert c.peer.pick(Flow).next_incoming_id == 8


@does("begin", "handle-max", "the broker uses no higher handle; if none is left: end, `amqp:resource-limit-exceeded`")
def test_the_highest_handle_of_the_client():
    c = AskingClient()
    c.peer.send(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1, handle_max=0), channel=1)
    assert c.peer.attach_sender(c.address, handle=9, channel=1).handle == 0
    c.peer.send(Attach(name="more", handle=8, role=True, source=Source(address=c.address)), channel=1)
    assert c.peer.ended_with("amqp:resource-limit-exceeded")


# --- attach ----------------------------------------------------------------------------------------------------------


@does(
    "attach", "name", "names the link; an earlier link of this name and direction is detached with `amqp:link:stolen`"
)
@does("attach", "handle", "a handle in use: end, `amqp:session:handle-in-use`; above the broker's handle-max: close")
@does("attach", "role", "says which end sends")
def test_names_and_handles():
    c = AskingClient()
    assert c.peer.attach_sender(c.address, name="one").role is True
    assert c.peer.attach_receiver(c.address, name="one").role is False
    assert not c.peer.take(Detach)
    c.peer.attach_sender(c.address, name="one", handle=5)
    assert c.peer.detached_with("amqp:link:stolen")
    c.peer.send(Attach(name="other", handle=5, role=True, source=Source(address=c.address)))
    assert c.peer.ended_with("amqp:session:handle-in-use")


@does("attach", "snd-settle-mode", "of a sender: respected; of a receiver: the answer has unsettled in place of mixed")
@does(
    "attach",
    "rcv-settle-mode",
    "first and second, in both directions; no difference if all deliveries are sent settled",
)
def test_settle_modes():
    c = AskingClient()
    mixed = c.peer.attach_receiver(c.address, snd_settle_mode=2, rcv_settle_mode=1)
    assert (mixed.snd_settle_mode, mixed.rcv_settle_mode) == (0, 1)
    settled = c.peer.attach_receiver(c.address, handle=2, snd_settle_mode=1, rcv_settle_mode=1)
    assert (settled.snd_settle_mode, settled.rcv_settle_mode) == (1, 1)
    sender = c.peer.attach_sender(c.address, handle=3, snd_settle_mode=1, rcv_settle_mode=1)
    assert (sender.snd_settle_mode, sender.rcv_settle_mode) == (1, 1)
    c.peer.transfer(handle=3, settled=False)
    assert c.peer.detached_with(INVALID_FIELD)


@refuses("attach", "unsettled, incomplete-unsettled", "deliveries are not resumed: `amqp:not-implemented`")
@pytest.mark.parametrize("fields", [{"unsettled": {b"t": None}}, {"incomplete_unsettled": True}])
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_nothing_is_resumed(role: str, fields: dict[str, object]):
    c = AskingClient()
    attach = c.peer.attach_sender if role == "sender" else c.peer.attach_receiver
    assert attach(c.address, **fields).source is None
    assert c.refused(NOT_IMPLEMENTED)


@does("attach", "initial-delivery-count", "of a sender; without it: `amqp:invalid-field`")
def test_the_initial_delivery_count_of_a_sender():
    c = AskingClient()
    c.peer.attach_sender(c.address, initial_delivery_count=2**32 - 1)
    assert c.peer.pick(Flow).delivery_count == 2**32 - 1
    c.peer.attach_sender(c.address, handle=5, initial_delivery_count=None)
    assert c.refused(INVALID_FIELD)


@does("attach", "max-message-size", "of a receiver: a larger message detaches the link and stays in the queue")
@ignores("attach", "max-message-size (of a sender)", "limits messages to the sender, and none are sent to it [2.7.3]")
def test_the_largest_message_of_a_receiver():
    c = AskingClient()
    c.broker.fill([b"x" * 100])
    assert c.peer.attach_receiver(c.address, max_message_size=100).max_message_size == 100
    c.peer.grant(4)
    assert c.peer.detached_with("amqp:link:message-size-exceeded")
    assert c.broker.ready() == 4
    c.peer.attach_sender(c.address, max_message_size=1)
    c.peer.transfer(b"larger than that")
    assert c.broker.ready() == 5


@ignores("attach", "offered-capabilities, desired-capabilities", "the answer offers none [2.7.3]")
@ignores("attach", "properties (any other)", "information about the link [2.7.3]")
def test_what_an_attach_may_say_and_the_answer_shows():
    c = AskingClient()
    fields = {"offered_capabilities": ("x",), "desired_capabilities": ("SHARED-SUBS",), "properties": {"mine": 1}}
    for answer in (c.peer.attach_sender(c.address, **fields), c.peer.attach_receiver(c.address, **fields)):
        assert (answer.offered_capabilities, answer.desired_capabilities) == ((), ())
        assert "mine" not in (answer.properties or {})


@does(
    "attach",
    "properties (rabbitmq:priority, priority)",
    "the priority of the consumer; no effect on a stream, which all consumers read",
)
@does("attach", "properties (rabbitmq:consumer-timeout)", "how long its deliveries may stay unsettled")
@does(
    "attach",
    "properties (headgate:max-unsettled-bytes)",
    "the most bytes that the consumer holds unsettled; the answer has what holds. Not a positive integer, or the link"
    " sends settled: `amqp:invalid-field`",
)
@does(
    "attach",
    "properties (paired)",
    "marks the two links of a pair to `/management`; without it there: `amqp:invalid-field`",
)
def test_properties_of_links():
    c = AskingClient()
    for handle, properties in ((2, {}), (3, {"rabbitmq:priority": 5, "rabbitmq:consumer-timeout": 1000})):
        c.peer.attach_receiver(c.broker.queue("p"), handle=handle, properties=properties)
        c.peer.grant(2, handle=handle)
    c.broker.fill(numbered(2), "p")
    assert [transfer.handle for transfer, _ in c.peer.deliveries()] == [3, 3]
    c.broker.advance(2)
    assert [transfer.handle for transfer, _ in c.peer.deliveries()] == [2, 2]
    c.peer.attach_receiver(c.address, handle=4, properties={"priority": "high"})
    assert c.peer.detached_with(INVALID_FIELD)
    c.peer.attach_receiver(c.address, handle=5, properties={"rabbitmq:consumer-timeout": 0})
    assert c.peer.detached_with(INVALID_FIELD)
    bytes_held = {"headgate:max-unsettled-bytes": 1}
    answer = c.peer.attach_receiver(c.address, handle=8, properties=bytes_held)
    assert (answer.properties or {})["headgate:max-unsettled-bytes"] == ULong(1)
    c.broker.fill(numbered(2))
    c.peer.grant(2, handle=8)
    assert [transfer.handle for transfer, _ in c.peer.deliveries()] == [8]
    c.peer.attach_receiver(c.address, handle=9, properties={"headgate:max-unsettled-bytes": 0})
    assert c.peer.detached_with(INVALID_FIELD)
    c.peer.attach_receiver(c.address, handle=10, properties=bytes_held, snd_settle_mode=1)
    assert c.peer.detached_with(INVALID_FIELD)
    assert c.peer.attach_sender("/management", handle=6).target is None
    assert c.peer.detached_with(INVALID_FIELD)
    answer = c.peer.attach_sender("/management", handle=7, properties={"paired": True})
    assert answer.properties == {"paired": True}


@does("attach", "source, target", "see below; null where the broker needs an address: `amqp:invalid-field`")
def test_a_terminus_that_is_null():
    c = AskingClient()
    assert c.peer.attach_receiver(c.address, source=None).source is None
    assert c.refused(INVALID_FIELD)
    assert c.peer.attach_sender(c.address, handle=6, target=None).target is None
    assert c.refused(INVALID_FIELD)


# --- source ----------------------------------------------------------------------------------------------------------


@does(
    "source", "address", "`/queues/:queue`; another form or type: `amqp:invalid-field`; no such queue: `amqp:not-found`"
)
def test_the_address_of_a_source():
    c = AskingClient()
    for address, condition in (("q", INVALID_FIELD), (7, INVALID_FIELD), ("/queues/none", "amqp:not-found")):
        assert c.source(address=address) is None
        assert c.refused(condition)
        c.peer.detach(1)


@ignores("source", "durable, expiry-policy, timeout", "in the answer: a terminus lives as long as its link [3.5.3]")
@ignores("source", "default-outcome", "in the answer: released [3.5.3]")
@does("source", "outcomes", "all four of the specification may be used, and are in the answer")
@ignores("source", "dynamic-node-properties (not dynamic)", "not in the answer [3.5.3]")
@does("source", "capabilities (queue)", "in the answer")
@ignores("source", "capabilities (any other)", "not in the answer [3.5.3]")
def test_the_answer_says_what_is_in_force():
    c = AskingClient()
    assert c.source(
        durable=2,
        expiry_policy="never",
        timeout=60,
        default_outcome=Modified(delivery_failed=True),
        outcomes=OUTCOMES[:1],
        dynamic_node_properties={"lifetime-policy": DELETE_ON_CLOSE},
        capabilities=("queue", "rabbitmq:volatile-queue", "create-on-demand"),
    ) == Source(
        address=c.address,
        distribution_mode="move",
        default_outcome=RELEASED,
        outcomes=OUTCOMES,
        capabilities=("queue",),
    )


@refuses("source", "outcomes (unknown)", "`amqp:not-implemented`")
def test_an_unknown_outcome():
    c = AskingClient()
    assert c.source(outcomes=("amqp:declared:list",)) is None
    assert c.refused(NOT_IMPLEMENTED)


@does(
    "source",
    "dynamic",
    "a queue of this connection, which is deleted with the link; with an address: `amqp:invalid-field`",
)
@does("source", "dynamic-node-properties (lifetime-policy delete-on-close)", "always in the answer")
@ignores("source", "dynamic-node-properties (any other)", "not in the answer [3.5.3]")
@does("source", "capabilities (temporary-queue)", "in the answer")
def test_a_dynamic_source():
    c = AskingClient()
    for asked in (None, {}, {"lifetime-policy": DELETE_ON_CLOSE, "supported-dist-modes": Symbol("move"), "mine": 1}):
        answer = c.source(
            address=None, dynamic=True, dynamic_node_properties=asked, capabilities=("temporary-queue", "x")
        )
        assert answer is not None
        assert answer.dynamic_node_properties == {"lifetime-policy": DELETE_ON_CLOSE}
        assert (answer.expiry_policy, answer.capabilities) == ("link-detach", ("temporary-queue",))
        c.peer.detach(1)
    c.peer.frames.clear()
    assert c.source(dynamic=True) is None
    assert c.refused(INVALID_FIELD)


NODES = [
    ({"lifetime-policy": Described(ULong(0x2C), [])}, NOT_IMPLEMENTED),
    ({"lifetime-policy": Described(ULong(0x2D), [])}, NOT_IMPLEMENTED),
    ({"lifetime-policy": Described(Symbol("amqp:delete-on-no-links-or-messages:list"), [])}, NOT_IMPLEMENTED),
    ({"lifetime-policy": Described(ULong(0x2F), [])}, INVALID_FIELD),
    ({"lifetime-policy": Described(ULong(0x2B), ["more"])}, INVALID_FIELD),
    ({"lifetime-policy": Described("amqp:delete-on-close:list", [])}, INVALID_FIELD),
    ({"lifetime-policy": Symbol("amqp:delete-on-close:list")}, INVALID_FIELD),
    ({"lifetime-policy": "delete-on-close"}, INVALID_FIELD),
    ({"supported-dist-modes": Symbol("copy")}, NOT_IMPLEMENTED),
    ({"supported-dist-modes": Array(0xA3, (Symbol("copy"),))}, NOT_IMPLEMENTED),
    ({"supported-dist-modes": "move"}, INVALID_FIELD),
]


@refuses(
    "source",
    "dynamic-node-properties (lifetime-policy: another one)",
    "`amqp:not-implemented`; of a wrong type: `amqp:invalid-field`",
)
@refuses("source", "dynamic-node-properties (supported-dist-modes without move)", "`amqp:not-implemented`")
@refuses("target", "dynamic-node-properties (lifetime-policy, supported-dist-modes)", "as for a source")
@pytest.mark.parametrize(("properties", "condition"), NODES)
@pytest.mark.parametrize("terminus", ["source", "target"])
def test_a_dynamic_node_that_is_no_queue(terminus: str, properties: dict[str, object], condition: str):
    c = AskingClient()
    asked = {"address": None, "dynamic": True, "dynamic_node_properties": properties}
    assert (c.source(**asked) if terminus == "source" else c.target(**asked)) is None
    assert c.refused(condition)
    assert [row["name"] for row in c.broker.engine.snapshot("queues")] == ["q"]


@refuses("source", "capabilities (temporary-topic, or topic of a dynamic one)", "`amqp:not-implemented`")
@refuses("target", "capabilities (temporary-topic, or topic of a dynamic one)", "`amqp:not-implemented`")
@pytest.mark.parametrize("capability", ["temporary-topic", "topic"])
@pytest.mark.parametrize("terminus", ["source", "target"])
def test_a_temporary_topic(terminus: str, capability: str):
    c = AskingClient()
    asked = {"address": None, "dynamic": True, "capabilities": (capability,)}
    assert (c.source(**asked) if terminus == "source" else c.target(**asked)) is None
    assert c.refused(NOT_IMPLEMENTED)


@refuses("source", "distribution-mode (copy, of a queue)", "browsing: `amqp:not-implemented`")
def test_a_queue_is_not_browsed():
    c = AskingClient()
    answer = c.peer.attach_receiver(
        c.address, source=Source(address=c.address, distribution_mode="copy"), snd_settle_mode=1
    )
    assert answer.source is None
    assert c.refused(NOT_IMPLEMENTED)


@refuses("source", "distribution-mode (move, of a stream or /flow/self)", "`amqp:not-implemented`")
@refuses("source", "distribution-mode (neither)", "`amqp:invalid-field`")
@does("source", "distribution-mode", "a queue moves, a stream copies; the answer has the mode")
def test_distribution_modes():
    c = AskingClient(durable=True)
    stream = c.stream()
    for address, asked, answered in ((c.address, "move", "move"), (stream, "copy", "copy"), (stream, None, "copy")):
        answer = c.source(address=address, distribution_mode=asked)
        assert answer is not None
        assert answer.distribution_mode == answered
        c.peer.detach(1)
    c.peer.frames.clear()
    for address, asked, condition in (
        (stream, "move", NOT_IMPLEMENTED),
        ("/flow/self", "move", NOT_IMPLEMENTED),
        (c.address, "share", INVALID_FIELD),
    ):
        assert c.source(address=address, distribution_mode=asked) is None
        assert c.refused(condition)
        c.peer.detach(1)


@does(
    "source",
    "capabilities (topic, of a queue)",
    "the subscriber of a topic has all messages: it is the queue's only consumer, or gets `amqp:resource-locked`."
    " It may say distribution-mode copy, and is answered move",
)
@ignores(
    "source", "capabilities (topic with shared)", "an ordinary consumer among others; `topic` is not in the answer"
)
def test_the_subscriber_of_a_topic():
    c = AskingClient(durable=True)
    durable = {"durable": 2, "expiry_policy": "never", "distribution_mode": "copy"}
    answer = c.source(**durable, capabilities=("topic",))
    assert answer is not None
    assert (answer.distribution_mode, answer.capabilities) == ("move", ("topic",))
    for capabilities in (("topic",), ("topic", "shared"), ()):
        other = Source(address=c.address, capabilities=capabilities)
        assert c.peer.attach_receiver(c.address, handle=2, source=other).source is None
        assert c.refused("amqp:resource-locked")
        c.peer.detach(2)
    c.peer.detach(1)
    for handle in (1, 2):
        shared = Source(address=c.address, capabilities=("topic", "shared"))
        assert c.peer.attach_receiver(c.address, handle=handle, source=shared).source.capabilities == ()
    stream = c.stream()
    for handle in (3, 4):
        reader = Source(address=stream, capabilities=("topic",))
        assert c.peer.attach_receiver(stream, handle=handle, source=reader).source.capabilities == ("topic",)


@does(
    "source",
    "filter (rabbitmq:stream-offset-spec, rabbitmq:stream-filter, rabbitmq:stream-match-unfiltered, of a stream)",
    "in the answer; an invalid value: `amqp:invalid-field`",
)
@ignores(
    "source",
    "filter (rabbitmq:stream-offset-spec, rabbitmq:stream-match-unfiltered, of a queue)",
    "has no effect; not in the answer [3.5.3]",
)
def test_filters_of_streams():
    c = AskingClient(durable=True)
    address = c.stream()
    answer = c.source(address=address, filter=FIRST)
    assert answer is not None
    assert answer.filter == FIRST
    c.peer.detach(1)
    answer = c.source(filter=FIRST)
    assert answer is not None
    assert answer.filter is None


SELECTOR = Described(Symbol("apache.org:selector-filter:string"), "color = 'red'")
FILTERS = [
    {"jms-selector": SELECTOR},
    {"jms-selector": Described(ULong(0x468C00000004), "color = 'red'")},
    {"no-local": Described(ULong(0x468C00000003), [])},
    {"f": Described(Symbol("amqp:sql-filter"), "color = 'red'")},
    {"f": Described(Symbol("of:some-one"), 1)},
]


@refuses("source", "filter (any other, such as a JMS selector)", "`amqp:not-implemented`; a null filter counts as none")
@pytest.mark.parametrize("given", [*FILTERS, {"f": Described(Symbol("rabbitmq:stream-filter"), "red")}])
def test_a_filter_that_a_queue_does_not_have(given: dict[str, object]):
    c = AskingClient()
    for address in (c.address, "/management", "/flow/self"):
        source = Source(address=address, filter=given)
        assert c.peer.attach_receiver(address, source=source, properties={"paired": True}).source is None
        assert c.refused(NOT_IMPLEMENTED)
        c.peer.detach(1)
    assert c.source(filter=dict.fromkeys(given)) is not None


@refuses("source", "filter (any other, of a stream)", "`amqp:not-implemented`")
@pytest.mark.parametrize("given", FILTERS)
def test_a_filter_that_a_stream_does_not_have(given: dict[str, object]):
    c = AskingClient(durable=True)
    assert c.source(address=c.stream(), filter=FIRST | given) is None
    assert c.refused(NOT_IMPLEMENTED)


@ignores(
    "source",
    "address (of the client's own source, on a link that it publishes on)",
    "the client's own; unchanged in the answer",
)
@does(
    "source",
    "outcomes (of the client's own source)",
    "without rejected, a message that cannot be routed detaches the link",
)
def test_the_clients_own_source():
    c = AskingClient()
    own = Source(address=7, outcomes=OUTCOMES[:1])
    assert c.peer.attach_sender(None, source=own).source == own
    c.peer.transfer()
    assert c.peer.detached_with("amqp:precondition-failed")


# --- target ----------------------------------------------------------------------------------------------------------


@does(
    "target",
    "address",
    "`/queues/:queue`, `/exchanges/:exchange/:key`, or null for the anonymous terminus; another form or type:"
    " `amqp:invalid-field`",
)
@ignores("target", "durable, expiry-policy, timeout", "in the answer: a terminus lives as long as its link [3.5.4]")
@ignores("target", "dynamic-node-properties (not dynamic)", "not in the answer [3.5.4]")
@does("target", "capabilities (queue, of a queue; topic, of an exchange; temporary-queue)", "in the answer")
@ignores("target", "capabilities (any other)", "not in the answer [3.5.4]")
def test_targets():
    c = AskingClient()
    wanted = ("queue", "topic", "temporary-queue", "x")
    kept: dict[str, object] = {"durable": 2, "expiry_policy": "never", "timeout": 60, "capabilities": wanted}
    node = {"lifetime-policy": DELETE_ON_CLOSE}
    exchange = "/exchanges/amq.topic/key"
    for address, held in ((c.address, ("queue",)), (exchange, ("topic",)), (None, ())):
        answer = c.target(address=address, dynamic_node_properties=node, **kept)
        assert answer == Target(address=address, capabilities=held)
        c.peer.detach(0)
    answer = c.target(address=None, dynamic=True, capabilities=("queue", "temporary-queue", "x"))
    assert answer is not None
    assert answer.capabilities == ("queue", "temporary-queue")
    c.peer.detach(0)
    c.peer.frames.clear()
    for address in ("q", 7):
        assert c.target(address=address) is None
        assert c.refused(INVALID_FIELD)
        c.peer.detach(0)


@does("target", "dynamic", "as for a source")
@does("target", "dynamic-node-properties (lifetime-policy delete-on-close)", "always in the answer")
def test_a_dynamic_target():
    c = AskingClient()
    answer = c.target(address=None, dynamic=True, dynamic_node_properties={"lifetime-policy": DELETE_ON_CLOSE})
    assert answer is not None
    assert answer.dynamic_node_properties == {"lifetime-policy": DELETE_ON_CLOSE}


@refuses("coordinator", "capabilities", "there are no transactions: `amqp:not-implemented`")
def test_there_is_no_coordinator():
    c = AskingClient()
    c.peer.attach_sender(None, target=Coordinator(capabilities=("amqp:local-transactions",)))
    assert c.refused(NOT_IMPLEMENTED)


# --- the table -------------------------------------------------------------------------------------------------------


def test_every_field_has_a_row():
    assert list(missing(rows(ROOT, FILES))) == []


def test_the_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == render(rows(ROOT, FILES)), "run: python -m tests.conformance.fields"

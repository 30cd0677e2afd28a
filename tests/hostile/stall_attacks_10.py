"""Attacks on the event loop with AMQP 1.0: sessions, links, link credit, dispositions, management, streams."""

import time
from collections.abc import Callable

from amqp10.wire.framing import FRAME_HEADER_BYTES
from amqp10.wire.messaging import ACCEPTED, Modified
from amqp10.wire.performatives import Begin, Detach, Disposition, End, Flow, decode_performative
from amqp10.wire.sections import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    Properties,
    encode_properties,
    encode_section,
)
from amqp10.wire.types import Symbol
from core.amqp091.methods import BasicConsume, BasicDeliver, BasicQos, QueueDeclare
from core.amqp091.properties import BasicProperties
from tests.kit.attacked_server import opening_as
from tests.kit.plain_clients import (
    ATTACH,
    BEGIN,
    DETACH,
    END,
    FLOW,
    TRANSFER,
    WIDE,
    Client10,
    grant,
    message_transfers,
    performative,
    receiver,
    sender,
)
from tests.kit.stall_field import Attack, Field, bind, check, declare, exchange, fill, settle_up
from tests.kit.wire import data_message

WITHDRAWN_SECONDS_MAX = 1.0
"""The time that is promised for a change of rights to take hold on open links."""
SESSIONS = 17
LINKS = 256
BEGIN_WIDE = Begin(next_outgoing_id=0, incoming_window=WIDE, outgoing_window=WIDE)


def dynamic_nodes(field: Field) -> None:
    """4,352 dynamic nodes on one connection, which closes."""
    links = field.n(LINKS)
    client = field.client10(sessions=SESSIONS)
    for channel in range(SESSIONS):
        client.send(b"".join(receiver(None, handle, channel=channel, dynamic=True) for handle in range(links)))
    client.wait(ATTACH, SESSIONS * links)
    client.close()
    other = field.client10()
    other.send(receiver(None, dynamic=True))
    other.wait(ATTACH, 1)
    time.sleep(1.0)


def dynamic_nodes_ended(field: Field) -> None:
    """4,352 dynamic nodes whose sessions end one by one."""
    links = field.n(LINKS)
    client = field.client10(sessions=SESSIONS)
    for channel in range(SESSIONS):
        client.send(b"".join(receiver(None, handle, channel=channel, dynamic=True) for handle in range(links)))
    client.wait(ATTACH, SESSIONS * links)
    client.send(b"".join(performative(End(), channel=channel) for channel in range(SESSIONS)))
    client.wait(0x17, SESSIONS)


def _take(field: Field, count: int, **arguments: object) -> Client10:
    publisher = field.client091()
    declare(publisher, "q", **arguments)
    fill(publisher, "q", count)
    client = field.client10()
    client.send(receiver("/queues/q") + grant(2**31 - 1))
    client.wait(TRANSFER, count)
    return client


def settle_range(field: Field) -> None:
    """100,000 unsettled deliveries are settled by one disposition."""
    count = field.n(100_000)
    client = _take(field, count)
    client.send(performative(Disposition(role=True, first=0, last=count - 1, settled=True, state=ACCEPTED)))
    settle_up(field.client091(), queue="q")


def modify_range(field: Field) -> None:
    """50,000 unsettled deliveries are returned as undeliverable here, every second one first."""
    count = field.n(50_000)
    client = _take(field, count)
    state = Modified(delivery_failed=True, undeliverable_here=True)
    frames = [
        performative(Disposition(role=True, first=number, last=number, settled=True, state=state))
        for number in range(0, count, 2)
    ]
    client.send(b"".join(frames))
    client.send(performative(Disposition(role=True, first=0, last=count - 1, settled=True, state=state)))
    settle_up(field.client091(), queue="q")


def detach_unsettled(field: Field) -> None:
    """A link with 100,000 unsettled deliveries is detached."""
    client = _take(field, field.n(100_000))
    client.send(performative(Detach(handle=1, closed=True)))
    client.wait(DETACH, 1)
    taker = field.client091()
    taker.consume("q")
    taker.wait(BasicDeliver, field.n(100_000))


def drain_storm(field: Field) -> None:
    """20,000 flows with drain on 256 links."""
    declare(field.client091(), "q")
    client = field.client10()
    links = field.n(LINKS)
    client.send(b"".join(receiver("/queues/q", handle) for handle in range(links)))
    client.wait(ATTACH, links)
    rounds = max(1, field.n(20_000) // links)
    for _ in range(rounds):
        client.send(b"".join(grant(100, handle, drain=True) for handle in range(links)))
    client.send(performative(End()))
    client.wait(0x17, 1)


def session_storm(field: Field) -> None:
    """10,000 sessions, begun and ended."""
    client = field.client10()
    pair = performative(BEGIN_WIDE, channel=1) + performative(End(), channel=1)
    count = field.n(10_000)
    client.send(pair * count)
    client.wait(BEGIN, count + 1)


def link_storm(field: Field) -> None:
    """10,000 links of each kind, attached and detached."""
    declare(field.client091(), "q")
    client = field.client10()
    count = field.n(10_000)
    pair = (
        sender("/queues/q")
        + receiver("/queues/q")
        + performative(Detach(handle=0, closed=True))
        + performative(Detach(handle=1, closed=True))
    )
    client.send(pair * count)
    client.wait(DETACH, 2 * count)


def session_of_links_ends(field: Field) -> None:
    """4,352 links of one queue; then the connection closes."""
    declare(field.client091(), "q")
    links = field.n(LINKS)
    client = field.client10(sessions=SESSIONS)
    for channel in range(SESSIONS):
        attaches = [receiver("/queues/q", handle, channel=channel) for handle in range(links)]
        flows = [grant(10, handle, channel=channel) for handle in range(links)]
        client.send(b"".join(attaches + flows))
    client.wait(ATTACH, SESSIONS * links)
    client.close()
    settle_up(field.client091(), queue="q")


def rights_withdrawn(field: Field) -> None:
    """10,000 links of a user, as many for publishing as for consuming, on four connections. Then the user's rights to
    write and read are taken away. All links are detached within a second, each with the name of the missing right."""
    connections, sessions, links = 4, 10, field.n(250)
    declare(field.client091(), "q")
    field.http("PUT", "/api/users/alice", {"password": "wonderland", "tags": ""})
    allowed = dict.fromkeys(("configure", "write", "read"), "^(q|amq[.]default)$")
    field.http("PUT", "/api/permissions/%2F/alice", allowed)
    wrong: list[bytes] = []
    before_open = opening_as("alice", "wonderland")
    clients = [
        Client10(
            field.host, field.port, sessions=sessions, before_open=before_open, on_frame=_unlike_a_withdrawal(wrong)
        )
        for _ in range(connections)
    ]
    field.clients += clients
    for client in clients:
        for channel in range(sessions):
            attaches = [
                (receiver if handle % 2 else sender)("/queues/q", handle, channel=channel) for handle in range(links)
            ]
            flows = [grant(10, handle, channel=channel) for handle in range(1, links, 2)]
            client.send(b"".join(attaches + flows))
    for client in clients:
        client.wait(ATTACH, sessions * links)
    check(not any(client.came(DETACH) for client in clients), "a link was refused at once")
    began = time.monotonic()
    field.http("PUT", "/api/permissions/%2F/alice", {**allowed, "write": "", "read": ""})
    for client in clients:
        client.wait(DETACH, sessions * links)
    took = time.monotonic() - began
    count = connections * sessions * links
    field.said.append(f"{count} links were gone after {took * 1000:.0f} ms")
    check(not wrong, f"{len(wrong)} links were detached with something else, such as {wrong[:1]!r}")
    check(took <= WITHDRAWN_SECONDS_MAX, f"{count} links were gone only after {took:.2f} s")


def _unlike_a_withdrawal(wrong: list[bytes]) -> Callable[[int, bytes], None]:
    """Collects the detach frames that do not name the missing right."""

    def on_frame(code: int, frame: bytes) -> None:
        if code == DETACH and not (
            b"amqp:unauthorized-access" in frame and (b"read access to " in frame or b"write access to " in frame)
        ):
            wrong.append(frame)

    return on_frame


def why_many_links(field: Field) -> None:
    """4,352 links that wait. An operator asks why one waits, and then why each waits."""
    publisher = field.client091()
    declare(publisher, "q")
    fill(publisher, "q", 100)
    links = field.n(LINKS)
    client = field.client10(sessions=SESSIONS)
    for channel in range(SESSIONS):
        client.send(b"".join(receiver("/queues/q", handle, channel=channel) for handle in range(links)))
    client.wait(ATTACH, SESSIONS * links)
    for path in (
        "why/addresses/q",
        "links",
        "links?limit=1000",
        "stalls",
        "flow-map",
        "sessions",
    ):
        field.http("GET", f"/api/headgate/{path}")
    field.http("GET", "/metrics/links")
    field.http("GET", "/metrics")


def _publish(field: Field, address: str | None, messages: list[bytes]) -> None:
    """Send messages as fast as the broker gives link credit, and end the session behind them."""
    limits = [0]

    def on_frame(code: int, frame: bytes) -> None:
        flow = decode_performative(frame, FRAME_HEADER_BYTES, len(frame))[0] if code == FLOW else None
        if isinstance(flow, Flow) and flow.link_credit is not None:
            limits.append((flow.delivery_count or 0) + flow.link_credit)

    client = Client10(field.host, field.port, on_frame=on_frame)
    field.clients.append(client)
    client.send(sender(address))
    sent = 0
    while sent < len(messages):
        flows = client.came(FLOW)
        end = min(len(messages), max(limits))
        if end > sent:
            client.send(message_transfers(messages[sent:end], first=sent))
            sent = end
        else:
            client.wait(FLOW, flows + 1)
    client.send(performative(End()))
    client.wait(END, 1)


def publish_unlike(field: Field) -> None:
    """50,000 transfers of a hundred different sizes to an exchange without bindings."""
    messages = [data_message(b"x" * (1 + number % 100)) for number in range(field.n(50_000))]
    _publish(field, "/exchanges/amq.topic/key", messages)


def anonymous_to_topic_patterns(field: Field) -> None:
    """1,000 bindings of many '#' and '*', and 400 messages of the anonymous terminus, each to another routing key of
    about 120 words."""
    client = field.client091()
    exchange(client, "t", "topic")
    declare(client, "q", max_length=10)
    for number in range(field.n(1000)):
        words = ["#" if index % 2 else ("*" if (number >> index % 10) & 1 else "a") for index in range(60)]
        client.tell(bind("q", "t", ".".join([*words, str(number)])[:255]))
    settle_up(client, queue="q")
    keys = (".".join(["a"] * 120)[:235] + str(number) for number in range(field.n(400)))
    _publish(
        field, None, [encode_properties(Properties(to=f"/exchanges/t/{key}")) + data_message(b"x") for key in keys]
    )


def _headers_any(field: Field) -> None:
    """1,000 bindings with x-match any, all with 49 headers that every message has with another value."""
    client = field.client091()
    exchange(client, "h", "headers")
    declare(client, "q", max_length=10)
    for number in range(field.n(1000)):
        wanted = {f"header-{index:02}": f"{number}" for index in range(48)}
        client.tell(bind("q", "h", str(number), {**wanted, "header-48": "value", "x-match": "any"}))
    settle_up(client, queue="q")


def _with_headers(number: int) -> bytes:
    headers = {f"header-{index:02}": f"{number % 1000}" for index in range(48)} | {"header-48": "value"}
    return encode_section(APPLICATION_PROPERTIES, headers) + data_message(b"x")


def anonymous_to_headers_exchange(field: Field) -> None:
    """1,000 messages of the anonymous terminus to a headers exchange with 1,000 bindings, which all match."""
    _headers_any(field)
    to = encode_properties(Properties(to="/exchanges/h/key"))
    _publish(field, None, [to + _with_headers(number) for number in range(field.n(1000))])


def publish_to_headers_exchange(field: Field) -> None:
    """1,000 messages on a link to a headers exchange with 1,000 bindings, which all match."""
    _headers_any(field)
    _publish(field, "/exchanges/h/key", [_with_headers(number) for number in range(field.n(1000))])


def large_annotations(field: Field) -> None:
    """400 messages with 60 KiB of message annotations and as much of properties, which are decoded."""
    declare(field.client091(), "q", max_length=10)
    annotations = encode_section(MESSAGE_ANNOTATIONS, {Symbol(f"x-{number}"): number for number in range(3800)})
    properties = encode_properties(Properties(subject="ä" * 30_000))
    _publish(field, "/queues/q", [annotations + properties + data_message(b"x")] * field.n(400))


def stream_by_timestamp(field: Field) -> None:
    """Readers of a stream of 200,000 messages. Each begins at a timestamp, or has a filter that no message passes."""
    publisher = field.client091()
    publisher.call(QueueDeclare(queue="s", durable=True, arguments={"x-queue-type": "stream"}))
    fill(publisher, "s", field.n(200_000), properties=BasicProperties(delivery_mode=2))
    for number in range(30):
        taker = field.client091()
        taker.call(BasicQos(prefetch_count=100))
        offset = "first" if number % 2 else 1
        taker.tell(BasicConsume(queue="s", arguments={"x-stream-offset": offset, "x-stream-filter": "none"}))
    time.sleep(2.0)
    settle_up(publisher, queue="s")


ATTACKS = [
    Attack("4,352 dynamic nodes", dynamic_nodes),
    Attack("4,352 dynamic nodes, sessions end", dynamic_nodes_ended),
    Attack("disposition of 100,000", settle_range),
    Attack("modified, 50,000", modify_range),
    Attack("detach with 100,000 unsettled", detach_unsettled),
    Attack("20,000 drains", drain_storm),
    Attack("10,000 sessions", session_storm),
    Attack("20,000 links", link_storm),
    Attack("4,352 links go", session_of_links_ends),
    Attack("rights withdrawn from 10,000 links", rights_withdrawn),
    Attack("why over 4,352 links", why_many_links),
    Attack("50,000 transfers", publish_unlike),
    Attack("anonymous terminus, topic patterns", anonymous_to_topic_patterns),
    Attack("anonymous terminus, headers exchange", anonymous_to_headers_exchange),
    Attack("transfers to a headers exchange", publish_to_headers_exchange),
    Attack("transfers with large annotations", large_annotations),
    Attack("30 readers of a long stream", stream_by_timestamp),
]

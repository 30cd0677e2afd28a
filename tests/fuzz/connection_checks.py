"""What fuzzing demands of a whole connection, from its frames to the engine and back.

An input is a script of records, each ``kind, length, body``: a frame whose header is right and whose body is the
fuzzer's, bytes that are no frame, or an event around the peer. The attacker is open, has a session, a link each way, a
management pair, and link credit, so that mutated scripts reach much of the code.

For every script the following holds. No call raises. The broker comes to rest. The peer gets whole frames that it can
take, and none after a close. The bystander is not disturbed. When the attacker has gone, nothing that it made is left,
and every message that was taken on is in its place.
"""

import random
from collections.abc import Iterator

from amqp10.wire.messaging import ACCEPTED, RELEASED, Modified, Rejected, Source, Target
from amqp10.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    encode_performative,
)
from core.engine.broker import Broker
from tests.kit.hostile import Arena, composite, frame, map_of_pairs, nested_lists, zero_width_array
from tests.kit.link_pair import LinkPair
from tests.kit.management import encode_request
from tests.kit.wire import WirePeer, data_message

FRAME, RAW, HAPPENING = 0, 2, 3
"""Kinds of records, in the low two bits; 1 is a frame, too. In a frame the other bits are its channel."""
CHANNELS = 3
MAX_FRAME_SIZE = 2048
"""The largest frame that the attacker takes."""
SCRIPT_RECORDS_MAX = 200
TICK_SECONDS = 0.05
TICKS_MAX = 5
"""The most time that a record lets pass, so that a whole script takes less than the bystander's idle time-out."""


def check(data: bytes) -> None:
    """Run one script. Raises AssertionError, or the error of a call that must not raise."""
    arena = Arena()
    peer = arena.attacker(max_frame_size=MAX_FRAME_SIZE)
    peer.attach_sender(arena.address)
    peer.attach_receiver(arena.address)
    LinkPair(peer).attach().grant(100)
    peer.grant(5)
    for kind, body in records(data):
        if kind & 3 == HAPPENING:
            happen(arena, peer, body)
        elif kind & 3 == RAW:
            peer.send_bytes(body)
        else:
            peer.send_bytes(frame(body, channel=(kind >> 2) % CHANNELS))
        if peer.lost:
            break
    check_output(peer)
    arena.broker.clear_alarm()
    if arena.broker.engine.snapshot("queues", "q"):
        arena.broker.recover()
    arena.bystander.round()
    peer.disconnect()
    arena.bystander.round()
    check_what_is_left(arena.broker.engine)


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The records of a script. A length that is too large means the rest."""
    position = 0
    for _ in range(SCRIPT_RECORDS_MAX):
        if position + 3 > len(data):
            return
        end = position + 3 + int.from_bytes(data[position + 1 : position + 3])
        yield data[position], data[position + 3 : end]
        position = end


def happen(arena: Arena, peer: WirePeer, what: bytes) -> None:
    """Let an event happen that the attacker does not cause."""
    broker = arena.broker
    match what[:1]:
        case b"t":
            broker.advance(min(len(what), TICKS_MAX) * TICK_SECONDS)
        case b"a":
            broker.raise_alarm()
        case b"c":
            broker.clear_alarm()
        case b"f":
            peer.stop_reading(writes=1)
        case b"r":
            peer.go_on_reading()
        case b"s" if broker.engine.snapshot("queues", "q"):
            broker.stall()
        case b"u" if broker.engine.snapshot("queues", "q"):
            broker.recover()
        case b"d":
            broker.engine.delete_queue("q", broker)
            broker.run()
        case b"p" if broker.engine.snapshot("queues", "q"):
            broker.fill([b"more"] * min(len(what), 50))
        case b"x":
            peer.front_end.shut_down("enough", broker.now)
            broker.touch(peer)
            broker.run()


def check_output(peer: WirePeer) -> None:
    """Check that every frame came whole, and that none followed a close."""
    kinds = [type(performative) for _, performative, _ in peer.frames]
    assert Close not in kinds[:-1]
    if peer._writes_left is None:
        assert len(peer._buffer) == 0, "half a frame"


def check_what_is_left(engine: Broker) -> None:
    """Check that links and dynamic nodes are gone, and that no message is lost."""
    assert len(engine.snapshot("publishers")) == len(engine.snapshot("consumers")) == 1
    assert not [row for row in engine.snapshot("queues") if str(row["name"]).startswith("amq.dyn")]
    for queue in engine._queues.values():
        counters = queue.counters
        gone = counters.accepted + counters.rejected + counters.purged
        assert queue.unacknowledged == 0
        assert counters.published - gone == queue.ready


# --- the scripts it starts from --------------------------------------------------------------------------------------


def record(kind: int, body: bytes) -> bytes:
    """One record of a script."""
    return bytes([kind]) + len(body).to_bytes(2) + body


def said(performative: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    """A frame as a record."""
    return record(FRAME | channel << 2, encode_performative(performative) + payload)


def happening(what: bytes) -> bytes:
    """An event as a record."""
    return record(HAPPENING, what)


def flow(**fields: object) -> Flow:
    """A flow of the attacker's session at the start of a script, when a few messages have come."""
    given = {"next_incoming_id": 5, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
    return Flow(**(given | fields))  # type: ignore[arg-type]


def transfer(number: int, **fields: object) -> Transfer:
    """A transfer on the attacker's publishing link."""
    return Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number, **fields)  # type: ignore[arg-type]


def seeds() -> list[bytes]:
    """Valid scripts that use every performative."""
    queue = "/queues/q"
    message = data_message(b"body")
    long = data_message(bytes(5000))
    begin = Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10)
    receiver = Attach(name="more", handle=3, role=True, source=Source(address=queue), target=Target())
    sender = Attach(name="less", handle=4, source=Source(), target=Target(), initial_delivery_count=0, role=False)
    dynamic = Attach(name="own", handle=5, role=True, source=Source(dynamic=True), target=Target())
    second = Attach(name="two", handle=6, role=True, rcv_settle_mode=1, source=Source(address=queue), target=Target())
    sections = composite(0x70, b"\x41", b"\x50\x09") + b"\x00\x53\x72" + map_of_pairs(b"\xa3\x03x-a", nested_lists(3))
    to_queue = composite(0x73, b"\x40", b"\x40", b"\xa1\x09/queues/q")
    request = encode_request("GET", queue)
    states = (ACCEPTED, RELEASED, Rejected(), Modified(delivery_failed=True, message_annotations={"x-a": "b"}), None)
    return [
        said(flow(echo=True)) + said(flow(handle=1, delivery_count=3, link_credit=9, drain=True, echo=True)),
        said(flow(handle=1, delivery_count=5, link_credit=2**32 - 1)) + happening(b"ppp") + happening(b"d"),
        b"".join(said(transfer(n), message) for n in range(4)) + said(transfer(4, settled=True), message),
        said(transfer(0, more=True), long[:2000]) + said(Transfer(handle=0), long[2000:]),
        said(transfer(0, more=True), long[:2000]) + said(Transfer(handle=0, aborted=True)),
        said(transfer(0), sections + message) + said(transfer(1), to_queue + message),
        b"".join(said(Disposition(role=True, first=n, settled=True, state=state)) for n, state in enumerate(states)),
        said(Disposition(role=True, first=0, last=4, state=ACCEPTED)) + said(Disposition(role=False, first=0, last=9)),
        said(receiver) + said(flow(handle=3, delivery_count=0, link_credit=3)) + said(Detach(handle=3, closed=True)),
        said(sender) + said(Transfer(handle=4, delivery_id=0, delivery_tag=b""), to_queue + message),
        said(dynamic) + said(flow(handle=5, delivery_count=0, link_credit=1, echo=True)),
        said(second) + said(flow(handle=6, delivery_count=0, link_credit=2)),
        said(Transfer(handle=10, delivery_id=0, delivery_tag=b"", settled=True), request),
        said(begin, channel=1) + said(receiver, channel=1) + said(End(), channel=1) + said(begin, channel=1),
        said(Detach(handle=0, closed=False)) + said(Detach(handle=1, closed=True)) + said(End()) + said(begin),
        said(Open(container_id="again", properties={"a": 1})),
        happening(b"s") + said(transfer(0), message) + happening(b"ttt") + happening(b"u"),
        happening(b"a") + said(transfer(0), message) + happening(b"c") + said(transfer(1), message),
        happening(b"f") + said(flow(handle=1, delivery_count=5, link_credit=20)) + happening(b"r"),
        happening(b"x") + said(flow(echo=True)) + said(Close()),
        record(RAW, frame(b"") + frame(zero_width_array(9), doff=3)[:20]),
        said(Close()) + said(begin, channel=1),
    ]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Scripts made of the seeds' records: shuffled, repeated, and with changed bytes in their bodies."""
    chance = random.Random(seed)
    known = [item for data in seeds() for item in records(data)]
    for _ in range(count):
        script = b""
        for kind, body in chance.choices(known, k=chance.randint(1, 12)):
            changed = bytearray(body)
            for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 4))):
                at = chance.randint(0, len(changed))
                changed[at : at + chance.randint(0, 1)] = chance.randbytes(chance.randint(0, 2))
            script += record(kind, bytes(changed))
        yield script

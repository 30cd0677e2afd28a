"""What fuzzing demands of a whole AMQP 0.9.1 connection, from its frames to the engine and back.

An input is a script of records as in ``connection_checks.py``: a frame whose envelope is right and whose payload is the
fuzzer's, bytes that are no frame, or an event around the peer. The attacker is open, has two channels, one of them in
confirm mode, and a consumer with a prefetch, so that mutated scripts reach much of the code.

For every script the following holds. No call raises. The broker comes to rest. The peer gets whole frames that it can
decode, and none after a close. The bystander is not disturbed. When the attacker has gone, nothing that it made is
left, and every message that was taken on is in its place.
"""

import random
from collections.abc import Iterator

from core.amqp091 import methods
from core.amqp091.codec import encode_method
from core.amqp091.content import entry_of
from core.amqp091.framing import FrameType, encode_frame
from core.amqp091.methods import ConnectionClose, Method
from core.amqp091.properties import BasicProperties, encode_properties
from core.engine.broker import Broker
from tests.fuzz.connection_checks import FRAME, HAPPENING, RAW, happening, record, records
from tests.kit.hostile091 import Arena091
from tests.kit.wire091 import Wire091Peer

KINDS = (FrameType.METHOD, FrameType.HEADER, FrameType.BODY)
TICK_SECONDS = 0.05
TICKS_MAX = 5
CHANNEL_MESSAGES_PER_TURN = 50


def check(data: bytes) -> None:
    """Run one script. Raises AssertionError, or the error of a call that must not raise."""
    arena = Arena091(channel_messages_per_turn=CHANNEL_MESSAGES_PER_TURN, unsent_bytes_max=2**16)
    peer = arena.attacker(1, 2)
    peer.select_confirms()
    peer.send(2, methods.BasicQos(prefetch_count=5))
    peer.consume(channel=2, consumer_tag="t")
    for kind, body in records(data):
        if kind & 3 == HAPPENING:
            happen(arena, peer, body)
        elif kind & 3 == RAW:
            peer.send_bytes(body)
        else:
            peer.send_bytes(frame(kind, body))
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


def frame(kind: int, body: bytes) -> bytes:
    """The frame of a record. The kind's high bits hold its channel and its type."""
    return encode_frame(KINDS[(kind >> 4) % len(KINDS)], (kind >> 2) & 3, body)


def happen(arena: Arena091, peer: Wire091Peer, what: bytes) -> None:
    """Let an event happen that the attacker does not cause."""
    broker = arena.broker
    there = bool(broker.engine.snapshot("queues", "q"))
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
        case b"s" if there:
            broker.stall()
        case b"u" if there:
            broker.recover()
        case b"d":
            broker.engine.delete_queue("q", broker)
            broker.run()
        case b"p" if there:
            broker.fill([b"more"] * min(len(what), 50))
        case b"x":
            peer.front_end.shut_down("enough", broker.now)
            peer.touch()
            broker.run()


def check_output(peer: Wire091Peer) -> None:
    """Check that every frame came whole, and that none followed a close but the answer to the peer's own."""
    kinds = [type(method) for _, method, _ in peer.received]
    if ConnectionClose in kinds:
        assert set(kinds[kinds.index(ConnectionClose) + 1 :]) <= {methods.ConnectionCloseOk}
    if peer._writes_left is None:
        assert not peer._buffer, "half a frame"


def check_what_is_left(engine: Broker) -> None:
    """Check that publishers, consumers and exclusive queues are gone, and that no message is lost."""
    assert len(engine.snapshot("publishers")) == len(engine.snapshot("consumers")) == 1
    for queue in engine._queues.values():
        counters = queue.counters
        gone = counters.accepted + counters.rejected + counters.purged
        assert queue.unacknowledged == 0
        assert counters.published - gone == queue.ready


# --- the scripts it starts from --------------------------------------------------------------------------------------


def said(*sent: Method, channel: int = 1) -> bytes:
    """Methods as records."""
    return b"".join(record(FRAME | channel << 2, encode_method(method)) for method in sent)


def published(body: bytes, *, channel: int = 1, announced: int | None = None, key: str = "q") -> bytes:
    """A message as three records."""
    properties = BasicProperties(delivery_mode=2, headers={"CC": ["q"], "n": 1}, reply_to="r", expiration="900")
    header = entry_of(encode_properties(properties), b"")[:4]
    header += (len(body) if announced is None else announced).to_bytes(8) + encode_properties(properties)
    return (
        said(methods.BasicPublish(routing_key=key, mandatory=True), channel=channel)
        + record(FRAME | channel << 2 | 1 << 4, header)
        + record(FRAME | channel << 2 | 2 << 4, body)
    )


def seeds() -> list[bytes]:
    """Valid scripts that use every method."""
    declare = methods.QueueDeclare(queue="own", exclusive=True, arguments={"x-max-length": 3})
    bind = methods.QueueBind(queue="own", exchange="amq.topic", routing_key="a.#")
    edge = {"destination": "amq.fanout", "source": "x"}
    tx = methods.TxCommit()
    direct = methods.BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    return [
        published(b"one") + published(b"two", key="nowhere") + published(b"", channel=2),
        said(methods.BasicAck(delivery_tag=3, multiple=True), methods.BasicAck(delivery_tag=5), channel=2),
        said(methods.BasicNack(delivery_tag=2), methods.BasicReject(delivery_tag=1, requeue=False), channel=2),
        said(methods.BasicRecover(requeue=True), methods.BasicRecoverAsync(requeue=True), channel=2),
        said(declare, bind, methods.QueuePurge(queue="own"), methods.QueueDeclare(passive=True)) + published(b"x"),
        said(methods.QueueUnbind(exchange="amq.topic"), methods.QueueDelete(queue="q", if_unused=True)),
        said(methods.ExchangeDeclare(exchange="x", type="fanout"), methods.ExchangeBind(**edge)),  # type: ignore[arg-type]
        said(methods.ExchangeUnbind(**edge), methods.ExchangeDelete(exchange="x")),  # type: ignore[arg-type]
        said(methods.TxSelect(), channel=2) + published(b"in", channel=2) + said(tx, tx, channel=2),
        said(methods.TxSelect(), methods.BasicAck(delivery_tag=1), methods.TxRollback(), channel=2),
        said(methods.BasicGet(queue="q"), methods.BasicGet(queue="q", no_ack=True), methods.BasicAck(delivery_tag=1)),
        said(
            methods.BasicConsume(queue="q", no_ack=True, arguments={"x-priority": 3}), methods.ChannelFlow(active=True)
        ),
        said(methods.BasicQos(prefetch_count=2, global_=True), methods.BasicCancel(consumer_tag="t"), channel=2),
        said(direct) + published(b"ask"),
        said(methods.ChannelClose(reply_code=200), methods.ChannelOpen(), methods.ConfirmSelect()),
        said(methods.ChannelCloseOk(), methods.AccessRequest()) + said(methods.ChannelOpen(), channel=3),
        said(methods.ConnectionClose(reply_code=200), methods.ConnectionCloseOk(), channel=0),
        said(methods.ConnectionUpdateSecret(new_secret=b"x"), channel=0) + record(RAW, b"\x08\0\0\0\0\0\0\xce"),
        happening(b"s")
        + published(b"m") * 20
        + happening(b"tt")
        + said(methods.QueuePurge(queue="q"))
        + happening(b"u"),
        happening(b"a") + published(b"m") + published(b"n") + happening(b"c"),
        happening(b"f") + said(methods.BasicConsume(queue="q")) + happening(b"pppppp") + happening(b"r"),
        happening(b"d") + published(b"m") + said(methods.BasicAck(delivery_tag=5, multiple=True), channel=2),
        happening(b"x") + said(methods.ConnectionCloseOk(), channel=0),
        published(b"short", announced=9) + said(methods.BasicQos()),
    ]


def mutated(seed: int, count: int) -> Iterator[bytes]:
    """Scripts made of the seeds' records: shuffled, repeated, and with changed bytes in their bodies."""
    chance = random.Random(seed)
    known = [item for data in seeds() for item in records(data)]
    for _ in range(count):
        script = b""
        for kind, body in chance.choices(known, k=chance.randint(1, 12)):
            changed = bytearray(body)
            for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2, 4))):
                at = chance.randint(0, len(changed))
                changed[at : at + chance.randint(0, 1)] = chance.randbytes(chance.randint(0, 2))
            script += record(kind, bytes(changed))
        yield script

"""The cost of an AMQP 0.9.1 message in the fast paths and in the generic codec: ``python -m bench.micro.runs091``.

It measures incoming publishes, outgoing deliveries, incoming acknowledgements, and the channel's outstanding
deliveries.
"""

from functools import partial

from bench.micro.timing import show
from core.amqp091 import ack_run
from core.amqp091.codec import decode_method
from core.amqp091.content import entry_of
from core.amqp091.deliver_run import encode_run
from core.amqp091.framing import FrameType, content_frames, method_frame, read_frame
from core.amqp091.methods import BasicAck, BasicDeliver, BasicPublish
from core.amqp091.properties import BasicProperties, decode_properties, encode_properties
from core.amqp091.publish_run import PublishRunParser
from core.amqp091.unacked import Unacked

FRAME_MAX = 131_072
READ_BYTES = 65_536
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
RUN = 200
"""Deliveries in a run: the prefetch count of the documents' benchmarks."""


def entry(size: int) -> bytes:
    """A persistent message."""
    return entry_of(PERSISTENT, b"x" * size)


def publish(size: int) -> bytes:
    """The frames of a persistent message to a queue."""
    return method_frame(1, BasicPublish(routing_key="queue-1")) + content_frames(1, entry(size), FRAME_MAX)


def by_runs(parser: PublishRunParser, data: bytes) -> None:
    """Take everything by the fast path, which must understand it."""
    position = 0
    while position < len(data):
        runs, position = parser.parse(data, position, len(data), 1000)
        assert runs


def one_by_one(data: bytes) -> None:
    """Take everything by the generic codec."""
    position = 0
    while position < len(data) and (frame := read_frame(data, position, FRAME_MAX)) is not None:
        if frame.frame_type == FrameType.METHOD:
            decode_method(frame.payload)
        elif frame.frame_type == FrameType.HEADER:
            decode_properties(frame.payload, 12, len(frame.payload))
        position = frame.end


def new_parser() -> PublishRunParser:
    """A parser as a connection makes it."""
    return PublishRunParser(frame_max=FRAME_MAX, body_max=2**24)


def publishes() -> None:
    """Measure incoming messages."""
    for size in (0, 12, 256, 4096):
        n = READ_BYTES // len(publish(size))
        data = publish(size) * n
        show(f"publish, generic codec, {size} B", partial(one_by_one, data), items=n)
        show(f"publish, a read of 64 KiB, {size} B", partial(by_runs, new_parser(), data), items=n)
    mixed = b"".join(publish(10 + i * 37 % 240) for i in range(RUN))
    show(f"publish, {RUN} bodies of different sizes", partial(by_runs, new_parser(), mixed), items=RUN)
    for n in (1, 10):
        show(f"publish, a run of {n}, 12 B", partial(by_runs, new_parser(), publish(12) * n), items=n)
    single = publish(12)
    show("publish, one, never seen before", lambda: by_runs(new_parser(), single))


def deliveries() -> None:
    """Measure outgoing messages."""
    deliver = BasicDeliver(consumer_tag="ctag1.0", delivery_tag=1, routing_key="queue-1")
    generic = partial(content_frames, 1, entry(12), FRAME_MAX)
    show("deliver, generic codec, 12 B", lambda: method_frame(1, deliver) + generic())
    encode = partial(encode_run, 1, "ctag1.0", 1000, False, "", "queue-1")
    for size in (0, 12, 256, 4096):
        show(f"deliver, {RUN} of {size} B", partial(encode, [entry(size)] * RUN, FRAME_MAX), items=RUN)
    mixed = [entry(10 + i * 37 % 240) for i in range(RUN)]
    show(f"deliver, {RUN} of different sizes", partial(encode, mixed, FRAME_MAX), items=RUN)
    show("deliver, one of 12 B", partial(encode, [entry(12)], FRAME_MAX))


def acknowledgements() -> None:
    """Measure acknowledgements, and finding the deliveries that they acknowledge."""
    data = b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in range(1, RUN + 1))
    backwards = b"".join(method_frame(1, BasicAck(delivery_tag=tag)) for tag in range(RUN, 0, -1))
    show("ack, generic codec", partial(one_by_one, data), items=RUN)
    show(f"ack, {RUN} in order", partial(ack_run.parse, data, 0, len(data)), items=RUN)
    show(f"ack, {RUN} backwards", partial(ack_run.parse, backwards, 0, len(backwards)), items=RUN)
    show("ack, one", partial(ack_run.parse, data, 0, len(data) // RUN))
    show(f"outstanding, {RUN} at once", lambda: outstanding(RUN, 1), items=RUN)
    show(f"outstanding, {RUN} one by one", lambda: outstanding(1, RUN), items=RUN)


def outstanding(at_once: int, times: int) -> None:
    """Deliver and acknowledge, the oldest first."""
    unacked: Unacked[str] = Unacked()
    for time in range(times):
        unacked.append("consumer", time * at_once, at_once)
    for time in range(times):
        unacked.take_range(time * at_once + 1, (time + 1) * at_once)


if __name__ == "__main__":
    publishes()
    deliveries()
    acknowledgements()

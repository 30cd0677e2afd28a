"""The cost of a settlement in the fast path and in the generic codec: ``python -m bench.micro.disposition_run``."""

from functools import partial

from amqp10.wire.disposition_run import DispositionRunParser, encode_disposition
from amqp10.wire.framing import ReceiveBuffer, encode_frame
from amqp10.wire.messaging import ACCEPTED
from amqp10.wire.performatives import RECEIVER, Disposition, decode_performative, encode_performative
from bench.micro.timing import show

FRAME_SIZE_MAX = 131_072
FIRST_ID = 1000


def dispositions(n: int, *, range_length: int) -> bytes:
    """Consecutive dispositions, from the generic encoder."""
    frames = []
    for first in range(FIRST_ID, FIRST_ID + n * range_length, range_length):
        last = None if range_length == 1 else first + range_length - 1
        performative = Disposition(role=RECEIVER, first=first, last=last, settled=True, state=ACCEPTED)
        frames.append(encode_frame(0, encode_performative(performative)))
    return b"".join(frames)


def one_by_one(data: bytes) -> None:
    """Take everything by the generic codec."""
    buffer = ReceiveBuffer()
    buffer.feed(data)
    while (bounds := buffer.next_frame(FRAME_SIZE_MAX)) is not None:
        decode_performative(buffer.data, bounds.body_start, bounds.body_end)


def main() -> None:
    """Print the table."""
    generic = dispositions(100, range_length=1)
    show("generic codec, decode", lambda: one_by_one(generic), items=100)
    single = Disposition(role=RECEIVER, first=FIRST_ID, settled=True, state=ACCEPTED)
    show("generic codec, encode", lambda: encode_frame(0, encode_performative(single)))
    for range_length in (1, 10):
        for n in (1, 85, 1000):
            data = dispositions(n, range_length=range_length)
            parser = DispositionRunParser(max_frame_size=FRAME_SIZE_MAX)
            show(
                f"{n} frames in a row, {range_length} deliveries each",
                partial(parser.parse, data, 0, limit=1000),
                items=n,
            )
    encode = partial(encode_disposition, channel=0, role=RECEIVER, first=FIRST_ID, settled=True, state=ACCEPTED)
    show("encode one delivery", partial(encode, last=FIRST_ID))
    show("encode a range", partial(encode, last=FIRST_ID + 9))


if __name__ == "__main__":
    main()

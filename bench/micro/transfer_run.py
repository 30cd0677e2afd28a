"""The cost of a message in the fast path and in the generic codec: ``python -m bench.micro.transfer_run``.

The last lines are the ones on which the design rests: one message in a run of 85 (a link credit's top-up), and alone.
"""

from functools import partial

from amqp10.wire.framing import ReceiveBuffer, encode_frame
from amqp10.wire.performatives import Transfer, decode_performative, encode_performative
from amqp10.wire.sections import DATA, Header, encode_header, encode_section
from amqp10.wire.transfer_encoding import bytes_of_tags, encode_run
from amqp10.wire.transfer_run import TransferRunParser
from bench.micro.timing import show

FRAME_SIZE_MAX = 131_072
READ_BYTES = 65_536
FIRST_ID = 1000
"""Above 255, where all clients write ids in four bytes."""


def transfer(delivery_id: int, payload: bytes) -> bytes:
    """A transfer with an eight-byte tag, by the generic encoder."""
    performative = Transfer(handle=0, delivery_id=delivery_id, delivery_tag=delivery_id.to_bytes(8), message_format=0)
    return encode_frame(0, encode_performative(performative), payload)


def transfers(payloads: list[bytes]) -> bytes:
    """Transfers in a row."""
    return b"".join(transfer(FIRST_ID + i, payload) for i, payload in enumerate(payloads))


def by_runs(parser: TransferRunParser, data: bytes) -> None:
    """Take everything by the fast path, which must understand it."""
    position = 0
    while position < len(data):
        run = parser.parse(data, position, limit=1000)
        assert run is not None
        position = run.end_position


def one_by_one(data: bytes) -> None:
    """Take everything by the generic codec."""
    buffer = ReceiveBuffer()
    buffer.feed(data)
    while (bounds := buffer.next_frame(FRAME_SIZE_MAX)) is not None:
        _, payload_start = decode_performative(buffer.data, bounds.body_start, bounds.body_end)
        _ = buffer.data[payload_start : bounds.body_end]


def parsing() -> None:
    """Measure incoming transfers."""
    for size in (12, 256, 4096):
        body = encode_section(DATA, b"x" * size)
        n = READ_BYTES // len(transfer(FIRST_ID, body))
        data = transfers([body] * n)
        parser = TransferRunParser(max_frame_size=FRAME_SIZE_MAX)
        show(f"generic codec, {size} B", partial(one_by_one, data), items=n)
        show(f"a read of 64 KiB, {size} B", partial(by_runs, parser, data), items=n)
    bodies = [encode_section(DATA, b"x" * (10 + i * 37 % 240)) for i in range(85)]
    priorities = [encode_header(Header(durable=True, priority=i % 4)) + bodies[0] for i in range(85)]
    for name, payloads in {
        "85 bodies of different sizes": bodies,
        "85 different headers": priorities,
        "a run of 85, 12 B": [encode_section(DATA, b"x" * 12)] * 85,
        "a single frame, 12 B": [encode_section(DATA, b"x" * 12)],
    }.items():
        data = transfers(payloads)
        parser = TransferRunParser(max_frame_size=FRAME_SIZE_MAX)
        show(name, partial(by_runs, parser, data), items=len(payloads))
    show("the same, never seen before", lambda: by_runs(TransferRunParser(max_frame_size=FRAME_SIZE_MAX), data))


def encoding() -> None:
    """Measure outgoing transfers."""
    for size in (12, 256, 4096):
        for n in (1, 85, 256):
            entries = [encode_section(DATA, b"x" * size)] * n
            encode = partial(
                encode_run,
                channel=0,
                handle=0,
                first_delivery_id=FIRST_ID,
                first_number=FIRST_ID,
                settled=False,
                tag_bytes=bytes_of_tags(FIRST_ID + n, settled=False),
                even=True,
            )
            show(f"encode {n} of {size} B", partial(encode, entries=entries, header=b""), items=n)


if __name__ == "__main__":
    encoding()
    parsing()

"""What fuzzing demands of every reader of a peer's bytes: values, performatives, frames, sections and SASL.

Every input goes to every reader. A reader may refuse it with the one error that it promises. A value that it accepts
must be the same after encoding and reading again, and must not depend on its place in a buffer, nor on the pieces in
which it came.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from amqp10.errors import ConnectionFault, DecodeError
from amqp10.protocol.sasl import Anonymous, SaslClient, SaslServer
from amqp10.wire import sections
from amqp10.wire.codec.decode import DEPTH_MAX, decode_value, skip_value
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.framing import SASL_FRAME, FrameBounds, ReceiveBuffer
from amqp10.wire.performatives import decode_performative, encode_performative

WIRE = Path(__file__).parent.parent / "wire"


def check(data: bytes) -> None:
    """Give the input to every reader. Raises the error that a reader must not raise, or AssertionError."""
    check_value(data)
    check_performative(data)
    check_frames(data)
    check_sections(data)
    check_sasl(data)


def check_refusal(fault: DecodeError | ConnectionFault) -> None:
    assert fault.condition.startswith("amqp:")
    assert 0 < len(str(fault)) < 800, "a text that a peer can make long"


def check_value(data: bytes) -> None:
    try:
        skipped = skip_value(data, 0, len(data), DEPTH_MAX)
    except DecodeError:
        skipped = None
    try:
        value, end = decode_value(data, 0, len(data), DEPTH_MAX)
    except DecodeError as fault:
        check_refusal(fault)
        return
    assert end == skipped
    encoded = encode_value(value)
    assert len(encoded) <= end, "the decoder took a smaller encoding than the smallest"
    again, _ = decode_value(b"~" + encoded + b"~", 1, 1 + len(encoded), DEPTH_MAX)
    # Compared as text, because 1 == True in Python, and not-a-number differs from itself.
    assert repr(again) == repr(value)


def check_performative(data: bytes) -> None:
    try:
        performative, end = decode_performative(data, 0, len(data))
    except DecodeError as fault:
        check_refusal(fault)
        return
    assert end <= len(data)
    encoded = encode_performative(performative)
    again, _ = decode_performative(b"~" + encoded, 1, 1 + len(encoded))
    assert repr(again) == repr(performative)


def frames_of(pieces: list[bytes]) -> list[object]:
    """The frames in these pieces, and the error at the end, if there is one."""
    buffer = ReceiveBuffer()
    found: list[object] = []
    for piece in pieces:
        buffer.feed(piece)
        try:
            while (frame := buffer.next_frame(max_frame_size=512)) is not None:
                found.append((frame.channel, frame.frame_type, buffer.data[frame.body_start : frame.body_end]))
        except ConnectionFault as fault:
            return [*found, str(fault)]
    return [*found, len(buffer)]


def check_frames(data: bytes) -> None:
    whole = frames_of([data])
    cut = len(data) // 3
    assert frames_of([data[:cut], data[cut:]]) == whole
    assert frames_of([data[index : index + 1] for index in range(min(len(data), 600))])[:1] == whole[:1]


def check_sections(data: bytes) -> None:
    try:
        found = sections.scan(data)
    except DecodeError as fault:
        check_refusal(fault)
        return
    covered = sorted(bounds for bounds in found[:7] if bounds is not None)
    assert [start for start, _ in covered] == [0, *(end for _, end in covered)][: len(covered)]
    assert not data or covered[-1][1] == len(data)
    try:
        if found.header is not None:
            header = sections.decode_header(data, *found.header)
            encoded = sections.encode_header(header)
            assert sections.decode_header(encoded, 0, len(encoded)) == header
        if found.properties is not None:
            properties = sections.decode_properties(data, *found.properties)
            encoded = sections.encode_properties(properties)
            assert repr(sections.decode_properties(encoded, 0, len(encoded))) == repr(properties)
        for bounds in (found.delivery_annotations, found.message_annotations, found.footer):
            if bounds is not None:
                sections.check_annotations(sections.decode_map_section(data, *bounds))
    except DecodeError as fault:
        check_refusal(fault)


def check_sasl(data: bytes) -> None:
    for side in (SaslServer([]), SaslClient([Anonymous()])):
        try:
            side.frame_received(data, FrameBounds(0, SASL_FRAME, 0, len(data)))
        except ConnectionFault as fault:
            check_refusal(fault)


def seeds() -> list[bytes]:
    """The inputs to start from: the byte vectors of tests/wire alone, as frames and as sections."""
    found = []
    for path in sorted(WIRE.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if " = " in line and not line.startswith("#"):
                encoded = bytes.fromhex(line.split(" = ", 1)[0].removeprefix("* "))
                found.append(encoded)
                found.append((len(encoded) + 8).to_bytes(4) + b"\x02\x00\x00\x01" + encoded)
                found.extend(b"\x00\x53" + bytes((section,)) + encoded for section in (0x70, 0x72, 0x73, 0x77, 0x78))
    return found


EDGES = (b"\x00", b"\x00\x53", b"\x40", b"\x45", b"\x7f", b"\x80", b"\xc0", b"\xd0", b"\xe0", b"\xf0", b"\xff" * 4)


def mutations(corpus: list[bytes], seed: int, count: int) -> Iterator[bytes]:
    """Random changes to a corpus: bytes replaced, put in, cut out, and two inputs joined."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, 4)):
            position = chance.randint(0, len(data))
            match chance.randint(0, 4):
                case 0:
                    data[position : position + 1] = bytes((chance.randint(0, 255),))
                case 1:
                    data[position:position] = chance.choice(EDGES)
                case 2:
                    del data[position : position + chance.randint(1, 8)]
                case 3:
                    data[position:] = chance.choice(corpus)
                case _:
                    data[position : position + 1] = chance.choice(EDGES)
        yield bytes(data)

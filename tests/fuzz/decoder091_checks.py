"""What fuzzing demands of every reader of a 0.9.1 peer's bytes: frames, methods, properties and field tables.

Every input goes to every reader. A reader may refuse it with a ConnectionFault and with no other error. A value that it
accepts must be the same after encoding and reading again, and must not depend on its place in a buffer.
"""

from pathlib import Path

from core.amqp091.codec import decode_method, encode_method
from core.amqp091.errors import Amqp091ConnectionFault, ReplyCode
from core.amqp091.framing import FRAME_MIN_SIZE, FrameType, encode_frame, read_frame
from core.amqp091.properties import decode_properties, encode_properties
from core.amqp091.table import decode_table, encode_long_string, encode_table

WIRE = Path(__file__).parent.parent / "wire" / "amqp091"


def check(data: bytes) -> None:
    """Give the input to every reader. Raises the error that a reader must not raise, or AssertionError."""
    check_frames(data)
    check_method(data)
    check_properties(data)
    check_table(data)
    check_table(encode_long_string(data))


def check_refusal(fault: Amqp091ConnectionFault, *codes: ReplyCode) -> None:
    assert fault.code in codes
    assert 0 < len(fault.text) < 800, "a text that a peer can make long"
    assert len(fault.reply_text.encode()) <= 255


def check_frames(data: bytes) -> None:
    offset = 0
    try:
        while (frame := read_frame(data, offset, FRAME_MIN_SIZE)) is not None:
            encoded = encode_frame(frame.frame_type, frame.channel, frame.payload)
            assert encoded == data[offset : frame.end]
            assert read_frame(data, offset, len(encoded)) == frame, "it is not larger than itself"
            assert read_frame(data[: frame.end - 1], offset, FRAME_MIN_SIZE) is None, "not whole without its end"
            offset = frame.end
            if frame.frame_type is FrameType.METHOD:
                check_method(frame.payload)
    except Amqp091ConnectionFault as fault:
        check_refusal(fault, ReplyCode.FRAME_ERROR)


def check_method(payload: bytes) -> None:
    try:
        method = decode_method(payload)
    except Amqp091ConnectionFault as fault:
        check_refusal(fault, ReplyCode.SYNTAX_ERROR, ReplyCode.NOT_IMPLEMENTED)
        return
    # Compared as text, because 1 == True in Python, and not-a-number differs from itself.
    assert repr(decode_method(encode_method(method))) == repr(method)


def check_properties(data: bytes) -> None:
    try:
        properties = decode_properties(data, 0, len(data))
    except Amqp091ConnectionFault as fault:
        check_refusal(fault, ReplyCode.SYNTAX_ERROR)
        return
    encoded = encode_properties(properties)
    assert repr(decode_properties(b"~" + encoded + b"~", 1, 1 + len(encoded))) == repr(properties)


def check_table(data: bytes) -> None:
    try:
        table, end = decode_table(data, 0)
    except Amqp091ConnectionFault as fault:
        check_refusal(fault, ReplyCode.SYNTAX_ERROR)
        return
    assert end <= len(data)
    encoded = encode_table(table)
    again, stop = decode_table(b"~" + encoded + b"~", 1)
    assert stop == 1 + len(encoded)
    assert repr(again) == repr(table)


def seeds() -> list[bytes]:
    """The inputs to start from: the byte vectors alone, as payloads of frames, and as the only field of a table."""
    found = []
    for path in sorted(WIRE.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if " = " in line and not line.startswith("#"):
                encoded = bytes.fromhex(line.split(" = ", 1)[0].removeprefix("* "))
                found += [encoded, encode_frame(FrameType.METHOD, 1, encoded), b"\x01v" + encoded]
    return found

"""Transfer and disposition frames as real clients encode them, byte by byte and without our encoder.

Clients differ in four ways: they write list8 or list32; delivery-ids in as few bytes as possible or always in four;
delivery-tags of different lengths; and they leave out the fields at the end, set them to null, or write their default.
"""

from collections.abc import Callable
from dataclasses import dataclass

TRANSFER = 0x14
DISPOSITION = 0x15

NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"
ACCEPTED = b"\x00\x53\x24\x45"
RELEASED = b"\x00\x53\x26\x45"

FORMAT_CODES = frozenset(b"\x00\x40\x41\x42\x43\x44\x45\x50\x52\x53\x56\x70\x80\xa0\xa1\xb0\xb1\xc0\xd0\xff")
"""Bytes that may turn a value into another one when they take the place of one of its bytes."""


def uint(value: int, *, fixed: bool = False) -> bytes:
    """A uint in as few bytes as possible, or in four."""
    if fixed or value > 0xFF:
        return b"\x70" + value.to_bytes(4)
    return b"\x52" + value.to_bytes(1) if value else b"\x43"


def binary(value: bytes) -> bytes:
    """A binary: vbin8 when it is short."""
    if len(value) <= 0xFF:
        return b"\xa0" + len(value).to_bytes(1) + value
    return b"\xb0" + len(value).to_bytes(4) + value


def string(value: str) -> bytes:
    """A string: str8 when it is short."""
    encoded = value.encode()
    if len(encoded) <= 0xFF:
        return b"\xa1" + len(encoded).to_bytes(1) + encoded
    return b"\xb1" + len(encoded).to_bytes(4) + encoded


def described_list(descriptor: int, fields: list[bytes], *, wide: bool = False) -> bytes:
    """A list8 or list32 whose descriptor is a small ulong."""
    elements = b"".join(fields)
    width = 4 if wide else 1
    code = b"\xd0" if wide else b"\xc0"
    size = (len(elements) + width).to_bytes(width)
    return b"\x00\x53" + bytes((descriptor,)) + code + size + len(fields).to_bytes(width) + elements


def frame(channel: int, body: bytes) -> bytes:
    """An AMQP frame."""
    return (8 + len(body)).to_bytes(4) + b"\x02\x00" + channel.to_bytes(2) + body


def data_section(content: bytes) -> bytes:
    return b"\x00\x53\x75" + binary(content)


def value_section(encoded: bytes) -> bytes:
    return b"\x00\x53\x77" + encoded


def header_section(*fields: bytes, wide: bool = False) -> bytes:
    return described_list(0x70, list(fields), wide=wide)


EMPTY_HEADER = b"\x00\x53\x70\x45"
EMPTY_PROPERTIES = b"\x00\x53\x73\x45"
DURABLE = header_section(TRUE)


@dataclass(frozen=True, slots=True)
class Client:
    """The way in which one client encodes transfers."""

    name: str
    wide: bool
    fixed: bool
    tag: Callable[[int], bytes]
    unsettled_end: tuple[bytes, ...]
    """The encoded fields from message-format on."""
    settled_end: tuple[bytes, ...]

    def transfer(
        self,
        payload: bytes,
        *,
        delivery_id: int,
        channel: int = 0,
        handle: int = 0,
        settled: bool = False,
        number: int | None = None,
    ) -> bytes:
        """One transfer frame; ``number`` makes the delivery-tag when that is not the delivery-id."""
        fields = [
            uint(handle, fixed=self.fixed),
            uint(delivery_id, fixed=self.fixed),
            binary(self.tag(delivery_id if number is None else number)),
            *(self.settled_end if settled else self.unsettled_end),
        ]
        return frame(channel, described_list(TRANSFER, fields, wide=self.wide) + payload)

    def __str__(self) -> str:
        return self.name


def _eight_bytes(number: int) -> bytes:
    return number.to_bytes(8)


def _decimal(number: int) -> bytes:
    return str(number).encode()


def _random_looking(number: int) -> bytes:
    return (number * 0x9E3779B97F4A7C15 % 2**128).to_bytes(16)


CLIENTS = (
    Client("go-amqp", True, False, _eight_bytes, (b"\x43",), (b"\x43", TRUE)),
    Client("proton", False, False, _decimal, (b"\x43",), (b"\x43", TRUE)),
    Client("rhea", True, False, _decimal, (b"\x43", FALSE, FALSE), (b"\x43", TRUE, FALSE)),
    Client("qpid-jms", False, False, _eight_bytes, (b"\x43", FALSE), (b"\x43", TRUE)),
    Client("azure", False, True, _random_looking, (NULL, FALSE, FALSE, *[NULL] * 4, TRUE), (NULL, TRUE, FALSE)),
    Client(
        "rabbitmq",
        True,
        True,
        lambda number: number.to_bytes(4),
        (b"\x70\0\0\0\0", FALSE),
        (b"\x70\0\0\0\0", TRUE),
    ),
    Client("booleans in two bytes", False, True, lambda _: b"", (NULL, b"\x56\0", b"\x56\0"), (NULL, b"\x56\x01")),
    Client("nothing but the tag", False, True, _eight_bytes, (), (NULL, TRUE)),
)

"""Messages that can be told from each other and from any other bytes: a number, filler, and a checksum over both."""

from random import Random
from zlib import crc32

_HEAD_BYTES = 12
_CHECK_BYTES = 4
_MAGIC = b"m#\xa5\x11"
_FILLER = bytes(range(256)) * 2


class CorruptMessage(AssertionError):
    """Bytes were delivered that no publisher has sent."""


def message(number: int, size: int) -> bytes:
    """The message of this number. It is some bytes longer than ``size``."""
    start = number & 0xFF
    body = _MAGIC + number.to_bytes(8, "little") + _FILLER[start : start + 64] * (size // 64)
    return body + crc32(body).to_bytes(_CHECK_BYTES, "little")


def number_of(entry: bytes) -> int:
    """The number of a message. Raises CorruptMessage."""
    body, check = entry[:-_CHECK_BYTES], entry[-_CHECK_BYTES:]
    if not body.startswith(_MAGIC) or crc32(body).to_bytes(_CHECK_BYTES, "little") != check:
        raise CorruptMessage(f"{len(entry)} bytes: {entry[:32]!r}…")
    return int.from_bytes(body[len(_MAGIC) : _HEAD_BYTES], "little")


def numbers_in(payload: bytes) -> set[int]:
    """The numbers of all messages whose beginnings are somewhere in these bytes."""
    numbers = set()
    at = payload.find(_MAGIC)
    while at >= 0:
        numbers.add(int.from_bytes(payload[at + len(_MAGIC) : at + _HEAD_BYTES], "little"))
        at = payload.find(_MAGIC, at + _HEAD_BYTES)
    return numbers


def size(rng: Random) -> int:
    """A random size: mostly small, sometimes large enough for the message store."""
    return rng.choice((0, 0, 64, 64, 256, 256, 1024, 5000, 9000) if rng.random() < 0.5 else (64,))
